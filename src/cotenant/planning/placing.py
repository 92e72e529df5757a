"""The optimum over card patterns: relaxation, incumbent, listing within the gap, integer master, ties.

    1  an incumbent (greedy) gives a cost C that some placement reaches
    2  `relaxation` gives prices and a bound B; where every weight is a multiple of a step, B is rounded up to one
    3  patterns generated so far make the restricted master; its placement lowers C
    4  `proof` lists the patterns that a placement of cost C or less may use, and finds the best among them: that
       is the optimum, with proof
    5  `ties` settles headroom, quality and tidiness among the patterns that the optimal cost allows
    6  engines read as many tokens a step as by themselves, unless other numbers make a cheaper placement: that of
       their own is found first; where it costs more, it is theirs again wherever there is room (`own_steps`)

Fleets of more than `QUICK_MODELS` go another way (`large`). Where the list of step 4 is too long, the placement is
the best found and the bound stays B. `gap` is always that of the cost. All limits count work (search nodes,
patterns, branch-and-bound nodes), so an input has one answer.
"""

from __future__ import annotations

from cotenant.planning.greedy import place_greedily
from cotenant.planning.large import FEWEST_ROUNDS, LISTING_NODES, MOST_GROUPS, SEARCH_NODES, place_large
from cotenant.planning.neighbourhoods import improve
from cotenant.planning.own_steps import of_own_steps, with_own_steps
from cotenant.planning.packing import place_exactly as place_compactly
from cotenant.planning.partition import trimmed
from cotenant.planning.problem import Placement, Problem
from cotenant.planning.proof import Proof
from cotenant.planning.relaxation import Relaxation
from cotenant.planning.resource_bound import is_short, resource_bound
from cotenant.planning.seated import (
    cost_of,
    moved,
    patterns_of,
    placement_of,
    rounded_up,
    singles_of,
    step_of,
    told_against,
)
from cotenant.planning.seating import Space, Unseated, seat_patterns
from cotenant.planning.sites import is_patient, seats_of, sites_of
from cotenant.planning.ties import Ties

QUICK_NODES = 15_000
QUICK_MODELS = 60  # more are hardly ever proven at once, nor later unless the bound is near
PARTS = 24
_TOLERANCE = 1e-6


def place_exactly(
    problem: Problem, *, optional: bool = False, aim: float | None = None, settled: bool = True
) -> Placement | None:
    """The best placement with its bound, or None when none was found (never with `optional`).

    With `optional`, as many models as possible are placed, those of the highest priority first. Orders that do not
    begin with the cost, and models that may stay out, go to the compact program (`packing`) as far as it reaches.
    `aim` is a cost that need not be beaten: of large fleets the search ends there. Without `settled` small fleets
    get any placement of the least cost, whatever comes after it in the objective.
    """
    if optional or problem.objective[0] != "cost":
        found = place_compactly(problem, optional=optional)
    else:
        found = place_by_patterns(problem, aim, settled=settled)
    return None if found is None else with_own_steps(problem, found)


def place_by_patterns(problem: Problem, aim: float | None = None, *, settled: bool = True) -> Placement | None:
    """The best placement of all models, cost first, with its bound and gap; None when none was found."""
    if not problem.cards or not all(problem.candidates) or is_short(problem):
        return None
    if len(problem.names) > QUICK_MODELS:
        return place_large(problem, aim)
    own = of_own_steps(problem)
    if own is problem:
        return _place_small(problem, place_greedily(problem), settled=settled)
    first = _place_small(own, place_greedily(own), settled=settled)
    if first is None:
        return _place_small(problem, place_greedily(problem), settled=settled)
    # Where neighbours' work counts, the seats of all steps would be twice as many and none stand for another.
    return first if not is_patient(problem) else _place_small(problem, first, known=True, settled=settled)


def _place_small(
    problem: Problem, start: Placement, *, known: bool = False, settled: bool = True
) -> Placement | None:
    """From `start`; where that is `known` to hold all models, it stays unless short lists have a cheaper one."""
    space = Space(problem, sites_of(problem), seats_of(problem))
    total = sum(site.weight * len(site.cards) for site in space.sites)
    best = patterns_of(space, start)
    relaxation = Relaxation(problem, space.sites, space.seats, missing=total + 1.0)
    relaxation.add(singles_of(space))
    relaxation.add(pattern for _, pattern in best or ())
    rounds = max(FEWEST_ROUNDS, MOST_GROUPS // (len(problem.names) * len(space.sites)))
    prices = relaxation.solve(rounds=rounds, limit=SEARCH_NODES).prices
    if prices.bound > total + _TOLERANCE:
        return None  # even fractions of patterns leave a model out
    weights = [site.weight for site in space.sites]
    bound = max(rounded_up(prices.bound, weights), resource_bound(problem))
    proof = Proof(space, prices, step_of(weights), total, best, bound)
    if not proof.prove(QUICK_NODES) and not known:
        _improve(proof, relaxation, rounds)
        proof.prove(LISTING_NODES)
    if proof.best is None:
        return None
    if known and proof.cost >= start.objective_value - _TOLERANCE:
        return told_against(start, min(proof.bound, start.objective_value))
    full = Space(problem, space.sites, seats_of(problem, dominated=True))
    seated = moved(full, space, proof.best)
    if settled:
        order = [name for name in problem.objective if name != "cost"]
        seated = Ties(full, prices, proof.cost, seated).settle(order)
    return placement_of(full, seated, min(proof.bound, proof.cost), proof.cost)


def _improve(proof: Proof, relaxation: Relaxation, rounds: int) -> None:
    """A dive, then better parts, where the best is not proven by short lists."""
    space = proof.space
    counts = relaxation.dive(rounds=rounds * 3 // 5, at_once=1, limit=2 * SEARCH_NODES)
    if counts is not None:
        seated = seat_patterns(space, trimmed(space, counts), {})
        if not isinstance(seated, Unseated) and (proof.best is None or cost_of(space, seated) < proof.cost):
            proof.best, relaxation = seated, relaxation.whole()
    if proof.best is not None and not proof.is_closed:
        proof.best = improve(
            space, relaxation, proof.prices, proof.best, rounds=PARTS, enough=proof.bound, step=proof.step
        )
