"""Adapters on one base folded into one process, where that costs less.

Considered are models with the same weights (`folding.twins`) of which at least one brings adapters, on an engine
that answers to several names, so that no client has to ask otherwise than before. With few such groups every
choice of them is solved; with more, each alone and all together. That is the declared space, and the least of the
bounds is its bound. Processes never share weights: without folding, each of them holds the base for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf

from cotenant.domain.fleet import Fleet
from cotenant.engines import find_engine
from cotenant.engines.names import takes_several
from cotenant.planning.folding import folded, twins
from cotenant.planning.solved import Progress, Solved

MOST_GROUPS = 3  # whose every choice is solved
MOST_MODELS = 40  # of fleets that are solved again
Group = tuple[str, ...]


def foldable(fleet: Fleet) -> tuple[Group, ...]:
    """Groups of models, by name, that one process could serve with all their adapters and names."""
    found = []
    for numbers in twins(fleet):
        requests = [fleet.models[number] for number in numbers]
        if any(one.adapters for one in requests) and takes_several(find_engine(requests[0].engine)[0].name):
            found.append(tuple(one.name for one in requests))
    return tuple(found)


def with_folds(apart: Solved, solve: Callable[[Fleet], Solved], *, progress: Progress = lambda _: None) -> Solved:
    """The cheaper of `apart`, every model in a process of its own, and the best with models folded."""
    groups = foldable(apart.fleet)
    if not groups or len(apart.fleet.models) > MOST_MODELS or apart.fleet.objective[0] != "cost":
        return apart
    cost = _cost(apart)
    if apart.feasible and apart.placement.proven and _is_least(apart):
        return apart
    best, bound = apart, apart.placement.lower_bound if apart.feasible else inf
    for chosen in _choices(groups):
        progress(f"with {' and '.join(' + '.join(group) for group in chosen)} as one process")
        found = solve(_with(apart.fleet, chosen))
        if found.feasible:
            bound = min(bound, found.placement.lower_bound)
            if _cost(found) < _cost(best) - 1e-6:
                best = found
    if best is apart:
        return apart if not apart.feasible or bound >= apart.placement.lower_bound else _bounded(apart, bound)
    saved = None if cost == inf else cost - _cost(best)
    return replace(_bounded(best, bound), fold_saves=saved, asked=apart.fleet)


def _cost(solved: Solved) -> float:
    return solved.placement.objective_value if solved.feasible else inf


def _is_least(solved: Solved) -> bool:
    """Whether it takes no more than the cheapest card: nothing folded can cost less."""
    cheapest = min((solved.problem.weight(card) for card in solved.problem.cards), default=0.0)
    return solved.placement.objective_value <= cheapest + 1e-9


def _choices(groups: Sequence[Group]) -> Iterator[tuple[Group, ...]]:
    if len(groups) > MOST_GROUPS:
        yield from ((group,) for group in groups)
        yield tuple(groups)
        return
    for size in range(1, len(groups) + 1):
        yield from combinations(groups, size)


def _with(fleet: Fleet, chosen: Sequence[Group]) -> Fleet:
    for group in chosen:
        fleet = folded(fleet, [number for number, one in enumerate(fleet.models) if one.name in group])
    return fleet


def _bounded(solved: Solved, bound: float) -> Solved:
    """With the bound of all that was tried; nothing is claimed where its own search claimed nothing."""
    placement = solved.placement
    bound = min(bound, placement.objective_value)
    if placement.gap is None:
        return replace(solved, placement=replace(placement, lower_bound=bound))
    gap = 0.0 if placement.objective_value <= bound + 1e-6 else 1 - bound / placement.objective_value
    return replace(solved, placement=replace(placement, lower_bound=bound, gap=gap, proven=gap == 0.0))
