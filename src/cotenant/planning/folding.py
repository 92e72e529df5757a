"""Models on one base, as one process with their adapters: found by what they load.

Two requests for the same weights in the same engine hold them twice. As one deployment with all of their adapters
they are held once, for the traffic of both together: rates add up, lengths are mixed in proportion to them, the
strictest wishes of any hold for all. `folds` does it where it costs less and the engine answers to all the names;
`wishes` prices it elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import Plan
from cotenant.domain.workload import Adapter, Lengths, Slo, Traffic
from cotenant.errors import InputError
from cotenant.estimation.lengths import length_model


def twins(fleet: Fleet) -> Iterator[tuple[int, ...]]:
    """Models that could be one process, by number: the same weights, engine and wishes of precision."""
    alike: dict[object, list[int]] = defaultdict(list)
    for number, one in enumerate(fleet.models):
        key = (
            one.model_id, one.engine, one.task, one.formats, one.kv_cache_dtypes, one.traffic.by_hour,
            one.traffic.timezone, one.max_loss_percent, one.speculation, tuple(sorted(one.checkpoints.items())),
            one.max_num_batched_tokens,
        )  # fmt: skip
        alike[key].append(number)
    for numbers in alike.values():
        names = [adapter.name for number in numbers for adapter in fleet.models[number].adapters]
        requests = [fleet.models[number] for number in numbers]
        if {one.name for one in requests} & {name for one in requests for name in one.apart_from}:
            continue
        if any(one.model != requests[0].model for one in requests):
            continue  # raw figures may share a name
        pins = [set(one.pin_gpus) for one in requests if one.pin_gpus]
        if pins and not set.intersection(*pins):
            continue  # no card is one that all of them are pinned to
        if any("co-resident" not in one.sharing for one in requests):
            continue  # whoever wants no neighbours wants no other model's requests in its process either
        if len(numbers) > 1 and len(set(names)) == len(names) and _traffic(requests) is not None:
            yield tuple(numbers)


def folded(fleet: Fleet, numbers: Sequence[int]) -> Fleet:
    """The fleet with those models as one, under the first one's name. Raises ValueError for any but `twins`."""
    requests = [fleet.models[number] for number in numbers]
    traffic = _traffic(requests)
    if traffic is None:
        raise ValueError("their traffic cannot be told as one")
    names = {one.name for one in requests}
    pins = [set(one.pin_gpus) for one in requests if one.pin_gpus]
    one = replace(
        requests[0],
        traffic=traffic,
        slo=_strictest([each.slo for each in requests if each.slo is not None]),
        adapters=_adapters(requests),
        priority=max(each.priority for each in requests),
        spread=any(each.spread for each in requests),
        min_replicas=max(each.min_replicas for each in requests),
        max_replicas=min((each.max_replicas for each in requests if each.max_replicas is not None), default=None),
        also_serves=tuple(
            name
            for place, each in enumerate(requests)
            for name in ((each.name,) if place else ()) + each.also_serves
        ),
        sharing=tuple(mode for mode in requests[0].sharing if all(mode in each.sharing for each in requests)),
        pin_gpus=tuple(sorted(set.intersection(*pins))) if pins else (),
        apart_from=tuple(
            dict.fromkeys(name for each in requests for name in each.apart_from if name not in names)
        ),
    )
    rest = [
        replace(
            each, apart_from=tuple(dict.fromkeys(one.name if name in names else name for name in each.apart_from))
        )
        for number, each in enumerate(fleet.models)
        if number not in numbers
    ]
    return replace(fleet, models=(one, *rest))


def folded_as(fleet: Fleet, plan: Plan) -> Fleet:
    """The fleet as a plan serves it: with those models as one that the plan runs as one.

    Raises InputError for a plan that runs models as one which load different weights or must be apart, or one that
    the fleet does not ask for.
    """
    able = [set(numbers) for numbers in twins(fleet)] if any(one.also_serves for one in plan.replicas) else []
    able_names = [{fleet.models[number].name for number in numbers} for numbers in able]
    for replica in plan.replicas:
        names = {replica.model, *replica.also_serves}
        numbers = [number for number, one in enumerate(fleet.models) if one.name in names]
        if replica.also_serves and replica.model not in {one.name for one in fleet.models}:
            raise InputError(
                f"the plan runs {replica.model!r}, which the fleet does not ask for", path="$.replicas"
            )
        if len(numbers) > 1:
            if not any(names <= each for each in able_names):
                raise InputError(f"{' and '.join(sorted(names))} cannot be one process", path="$.replicas")
            first = next(number for number in numbers if fleet.models[number].name == replica.model)
            fleet = folded(fleet, (first, *(number for number in numbers if number != first)))
    return fleet


def _traffic(requests: Sequence[ModelRequest]) -> Traffic | None:
    """All of it together; None where it is told in several ways."""
    each = [one.traffic for one in requests]
    if all(one.concurrent is not None for one in each):
        if len({one.context_tokens for one in each}) != 1:
            return None
        return replace(each[0], concurrent=sum(one.concurrent or 0 for one in each))
    if any(one.requests_per_second is None or one.input_tokens is None for one in each):
        return None
    if len({one.output_tokens is None for one in each}) != 1 or len({one.arrivals for one in each}) != 1:
        return None
    rates = [one.requests_per_second or 0.0 for one in each]
    return replace(
        each[0],
        requests_per_second=sum(rates),
        input_tokens=_mixed([one.input_tokens for one in each], rates),
        output_tokens=_mixed([one.output_tokens for one in each], rates),
    )


def _mixed(lengths: Sequence[Lengths | None], rates: Sequence[float]) -> Lengths | None:
    """Requests of all, in proportion to their rates."""
    known = [one for one in lengths if one is not None]
    if len(set(known)) <= 1:
        return known[0] if known else None
    bars = [
        (max(1, round(tokens)), share * rate)
        for one, rate in zip(known, rates, strict=True)
        for tokens, share in length_model(one).cells()
    ]
    longest = [one.maximum for one in known]
    return Lengths.of(tuple(bars), max(each or 0 for each in longest) if all(longest) else None)


def _strictest(slos: Sequence[Slo]) -> Slo | None:
    if not slos:
        return None
    ttft = [one.ttft_s for one in slos if one.ttft_s is not None]
    tpot = [one.tpot_s for one in slos if one.tpot_s is not None]
    return Slo(min(ttft, default=None), min(tpot, default=None), max(one.percentile for one in slos))


def _adapters(requests: Sequence[ModelRequest]) -> tuple[Adapter, ...]:
    """All of them; shares are left open, since they were of each model's own traffic."""
    return tuple(replace(adapter, share=None) for one in requests for adapter in one.adapters)
