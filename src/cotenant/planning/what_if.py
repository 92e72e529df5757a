"""What if there were more traffic, a tighter SLO, another price: the fleet, changed and planned again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.what_if import Sweep, WhatIfPoint
from cotenant.domain.workload import Slo, Traffic
from cotenant.errors import InputError
from cotenant.planning.candidates import all_ways
from cotenant.planning.floors import floor_words
from cotenant.planning.scenes import Kept, Replayer, declared_scenes, kept_by
from cotenant.planning.sleeping import refined
from cotenant.planning.solve import written
from cotenant.planning.solved import Solved, forced_of, solve_ways
from cotenant.planning.warnings import at_risk_of, promises_of, strained_of

PARAMETERS = ("traffic", "slo", "price")
POINTS, MOST_POINTS = 8, 64
_HINT = "write traffic=0.5..4, slo=0.5..2 or price=0.8..1.5; of one: traffic:chat=1..4, price:L4=0.5..2"


def read_sweep(text: str, fleet: Fleet, *, points: int = POINTS) -> Sweep:
    """``traffic=0.5..4`` -> equal ratios from one end to the other, 1 among them where it lies between.

    Raises InputError for what cannot be varied, names that the fleet does not have, and ends that are none.
    """
    head, _, span = text.partition("=")
    what, _, target = head.strip().partition(":")
    if what not in PARAMETERS:
        raise InputError(f"{what[:40]!r} cannot be varied", hint=_HINT)
    known = [offer.gpu.name for offer in fleet.gpus] if what == "price" else [one.name for one in fleet.models]
    if target and target not in known:
        raise InputError(f"the fleet has no {target[:60]!r}", hint=f"one of {', '.join(known)}")
    if what == "price" and all(offer.price_per_hour is None for offer in fleet.gpus):
        raise InputError("no card of this fleet has a price", hint="write price: $1.29/h at its cards")
    if what == "slo" and not any(one.slo and target in ("", one.name) for one in fleet.models):
        raise InputError("there is no SLO to vary", hint="write slo: {ttft: 3s} at its models")
    low, high = _ends(span)
    if not 2 <= points <= MOST_POINTS:
        raise InputError(f"2 to {MOST_POINTS} points are needed, not {points}")
    return Sweep(what, target, _factors(low, high, points))


def _ends(span: str) -> tuple[float, float]:
    parts = span.split("..")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise InputError(f"{span[:40]!r} is not a range", hint=_HINT) from None
    if not 0.001 <= low < high <= 1000:
        raise InputError(f"a range from 0.001 to 1000 is needed, not {span[:40]}", hint=_HINT)
    return low, high


def _factors(low: float, high: float, points: int) -> tuple[float, ...]:
    ratio = (high / low) ** (1 / (points - 1))
    found = [low * ratio**place for place in range(points)]
    if low <= 1 <= high:
        nearest = min(range(points), key=lambda place: abs(found[place] - 1))
        if nearest not in (0, points - 1):
            found[nearest] = 1.0
        elif 1.0 not in (low, high):
            found.append(1.0)
    return tuple(sorted({float(f"{factor:.4g}") for factor in found}))


def changed(fleet: Fleet, sweep: Sweep, factor: float) -> Fleet:
    """The fleet with that much more of it."""
    if sweep.what == "price":
        return replace(fleet, gpus=tuple(_priced(offer, sweep.target, factor) for offer in fleet.gpus))
    return replace(fleet, models=tuple(_asked(one, sweep, factor) for one in fleet.models))


def _priced(offer: GpuOffer, target: str, factor: float) -> GpuOffer:
    if offer.price_per_hour is None or target not in ("", offer.gpu.name):
        return offer
    return replace(offer, price_per_hour=offer.price_per_hour * factor)


def _asked(request: ModelRequest, sweep: Sweep, factor: float) -> ModelRequest:
    if sweep.target not in ("", request.name) or factor == 1:
        return request
    if sweep.what == "slo":
        return replace(request, slo=_slower(request.slo, factor))
    return replace(request, traffic=_busier(request.traffic, factor))


def _slower(slo: Slo | None, factor: float) -> Slo | None:
    if slo is None:
        return None
    ttft, tpot = (None if time is None else time * factor for time in (slo.ttft_s, slo.tpot_s))
    return Slo(ttft, tpot, slo.percentile)


def _busier(traffic: Traffic, factor: float) -> Traffic:
    """More requests a second, more at once, or the same trace in less time."""
    if traffic.trace is not None:
        arrivals = tuple(moment / factor for moment in traffic.trace.arrivals_s)
        return replace(traffic, trace=replace(traffic.trace, arrivals_s=arrivals))
    if traffic.concurrent is not None:
        return replace(traffic, concurrent=max(1, round(traffic.concurrent * factor)))
    return replace(traffic, requests_per_second=(traffic.requests_per_second or 0.0) * factor)


def point(
    fleet: Fleet, sweep: Sweep, factor: float, replayer: Callable[[Fleet], Replayer] | None = None
) -> WhatIfPoint:
    """The plan of the fleet at one factor; with a `replayer` of a fleet, replayed too, as `--replay` judges it."""
    asked = changed(fleet, sweep, factor)
    solved = refined(solve_ways(asked, all_ways(asked), nearest=False))
    promised = sum(one.slo is not None for one in asked.models)
    if not solved.feasible:
        lacks = lacks_of(solved)
        return WhatIfPoint(factor, False, None, None, None, {}, lacks=lacks, promised=promised)
    kept = None
    if replayer is not None:
        kept = kept_by(written(solved, forced=forced_of(solved)), declared_scenes(asked), replayer(asked))
    placement, problem = solved.placement, solved.problem
    used = {card for one in placement.assignments for card in one.each_card()}
    cards = Counter(asked.gpus[problem.cards[card].offer].gpu.name for card in sorted(used))
    value = placement.objective_value
    return WhatIfPoint(
        factor=factor,
        feasible=True,
        value=value,
        cost_per_hour=value if problem.priced else None,
        lower_bound=placement.lower_bound if placement.gap is not None else None,
        cards=dict(cards),
        turns=len(placement.turns),
        promised=promised,
        strained=tuple(one.model for one in strained_of(solved) if one.targets),
        at_risk=at_risk_of(solved),
        warnings=promises_of(solved),
        attainment=None if kept is None else _of_promised(asked, kept),
        missed=() if kept is None else kept.missed,
    )


def _of_promised(fleet: Fleet, kept: Kept) -> dict[str, float]:
    """Shares of those that have an SLO to keep."""
    names = [one.name for one in fleet.models if one.slo is not None]
    return {name: kept.attainment[name] for name in names if name in kept.attainment}


def lacks_of(solved: Solved) -> str:
    """Why not all models have a place: the way that comes nearest, of the first that has none; else the cards."""
    if solved.lacks_spare:
        return f"no {solved.fleet.spare} can stay empty"
    for request, ways in zip(solved.fleet.models, solved.ways, strict=True):
        if not ways.candidates:
            floor = floor_words(solved.fleet, ways.refusals)
            if floor is not None:
                return f"{request.name}: {floor}"
            told = [one for one in ways.refusals if one.tensor_parallel_size]
            # A way that only lacks bytes is nearer than one that is refused outright: the fewest of them.
            nearest = min(told, key=lambda one: (not one.shortfall_bytes, one.shortfall_bytes), default=None)
            return f"{request.name}: {nearest.reason if nearest else 'no precision may run'}"
    return "each model would fit alone; together they take more than the cards there are"
