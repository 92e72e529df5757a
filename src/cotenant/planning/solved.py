"""The search: candidates of every model, the cards, and the best placement on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cotenant.domain.fleet import Fleet
from cotenant.planning.candidates import all_ways
from cotenant.planning.cards import cards_of
from cotenant.planning.greedy import place_greedily
from cotenant.planning.placing import QUICK_MODELS, place_exactly
from cotenant.planning.problem import Candidate, Placement, Problem
from cotenant.planning.seated import told_against
from cotenant.planning.sites import is_patient
from cotenant.planning.ways import Ways

Progress = Callable[[str], None]
_SAME_COST = 1e-6


@dataclass(frozen=True, slots=True)
class Solved:
    """A fleet with everything that was found on the way to its placement.

    `calm` is the placement in which every SLO also holds beside busy neighbours, where there is one.
    """

    fleet: Fleet
    ways: tuple[Ways, ...]
    problem: Problem
    placement: Placement
    calm: Placement | None
    feasible: bool
    lacks_spare: bool = False  # all have a place, but no card is left for what fails
    fold_saves: float | None = None  # what folding adapters onto one base saved (None also: without it, no plan)
    asked: Fleet | None = None  # the fleet before models were folded
    dealt: Dealt | None = None  # where models take turns


@dataclass(frozen=True, slots=True)
class Dealt:
    """A fleet whose models are the groups that take turns, as it was `solved`; `expanded` tells one of its
    placements by the models themselves, `held` whether host memory holds all that sleep in one."""

    solved: Solved
    expanded: Callable[[Placement], Placement]
    held: Callable[[Placement], bool]


def solve(fleet: Fleet, *, progress: Progress = lambda _: None) -> Solved:
    """The placement of a fleet: of all its models where they fit, of as many as possible where they do not.

    SLOs are held against each model alone. Of placements that cost the same, one in which they also hold beside
    busy neighbours is taken; where that would cost more, the plan warns and says how much.
    """
    ways = all_ways(fleet)
    progress("packing")
    return solve_ways(fleet, ways)


def solve_ways(fleet: Fleet, ways: tuple[Ways, ...], *, nearest: bool = True, strictly: bool = False) -> Solved:
    """The same for given ways to serve each model. Without `nearest`, nothing is placed where not all fit; with
    `strictly`, everybody's slack holds whatever that costs."""
    problem = problem_of(fleet, [each.candidates for each in ways])
    nothing = Solved(fleet, ways, problem, Placement((), 0.0, 0.0, None, proven=False), None, feasible=False)
    if not nearest and not all(problem.candidates):
        return nothing
    if strictly:
        strict = place_exactly(problem)
        return nothing if strict is None else Solved(fleet, ways, problem, strict, strict, feasible=True)
    relaxed = replace(problem, contention=False)
    cheapest, strict = _cheapest_and_strict(problem, relaxed)
    if cheapest is None and not nearest:
        return nothing
    if cheapest is None:
        most = place_exactly(relaxed, optional=True) or Placement((), 0.0, 0.0, None, proven=False)
        return Solved(fleet, ways, relaxed, most, None, feasible=False)
    if strict is not None and strict.objective_value <= cheapest.objective_value + _SAME_COST:
        strict = told_against(strict, min(cheapest.lower_bound, strict.objective_value))
        return Solved(fleet, ways, problem, strict, strict, feasible=True)
    return Solved(fleet, ways, relaxed, cheapest, strict, feasible=True)


def _cheapest_and_strict(problem: Problem, relaxed: Problem) -> tuple[Placement | None, Placement | None]:
    """(the cheapest placement, the cheapest in which every SLO holds beside busy neighbours). Beyond a proof the
    cheapest is looked for first and longest: whoever is asked to keep every SLO too has its cost to aim at."""
    if is_patient(problem):
        strict = place_exactly(problem)
        return strict, strict
    if len(problem.names) <= QUICK_MODELS:
        strict = place_exactly(problem)
        return place_exactly(relaxed) or strict, strict
    cheapest = place_exactly(relaxed)
    strict = None if cheapest is None else place_exactly(problem, aim=cheapest.objective_value)
    return cheapest, strict


def is_feasible(fleet: Fleet) -> bool:
    """Whether every model of the fleet finds a place."""
    ways = all_ways(fleet)
    problem = replace(problem_of(fleet, [each.candidates for each in ways]), contention=False)
    return all(problem.candidates) and place_exactly(problem, settled=False) is not None


def problem_of(fleet: Fleet, ways: Sequence[Sequence[Candidate]], *, bought_within: bool = True) -> Problem:
    """Candidates, cards and wishes; the shop cut to what the greedy plan's cost buys (unless told not to)."""
    candidates = tuple(map(tuple, ways))
    index = {request.name: number for number, request in enumerate(fleet.models)}
    problem = Problem(
        names=tuple(request.name for request in fleet.models),
        candidates=candidates,
        cards=cards_of(fleet, candidates),
        apart=frozenset(
            frozenset((number, index[other]))
            for number, request in enumerate(fleet.models)
            for other in request.apart_from
            if other in index
        ),
        alone=frozenset(
            number for number, request in enumerate(fleet.models) if "co-resident" not in request.sharing
        ),
        pins={
            number: frozenset(request.pin_gpus) for number, request in enumerate(fleet.models) if request.pin_gpus
        },
        spread=frozenset(number for number, request in enumerate(fleet.models) if request.spread),
        objective=fleet.objective,
        priorities=tuple(request.priority for request in fleet.models),
    )
    if not bought_within or not problem.priced:
        return problem
    greedy = place_greedily(problem)
    if len(greedy.placed) < len(fleet.models):
        return problem
    return replace(problem, cards=cards_of(fleet, candidates, budget=greedy.objective_value))


def forced_of(solved: Solved) -> Callable[[Candidate], Placement | None] | None:
    """What the plan would be, were one model served in another way; None where not all models have a
    place, some take turns, or a spare is kept."""
    if not solved.feasible or solved.placement.turns or solved.placement.spare:
        return None

    def forced(other: Candidate) -> Placement | None:
        ways = [
            (other,) if number == other.request else each.candidates for number, each in enumerate(solved.ways)
        ]
        problem = replace(problem_of(solved.fleet, ways), contention=solved.problem.contention)
        found = place_exactly(problem, settled=False)
        if found is None or found.objective_value > solved.placement.objective_value + _SAME_COST:
            return found  # what it costs says enough
        return place_exactly(problem)

    return forced
