"""Fleets of more models than a proof reaches: cards filled one after another, then better parts, under a bound.

1  a bound: the relaxation's to `MOST_AT_ONCE` models, that of memory beyond, which is near then
2  `filling` by the worth that the bound's prices give, several passes
3  parts solved anew by relaxation and dive (`blocks`), where a good deal is left to gain
4  where the bound is a step or two away, a proof (`proof`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from cotenant.errors import SolverError
from cotenant.planning.blocks import improve_by_blocks
from cotenant.planning.filling import filled
from cotenant.planning.greedy import place_greedily
from cotenant.planning.neighbourhoods import improve
from cotenant.planning.partition import trimmed
from cotenant.planning.patterns import PatternSearch
from cotenant.planning.problem import Placement, Problem
from cotenant.planning.proof import Proof
from cotenant.planning.relaxation import Prices, Relaxation
from cotenant.planning.resource_bound import resource_bound, resource_prices
from cotenant.planning.seated import (
    cost_of,
    moved,
    patterns_of,
    placement_of,
    rounded_up,
    singles_of,
    step_of,
)
from cotenant.planning.seating import Seated, Space, Unseated, assignments_of, seat_patterns
from cotenant.planning.sites import seats_of, sites_of
from cotenant.planning.ties import Ties, polished

MOST_AT_ONCE = 300  # models: beyond, the relaxation over all of them costs more than it gains
MOST_GROUPS = 150_000  # of models at sites whose patterns are priced: rounds of generation times their number
FEWEST_ROUNDS = 10
SEARCH_NODES = 400_000
LISTING_NODES = 30_000
NEAR_STEPS = 2
PASSES = (30, 6)  # of filling: up to `MOST_AT_ONCE`, and beyond
PARTS = ((60, 8), (80, 2))  # (models in a part, parts)
PATIENCE = 2  # looks at each model that gain nothing, where there is an aim: no more
REACH = 0.02  # of an aim: parts gain no more
PROGRAMS = 24  # parts solved by integer programs at last
IDLE = 6  # of them in a row that gain nothing: no more
NEAR = 0.0095  # of the cost: no programs where the bound is nearer
ENOUGH = 0.01  # of the cost: nearer to the bound of memory, passes and parts gain little
LEAST_GAIN = (0.0, 0.001)  # of the cost: a pass of filling that gains less is the last
_TOLERANCE = 1e-6


def place_large(problem: Problem, aim: float | None = None) -> Placement | None:
    """The best placement found of all models, cost first, with its bound and gap; None when none was found.

    `aim` is a cost that need not be beaten: the search ends there, and is short where it does not get there soon.
    """
    search = _Search(problem, aim)
    if len(problem.names) <= MOST_AT_ONCE:
        search.relax()
    if search.is_impossible:
        return None
    search.fill()
    if search.best is None:
        search.take(search.dived())
    if search.best is None:
        return None
    search.improve()
    search.prove()
    return search.placement()


@dataclass(slots=True)
class _Search:
    problem: Problem
    aim: float | None
    space: Space = field(init=False)
    searches: list[PatternSearch] = field(init=False)
    weights: list[float] = field(init=False)
    total: float = field(init=False)
    bound: float = field(init=False)
    best: Seated | None = None
    relaxation: Relaxation | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        problem = self.problem
        self.space = space = Space(problem, sites_of(problem), seats_of(problem))
        self.searches = [
            PatternSearch(problem, space.sites, number, space.seats) for number in range(len(space.sites))
        ]
        self.weights = [site.weight for site in space.sites]
        self.total = sum(site.weight * len(site.cards) for site in space.sites)
        self.bound = rounded_up(resource_bound(problem), self.weights)

    @property
    def cost(self) -> float:
        return cost_of(self.space, self.best) if self.best else self.total

    @property
    def is_impossible(self) -> bool:
        """Whether even fractions of patterns leave a model out."""
        return self.prices is not None and self.prices.bound > self.total + _TOLERANCE

    @property
    def rounds(self) -> int:
        return max(FEWEST_ROUNDS, MOST_GROUPS // (len(self.problem.names) * len(self.space.sites)))

    def relax(self) -> None:
        self.relaxation = Relaxation(
            self.problem, self.space.sites, self.space.seats, missing=self.total + 1.0, searches=self.searches
        )  # fmt: skip
        self.relaxation.add(singles_of(self.space))
        self.prices = self.relaxation.solve(rounds=self.rounds, limit=SEARCH_NODES).prices
        self.bound = max(self.bound, rounded_up(self.prices.bound, self.weights))

    def fill(self) -> None:
        """What filling finds; greedy where that is nothing."""
        worth = self.prices.models if self.prices is not None else resource_prices(self.problem)
        many = len(self.problem.names) > MOST_AT_ONCE
        found = filled(
            self.space, self.searches, worth,
            passes=PASSES[many], enough=self.enough, least_gain=LEAST_GAIN[many],
        )  # fmt: skip
        self.take(found)
        if self.best is None:
            self.take(patterns_of(self.space, place_greedily(self.problem)))

    @property
    def near(self) -> float:
        """The cost at which programs, the slowest of all steps, gain too little."""
        return self.bound / (1 - NEAR)

    @property
    def enough(self) -> float:
        """The cost at which a search may end."""
        least = self.bound / (1 - ENOUGH) if self.prices is None else self.bound
        return least if self.aim is None else max(least, self.aim)

    def take(self, seated: Seated | None) -> None:
        """Keep it where it is the cheapest yet."""
        if seated is not None and (self.best is None or cost_of(self.space, seated) < self.cost - _TOLERANCE):
            self.best = seated

    def dived(self) -> Seated | None:
        """All models at once by rounding the relaxation, however long that takes."""
        if self.relaxation is None:
            self.relax()
        if self.relaxation is None or self.is_impossible:
            return None
        at_once = 1 + (len(self.problem.names) - 1) // 100
        counts = self.relaxation.dive(rounds=self.rounds * 3 // 5, at_once=at_once, limit=2 * SEARCH_NODES)
        self.relaxation = self.relaxation.whole()
        if counts is None:
            return None
        seated = seat_patterns(self.space, trimmed(self.space, counts), {})
        return None if isinstance(seated, Unseated) else seated

    def improve(self) -> None:
        """Parts solved anew until the cost is near the bound; without an aim from another start too, then by
        programs. An aim that is out of reach is not worth any."""
        if self.aim is not None and self.cost > self.aim * (1 + REACH):
            return
        self._improve_parts(self.best, patience=inf if self.aim is None else PATIENCE)
        if self.aim is not None or self.cost <= self.near + _TOLERANCE:
            return
        if self.relaxation is None or self.prices is None:
            return
        self._improve_parts(self.dived())
        if self.best is not None and self.cost > self.near + _TOLERANCE:
            self.best = improve(
                self.space, self.relaxation, self.prices, self.best,
                rounds=PROGRAMS, enough=self.near, step=step_of(self.weights), idle=IDLE,
            )  # fmt: skip

    def _improve_parts(self, start: Seated | None, patience: float = inf) -> None:
        if start is None:
            return
        found = improve_by_blocks(
            self.problem, Placement(assignments_of(self.space, start), 0.0, 0.0, None, proven=False),
            parts=PARTS, step=step_of(self.weights), enough=self.enough, patience=patience,
        )  # fmt: skip
        self.take(patterns_of(self.space, Placement(found, 0.0, 0.0, None, proven=False)))

    def prove(self) -> None:
        """Look at all that is cheaper, where that is a step or two."""
        step = step_of(self.weights)
        if self.aim is not None or self.prices is None or self.cost - self.bound > NEAR_STEPS * step + _TOLERANCE:
            return
        proof = Proof(self.space, self.prices, step, self.total, self.best, self.bound)
        proof.prove(LISTING_NODES)
        self.best, self.bound = proof.best, proof.bound

    def placement(self) -> Placement:
        """The best, with what else decides settled as far as that reaches."""
        if self.best is None:
            raise SolverError("a large fleet lost its placement")
        cost = self.cost
        full = Space(self.problem, self.space.sites, seats_of(self.problem, dominated=True))
        seated = moved(full, self.space, self.best)
        order: Sequence[str] = [name for name in self.problem.objective if name != "cost"]
        if self.prices is None:
            seated = polished(full, seated, order)
        else:
            seated = Ties(full, self.prices, cost, seated).settle(order)
        return placement_of(full, seated, min(self.bound, cost), cost)
