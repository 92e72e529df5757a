"""Whose cache is too small for the time that its neighbours take: what a plan without a replay does not size.

Each model is sized as if it had its card to itself. Beside neighbours its steps take longer, so more requests are
in flight, which hold more cache and are in the others' way for longer. By Little's law over stretched steps,

    pace_i = 1 + sum over the others j on its card of (1 - exp(-N_j)),      N_i = rate_i x S_i(pace_i)

with N the mean number in service: a model shares time with whoever has work just then. Going round from pace 1
comes to rest from below. Where the cache that is then in flight exceeds the pool more often than the SLO grants
misses, or no state is steady, a sentence names the model, its neighbours and both figures.

It is told, not mended: a mean pace says that a pool is short, not that a larger one keeps the SLO through bursts.
A replay does (`promise`), which sizes and solves anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import exp

from cotenant.domain.demand import Demand
from cotenant.planning.candidates import is_proven_size
from cotenant.planning.case import Case
from cotenant.planning.judged import Judged
from cotenant.planning.precisions import precisions_of
from cotenant.planning.problem import Assignment, Candidate
from cotenant.planning.sizing import demand_of
from cotenant.planning.solved import Solved
from cotenant.planning.splits import split_of
from cotenant.units import format_gib, format_percent, listed

_ROUNDS = 12
_STEADY = 0.01  # of a pace: nearer is settled


def crowded_of(solved: Solved) -> tuple[str, ...]:
    """A sentence for each model with an SLO whose pool is short beside its neighbours. Models that take turns, and
    fleets too large to be looked at model by model, are left out."""
    if not solved.feasible or not is_proven_size(solved.fleet) or solved.placement.turns:
        return ()
    return tuple(_sentences(solved))


def _sentences(solved: Solved) -> Iterator[str]:
    chosen = {each.candidate.request: each for each in solved.placement.assignments}
    beside = _company(solved)
    watched = [number for number in chosen if beside[number] and _is_promised(solved, number)]
    if not watched:
        return
    paces = _paces(solved, {number: each.candidate for number, each in chosen.items()}, beside)
    for number in watched:
        way, slo = chosen[number].candidate, solved.fleet.models[number].slo
        if slo is None:
            continue
        granted = 1 - slo.percentile / 100
        needed = _demand(solved, way, paces[number], granted)
        if needed is None or needed.kv_needed_bytes > way.demand.kv_pool_bytes:
            yield _sentence(solved, chosen[number], beside[number], paces[number], needed, granted)


def _is_promised(solved: Solved, number: int) -> bool:
    request = solved.fleet.models[number]
    return request.slo is not None and request.traffic.concurrent is None and request.model.has_cache


def _company(solved: Solved) -> Mapping[int, frozenset[int]]:
    """Model -> the others on the card of its that has most work."""
    on: dict[int, list[int]] = defaultdict(list)
    for each in solved.placement.assignments:
        for card in each.each_card():
            on[card].append(each.candidate.request)
    busy = {each.candidate.request: each.candidate.busy for each in solved.placement.assignments}
    found: dict[int, frozenset[int]] = {}
    for present in on.values():
        for number in present:
            others = frozenset(present) - {number}
            if sum(busy[one] for one in others) >= sum(busy[one] for one in found.get(number, ())):
                found[number] = others
    return found


def _paces(
    solved: Solved, ways: Mapping[int, Candidate], beside: Mapping[int, frozenset[int]]
) -> Mapping[int, float]:
    """How many times as long as alone each one's steps take."""
    paces = dict.fromkeys(ways, 1.0)
    present = {number: 1 - exp(-way.demand.mean_in_service) for number, way in ways.items()}
    for _ in range(_ROUNDS):
        told = {number: 1 + sum(present[one] for one in beside[number]) for number in ways}
        if all(abs(told[number] - paces[number]) < _STEADY for number in ways):
            break
        paces = told
        for number, way in ways.items():
            if beside[number] and present[number] < 1 and solved.fleet.models[number].traffic.concurrent is None:
                asked = _demand(solved, way, paces[number])
                present[number] = 1.0 if asked is None else 1 - exp(-asked.mean_in_service)
            elif solved.fleet.models[number].traffic.concurrent is not None:
                present[number] = 1.0
    return paces


def _demand(solved: Solved, way: Candidate, pace: float, overflow: float | None = None) -> Demand | None:
    """What one replica of that way holds at that pace; None where no state is steady."""
    request, offer = solved.fleet.models[way.request], solved.fleet.gpus[way.offer]
    if not isinstance(way.judged, Judged):
        return way.demand
    served = {one.precision: one for one in precisions_of(request, offer.gpu)[0]}[way.judged.precision]
    case = Case(
        way.request, request, way.offer, offer, solved.fleet.headroom, overflow or solved.fleet.kv_overflow,
        served, pace, step=way.settings.max_num_batched_tokens if way.step_share != 1 else None,
    )  # fmt: skip
    return demand_of(case, split_of(way.settings), way.replicas)


def _sentence(
    solved: Solved,
    assignment: Assignment,
    others: frozenset[int],
    pace: float,
    needed: Demand | None,
    granted: float,
) -> str:
    models, way = solved.fleet.models, assignment.candidate
    names = listed([models[one].name for one in sorted(others)])
    head = f"{models[way.request].name} beside {names}: steps take ~{pace:.2g} times as long as alone"
    tail = "--replay sizes it for that"
    if needed is None:
        return f"{head}, and its requests pile up; {tail}"
    pool, asked = (format_gib(size) for size in (way.demand.kv_pool_bytes, needed.kv_needed_bytes))
    return f"{head}, its {pool} of cache are full {format_percent(granted)} of the time or more ({asked}); {tail}"
