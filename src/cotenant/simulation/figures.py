"""What a replay tells of each model and each replica, and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cotenant.domain.plan import Plan
from cotenant.domain.replay import ModelReplay, ReplicaReplay, Timeline
from cotenant.simulation.costs import FS_PER_S, NS_PER_S
from cotenant.simulation.disaggregated import Part
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Host
from cotenant.simulation.load import Outcome, Requests
from cotenant.simulation.metrics import model_replay
from cotenant.simulation.models import Model
from cotenant.simulation.outages import Outages
from cotenant.simulation.remarks import failures, host_memory, overload, remarks
from cotenant.simulation.residency import Residency, Resident
from cotenant.simulation.timeline import Lived, timeline


def of_model(
    model: Model, outcomes: Sequence[Outcome], hostings: Sequence[Hosting], span_s: float
) -> ModelReplay:  # fmt: skip
    """Its percentiles, goodput and counts, over all of its replicas."""
    requests = model.work.requests
    first = max((hostings[one].times.first_token_s for one in model.hosts), default=0.0)
    merged = _merged([outcomes[one] for one in model.hosts], len(requests))
    return model_replay(
        model.request.name, requests, merged, slo=model.request.slo, first_token_s=first, duration_s=span_s
    )


def of_replicas(
    plan: Plan, hostings: Sequence[Hosting], hosts: Sequence[Host], outcomes: Sequence[Outcome],
    residency: Residency | None, end_s: float,
) -> tuple[ReplicaReplay, ...]:  # fmt: skip
    """Of each its steps, its cache, and how busy it was in `end_s` seconds."""
    names = _card_names(plan)
    wakes = [None] * len(hosts) if residency is None else [one.wakes for one in residency.residents]
    rows = zip(hostings, hosts, outcomes, wakes, strict=True)
    return tuple(_replica(one, host, outcome, end_s, names, woken) for one, host, outcome, woken in rows)


def _replica(
    one: Hosting,
    host: Host,
    outcome: Outcome,
    end_s: float,
    names: Mapping[tuple[int, int], str],
    wakes: int | None,
) -> ReplicaReplay:
    return ReplicaReplay(
        id=one.id,
        model=one.model,
        cards=tuple(names[card] for card in one.cards),
        requests=host.replica.taken,
        steps=outcome.steps,
        busy=outcome.busy_ns / NS_PER_S / end_s,
        slowdown=host.busy_fs / host.alone_fs if host.alone_fs else 1.0,
        kv_blocks=host.replica.limits.num_blocks,
        kv_high_water=outcome.kv_high_water_blocks / host.replica.limits.num_blocks,
        preemptions=outcome.preemptions,
        wakes=wakes,
        times_from=one.times.why,
    )


def over_time(
    plan: Plan, hostings: Sequence[Hosting], works: Sequence[Requests], outcomes: Sequence[Outcome],
    residency: Residency | None, end_s: float, parts: Mapping[int, Part],
) -> Timeline:  # fmt: skip
    """Rates, waiting, work and memory; `works` are the requests of each hosting's model, or `parts` of them."""
    names = _card_names(plan)
    own = [parts.get(place) or Part(works[place], outcomes[place]) for place in range(len(hostings))]
    lives = [
        Lived(
            id=one.id,
            model=one.model,
            cards=tuple(names[card] for card in one.cards),
            requests=own[place].requests,
            outcome=own[place].outcome,
            begun_ns=own[place].begun_ns,
            claimed_bytes=one.claimed_bytes,
            asleep_bytes=0 if residency is None else residency.residents[place].asleep_bytes,
            kv_bytes=one.kv_cache_bytes,
            pool_tokens=one.limits.num_blocks * one.limits.block_size,
            spells_s=None if residency is None else _spells(residency.residents[place], end_s),
        )
        for place, one in enumerate(hostings)
    ]
    capacity = {names[gpu.device.node, gpu.device.index]: gpu.capacity_bytes - gpu.used_bytes for gpu in plan.gpus}
    return timeline(lives, end_s=end_s, capacity_bytes=capacity)


def warnings_of(
    models: Sequence[Model], found: Sequence[ModelReplay], hosts: Sequence[Host], end_s: float, span_s: float,
    away: Outages, ids: Sequence[str],
) -> list[str]:  # fmt: skip
    """What a reader must be told beside the figures."""
    warnings = [f"{model.request.name}: {text}" for model in models for text in model.work.warnings]
    for number, (model, one) in enumerate(zip(models, found, strict=True)):
        retried = away.retried.get(number, 0)
        down = all(host in away.away for host in model.hosts)
        warnings += remarks(one, model.work.requests, placed=bool(model.hosts), down=down, retried=retried)
    failed = {ids[place]: count for place, count in sorted(away.failures.items())}
    copies = {name: host.replica.copies for name, host in zip(ids, hosts, strict=True)}
    return [*warnings, *failures(failed), *host_memory(copies), *overload(end_s, span_s)]


def _merged(outcomes: Sequence[Outcome], count: int) -> Outcome:
    """One outcome of requests that several replicas share: each was touched by one of them at most."""

    def total(name: str) -> Any:
        return sum((getattr(one, name)[:count] for one in outcomes), np.zeros(count, np.int64))

    return Outcome(
        status=total("status"),
        first_token_ns=total("first_token_ns"),
        has_first=total("has_first") > 0,
        finish_ns=total("finish_ns"),
        preemptions=sum(one.preemptions for one in outcomes),
        steps=sum(one.steps for one in outcomes),
        busy_ns=sum(one.busy_ns for one in outcomes),
        end_ns=max((one.end_ns for one in outcomes), default=0),
        kv_high_water_blocks=max((one.kv_high_water_blocks for one in outcomes), default=0),
        log=np.zeros((0, 4), np.int64),
        asked_tokens=sum(one.asked_tokens for one in outcomes),
        hit_tokens=sum(one.hit_tokens for one in outcomes),
    )


def _spells(resident: Resident, end_s: float) -> tuple[tuple[float, float, float], ...]:
    """Seconds at which it began to wake, was awake, and was asleep again."""
    padded = ((*spell, end_s * FS_PER_S, end_s * FS_PER_S)[:3] for spell in resident.spells_fs)
    return tuple((began / FS_PER_S, awake / FS_PER_S, asleep / FS_PER_S) for began, awake, asleep in padded)


def _card_names(plan: Plan) -> dict[tuple[int, int], str]:
    devices = [gpu.device for gpu in plan.gpus]
    return {(one.node, one.index): one.label for one in devices}
