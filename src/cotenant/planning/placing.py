"""The optimum over card patterns: relaxation, incumbent, listing within the gap, integer master, ties.

    1  an incumbent (greedy) gives a cost C that some placement reaches
    2  `relaxation` gives prices and a bound B; where every weight is a multiple of a step, B is rounded up to one
    3  patterns generated so far make the restricted master; its placement lowers C
    4  a placement of cost C or less uses only patterns whose reduced cost is at most C - B; `listing` has
       them all, and `partition` finds the best among them: that is the optimum, with proof
    5  `ties` settles headroom, quality and tidiness among the patterns that the optimal cost allows

Where the list of step 4 is too long, the placement is the best found and the bound stays B. `gap` is always that
of the cost. All limits count work (search nodes, patterns, branch-and-bound nodes), so an input has one answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import ceil, gcd

from cotenant.errors import SolverError
from cotenant.planning.blocks import improve_by_blocks
from cotenant.planning.greedy import place_greedily
from cotenant.planning.listing import list_patterns
from cotenant.planning.neighbourhoods import improve
from cotenant.planning.packing import place_exactly as place_compactly
from cotenant.planning.partition import Limit, Partition, trimmed
from cotenant.planning.problem import Candidate, Placement, Problem, least_headroom
from cotenant.planning.relaxation import Prices, Relaxation
from cotenant.planning.resource_bound import resource_bound
from cotenant.planning.seating import Seated, Space, Unseated, assignments_of, seat_patterns
from cotenant.planning.sites import Pattern, Seat, is_no_worse, pattern_of, seats_of, sites_of
from cotenant.planning.ties import Ties, polished

MOST_GROUPS = 150_000  # of models at sites whose patterns are priced: rounds of generation times their number
FEWEST_ROUNDS = 10
SEARCH_NODES = 400_000
QUICK_NODES = 15_000
LISTING_NODES = 30_000
MOST_STEPS = 8
MOST_LISTED = 60_000  # models times patterns of an integer program that is to prove
QUICK_MODELS = 60  # more are hardly ever proven at once, nor later unless the bound is near
NEAR_STEPS = 2
PARTS = 24
PARTS_AFTER_DIVES = 4  # the fifth and sixth took a sixth of the time and gained 0.1 % on one fleet in three
DIVES = ((60, 8), (80, 2))  # (models in a part, parts), of fleets that are not small
MOST_AT_ONCE = 300  # models: beyond, the relaxation over all of them costs more than it gains
ENOUGH = 0.005  # of a large fleet's cost: nearer to the bound, parts gain little
_TOLERANCE = 1e-6
_SMALLEST_STEP = 1e-3


def place_exactly(problem: Problem, *, optional: bool = False) -> Placement | None:
    """The best placement with its bound, or None when none was found (never with `optional`).

    With `optional`, as many models as possible are placed, those of the highest priority first. Orders that do not
    begin with the cost, and models that may stay out, go to the compact program (`packing`) as far as it reaches.
    """
    if optional or problem.objective[0] != "cost":
        return place_compactly(problem, optional=optional)
    return place_by_patterns(problem)


def place_by_patterns(problem: Problem) -> Placement | None:
    """The best placement of all models, cost first, with its bound and gap; None when none was found."""
    if not problem.cards or not all(problem.candidates):
        return None
    greedy = place_greedily(problem)
    if len(problem.names) > MOST_AT_ONCE and len(greedy.placed) == len(problem.names):
        return _place_by_blocks(problem, greedy)
    space = Space(problem, sites_of(problem), seats_of(problem))
    total = sum(site.weight * len(site.cards) for site in space.sites)
    greedy_patterns = _patterns_of(space, greedy)
    relaxation = Relaxation(problem, space.sites, space.seats, missing=total + 1.0)
    relaxation.add(_singles(space))
    relaxation.add(pattern for _, pattern in greedy_patterns or ())
    prices = relaxation.solve(rounds=_rounds(space), limit=SEARCH_NODES).prices
    if prices.bound > total + _TOLERANCE:
        return None  # even fractions of patterns leave a model out
    search = _Search(space, relaxation, prices, total, greedy_patterns)
    search.run()
    if search.best is None:
        return None
    full = Space(problem, space.sites, seats_of(problem, dominated=True))
    order = [name for name in problem.objective if name != "cost"]
    seated = Ties(full, prices, search.cost, _moved(full, space, search.best)).settle(order)
    return _placement(full, seated, min(search.bound, search.cost), search.cost)


def _place_by_blocks(problem: Problem, greedy: Placement) -> Placement:
    """Large fleets: parts one after the other under the bound of memory; precisions are polished at the end."""
    weights = [problem.weight(card) for card in problem.cards]
    bound = rounded_up(resource_bound(problem), weights)
    models = len(problem.names)
    found = improve_by_blocks(
        problem, greedy, parts=((60, models // 20), (130, models // 100)),
        step=step_of(weights), enough=bound / (1 - ENOUGH),
    )  # fmt: skip
    best = Placement(found, 0.0, 0.0, None, proven=False)
    full = Space(problem, sites_of(problem), seats_of(problem, dominated=True))
    seated = _patterns_of(full, best)
    if seated is None:
        raise SolverError("a part of a large fleet lost a model")
    cost = _cost(full, seated)
    order = [name for name in problem.objective if name != "cost"]
    return _placement(full, polished(full, seated, order), min(bound, cost), cost)


def _rounds(space: Space) -> int:
    return max(FEWEST_ROUNDS, MOST_GROUPS // (len(space.problem.names) * len(space.sites)))


class _Search:
    """The best placement and the bound as they close in on each other."""

    def __init__(
        self, space: Space, relaxation: Relaxation, prices: Prices, total: float, best: Seated | None
    ) -> None:
        self._space, self._relaxation, self._prices, self._total = space, relaxation, prices, total
        weights = [site.weight for site in space.sites]
        self._step = step_of(weights)
        self._partition = Partition(space)
        self.best = best
        self.bound = max(rounded_up(prices.bound, weights), resource_bound(space.problem))

    @property
    def cost(self) -> float:
        """Of the best placement; of all cards together where there is none yet."""
        return _cost(self._space, self.best) if self.best else self._total

    def run(self) -> None:
        """Proof by short lists, then a dive and better parts, then proof by what lists are possible."""
        few = len(self._space.problem.names) <= QUICK_MODELS
        if few and self._prove(QUICK_NODES):
            return
        self._dive()
        if not few:
            self._dive_in_parts()
        if self.best is not None and not self._is_closed():
            self.best = improve(
                self._space,
                self._relaxation,
                self._prices,
                self.best,
                rounds=PARTS if few else PARTS_AFTER_DIVES,
                enough=self.bound,
                step=self._step,
            )
        if few or self.cost - self.bound <= NEAR_STEPS * self._step + _TOLERANCE:
            self._prove(LISTING_NODES)

    def _dive_in_parts(self) -> None:
        """Parts solved by dives: a third of what programs over them take, and most of what they find."""
        if self.best is None or self._is_closed():
            return
        start = Placement(assignments_of(self._space, self.best), 0.0, 0.0, None, proven=False)
        found = improve_by_blocks(
            self._space.problem, start, parts=DIVES, step=self._step, enough=self.bound
        )  # fmt: skip
        self.best = _patterns_of(self._space, Placement(found, 0.0, 0.0, None, proven=False))

    def _is_closed(self) -> bool:
        return self.best is not None and self.cost <= self.bound + _TOLERANCE

    def _prove(self, nodes: int) -> bool:
        """Whether the best is proven now: step by step from the bound, then by one list of all that is cheaper."""
        far = self._step > 0 and self.cost - self.bound > MOST_STEPS * self._step + _TOLERANCE
        for _ in range(MOST_STEPS):
            ahead = 0.0 if self._step else (self.cost - self.bound) / MOST_STEPS
            if self._is_closed():
                return True
            if not self._ask(self.bound + ahead, nodes * 2 // 5 if far else nodes):
                if far:
                    return False  # a list of all that is cheaper would be longer still
                break
        if not self._is_closed():
            self._ask(self.cost - self._step if self.best else self._total, nodes)
        return self._is_closed()

    def _ask(self, most: float, nodes: int) -> bool:
        """Look at every placement that costs `most` or less: the cheapest becomes the best; without one the bound
        goes above `most`. Whether that could be done within `nodes` of listing."""
        listing = list_patterns(self._space, self._prices, most, most_nodes=nodes)
        if not listing.complete or len(listing.patterns) * len(self._space.problem.names) > MOST_LISTED:
            return False
        cost = Limit(lambda one: self._space.sites[one.site].weight, lambda _: 0.0, most + _TOLERANCE)
        found = self._partition.minimise(
            listing.patterns,
            weigh=cost.weigh,
            limits=(cost,),
            absolute_gap=max(_TOLERANCE, 0.4 * self._step),
        )
        if found is not None:
            self.best = found.seated
            self.bound = max(self.bound, found.value if found.optimal else found.bound)
            return found.optimal
        if not self._partition.exhausted:
            self.bound = max(self.bound, most + self._step)
        return not self._partition.exhausted

    def _dive(self) -> None:
        models = len(self._space.problem.names)
        counts = self._relaxation.dive(
            rounds=_rounds(self._space) * 3 // 5, at_once=1 + (models - 1) // 100, limit=2 * SEARCH_NODES
        )
        if counts is None:
            return
        seated = seat_patterns(self._space, trimmed(self._space, counts), {})
        if not isinstance(seated, Unseated) and (self.best is None or _cost(self._space, seated) < self.cost):
            self.best = seated
            self._relaxation = self._relaxation.whole()


def _placement(space: Space, seated: Seated, bound: float, cost: float) -> Placement:
    assignments = assignments_of(space, seated)
    gap = 0.0 if cost <= bound + _TOLERANCE else (cost - bound) / cost
    least = least_headroom(space.problem, assignments)
    return Placement(assignments, cost, bound, gap, proven=gap == 0.0, least_headroom=least)


def step_of(weights: Sequence[float]) -> float:
    """The largest step of which every weight is a multiple; 0 where that is finer than a tenth of a cent."""
    scaled = [round(weight * 1e6) for weight in weights]
    if any(abs(weight * 1e6 - whole) > 1e-3 for weight, whole in zip(weights, scaled, strict=True)):
        return 0.0
    step = gcd(*scaled) / 1e6
    return step if step >= _SMALLEST_STEP else 0.0


def rounded_up(bound: float, weights: Sequence[float]) -> float:
    """The least multiple of the weights' step that is not below `bound`."""
    step = step_of(weights)
    return ceil((bound - _TOLERANCE) / step) * step if step else bound


def _cost(space: Space, seated: Seated) -> float:
    return sum(space.sites[pattern.site].weight for _, pattern in seated)


def _singles(space: Space) -> list[Pattern]:
    """Every seat alone on a card of every site that takes it."""
    found = []
    for number, site in enumerate(space.sites):
        for place, seat in enumerate(space.seats):
            if seat.offer == site.offer and seat.request not in site.barred:
                ways = space.problem.candidates[seat.request]
                fitting = [each for each in seat.options if site.holds(ways[each])]
                if fitting:
                    option = min(fitting, key=lambda each: (ways[each].claim_bytes, each))
                    found.append(pattern_of(space.problem, space.sites, number, ((seat, place, option),)))
    return found


def _patterns_of(space: Space, placement: Placement) -> Seated | None:
    """A placement as patterns on cards; None where it leaves a model out."""
    if len(placement.placed) < len(space.problem.names):
        return None
    seats: dict[int, list[tuple[int, Seat]]] = defaultdict(list)
    for number, seat in enumerate(space.seats):
        seats[seat.request].append((number, seat))
    on: dict[int, list[tuple[Seat, int, int]]] = defaultdict(list)
    for each in placement.assignments:
        triple = _seat_for(space, seats[each.candidate.request], each.candidate)
        for card in each.each_card():
            on[card].append(triple)
    site_of = {card: number for number, site in enumerate(space.sites) for card in site.cards}
    return [
        (card, pattern_of(space.problem, space.sites, site_of[card], tuple(triples)))
        for card, triples in on.items()
    ]


def _seat_for(space: Space, seats: Sequence[tuple[int, Seat]], candidate: Candidate) -> tuple[Seat, int, int]:
    """The seat, of those of its model, and option that take the place of a candidate: itself, or one that
    dominates it."""
    for number, seat in seats:
        if seat.offer != candidate.offer:
            continue
        if (seat.ranks, seat.tensor_parallel_size) != (candidate.ranks, candidate.tensor_parallel_size):
            continue
        for option in seat.options:
            if is_no_worse(space.problem.candidates[seat.request][option], candidate):
                return seat, number, option
    raise ValueError(f"{candidate} has no seat")


def _moved(full: Space, space: Space, seated: Seated) -> Seated:
    """The same patterns with the seat numbers of the space that holds every option."""
    found = {}
    for number, seat in enumerate(full.seats):
        for option in seat.options:
            found[seat.request, option] = (seat, number, option)
    return [
        (
            card,
            pattern_of(
                full.problem, full.sites, one.site,
                tuple(found[space.seats[seat].request, option]
                      for seat, option in zip(one.seats, one.options, strict=True)),
            ),
        )
        for card, one in seated
    ]  # fmt: skip
