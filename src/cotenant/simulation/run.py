"""A plan against its traffic: replicas on their cards, requests to replicas, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cotenant.domain.conditions import USUAL, Conditions
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.plan import Plan
from cotenant.domain.replay import ModelReplay, Replay, ReplicaReplay, Timeline
from cotenant.errors import InputError, UnsupportedError
from cotenant.simulation import crowded, fast
from cotenant.simulation.best_fit import ENDLESS, Targets
from cotenant.simulation.clock import DAY_S, shows_day, silent, start_hour
from cotenant.simulation.conditions import outages
from cotenant.simulation.costs import FS_PER_S
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import NEVER, Outcome
from cotenant.simulation.metrics import model_replay
from cotenant.simulation.outages import Outages
from cotenant.simulation.remarks import failures, overload, remarks
from cotenant.simulation.residency import Residency, Resident
from cotenant.simulation.timeline import Lived, timeline
from cotenant.simulation.together import TOGETHER, cross_cost
from cotenant.simulation.together import hosts as together
from cotenant.simulation.tokenwise import TOKENWISE, check_pool
from cotenant.simulation.tokenwise import serve as serve_tokenwise
from cotenant.simulation.turns import residency_of
from cotenant.simulation.workload import Workload, workload
from cotenant.units import format_bytes

POLICIES = (*TOGETHER, "swap", "swap-2", "restart", *TOKENWISE)
PATIENCE_S = 10.0
DURATION_S = 300.0
_COMPILE_FROM = 50_000  # requests: below, compiling takes longer than it saves
_NS_PER_S = 10**9
_GRACE, _GRACE_S = 3.0, 600.0  # where there is more load than capacity, the queue is not served to its end
Progress = Callable[[str], None]


@dataclass(slots=True, eq=False)
class _Model:
    """One model on its way through: its request, its work, the numbers of its hosts."""

    request: ModelRequest
    work: Workload
    hosts: tuple[int, ...]


def replay(
    plan: Plan,
    requests: Sequence[ModelRequest],
    hostings: Sequence[Hosting],
    *,
    seed: int = 0,
    policy: str = "static",
    patience_s: float = PATIENCE_S,
    duration_s: float | None = None,
    cards: int = 0,
    conditions: Conditions = USUAL,
    progress: Progress = lambda _: None,
) -> Replay:
    """What the plan's replicas make of `duration_s` seconds of traffic (by default its traces whole, else 300 s).

    static, elastic, spatial: each replica keeps its place on its cards (`together`). swap, swap-2, restart:
    replicas take turns in the memory of their cards (`residency`), `patience_s` being how long a request waits
    before a busy neighbour makes room. token, token-urgent: all models on all cards (`tokenwise`), of which there
    are `cards`, idle ones among them. `conditions`: clients that leave, replicas that fail, who takes a request
    and who gives way. The same seed gives the same answer. Raises InputError for an unknown policy, a patience or
    a duration that is none, UnsupportedError for conditions that a policy does not know.
    """
    check_policy(policy)
    if not 0 <= patience_s < 1e8:
        raise InputError(f"a patience of zero or more is needed, not {patience_s} s")
    if duration_s is not None and not 0 < duration_s < 1e8:
        raise InputError(f"a duration above zero is needed, not {duration_s} s")
    check_conditions(conditions, policy, bool(plan.turns))
    traffics = [request.traffic for request in requests]
    day = duration_s is None and shows_day(traffics, bool(plan.turns) and policy == "static")
    span = DAY_S if day else duration_s or _span(requests)
    start = start_hour(traffics, whole_day=span >= DAY_S)
    progress("drawing requests")
    models = [
        _model(number, request, hostings, seed, span, start, conditions)
        for number, request in enumerate(requests)
    ]  # fmt: skip
    owner = {host: model for model in models for host in model.hosts}
    hosts = together(policy, [owner[place].work.requests for place in range(len(hostings))], hostings)
    for host in hosts:
        host.replica.preempts_cheapest = conditions.preempt == "cheapest"
    priorities, stays = [owner[place].request.priority for place in range(len(hostings))], conditions.residency_s
    minimum = round(stays * FS_PER_S)
    away = Outages(outages(conditions, [one.id for one in hostings], seed=seed, until_s=_GRACE * span + _GRACE_S))
    turns = (
        residency_of(plan, hosts, hostings, priorities=priorities, minimum_fs=minimum)
        if policy == "static"
        else None
    )
    if policy in TOKENWISE:
        residency, outcomes = None, _pooled(policy, plan, models, hosts, hostings, span, cards)
    else:
        residency = turns
        if policy not in TOGETHER:
            residency = _residency(plan, hosts, hostings, priorities, policy, patience_s, minimum)
        outcomes = _serve(policy, models, hosts, hostings, residency, span, conditions, away, progress)
    found = [_figures(model, outcomes, hostings, span) for model in models]
    end = max((host.last_fs for host in hosts), default=0) / 1e15
    return Replay(
        seed=seed,
        policy=policy,
        duration_s=span,
        end_s=max(end, span),
        models=tuple(found),
        replicas=tuple(
            _replica(
                one, host, outcome, max(end, span), plan, None if residency is None else residency.residents[place]
            )
            for place, (one, host, outcome) in enumerate(zip(hostings, hosts, outcomes, strict=True))
        ),
        warnings=tuple(_warnings(models, found, end, span, away, [one.id for one in hostings])),
        input_hash=plan.input_hash,
        timeline=_timeline(plan, hostings, owner, outcomes, residency, max(end, span)),
    )


def _timeline(
    plan: Plan,
    hostings: Sequence[Hosting],
    owner: Mapping[int, _Model],
    outcomes: Sequence[Outcome],
    residency: Residency | None,
    end: float,
) -> Timeline:
    names = _card_names(plan)
    lives = [
        Lived(
            id=one.id,
            model=one.model,
            cards=tuple(names[card] for card in one.cards),
            requests=owner[place].work.requests,
            outcome=outcomes[place],
            claimed_bytes=one.claimed_bytes,
            asleep_bytes=0 if residency is None else residency.residents[place].asleep_bytes,
            kv_bytes=one.kv_cache_bytes,
            pool_tokens=one.limits.num_blocks * one.limits.block_size,
            spells_s=None if residency is None else _spells(residency.residents[place], end),
        )
        for place, one in enumerate(hostings)
    ]
    capacity = {names[gpu.device.node, gpu.device.index]: gpu.capacity_bytes - gpu.used_bytes for gpu in plan.gpus}
    return timeline(lives, end_s=end, capacity_bytes=capacity)


def _spells(resident: Resident, end: float) -> tuple[tuple[float, float, float], ...]:
    """Seconds at which it began to wake, was awake, and was asleep again."""
    padded = ((*spell, end * FS_PER_S, end * FS_PER_S)[:3] for spell in resident.spells_fs)
    return tuple((began / FS_PER_S, awake / FS_PER_S, asleep / FS_PER_S) for began, awake, asleep in padded)


def _card_names(plan: Plan) -> dict[tuple[int, int], str]:
    devices = [gpu.device for gpu in plan.gpus]
    return {(one.node, one.index): f"{one.type} #{one.node}.{one.index}" for one in devices}


def check_conditions(conditions: Conditions, policy: str, turns: bool) -> None:
    """Raises UnsupportedError for what the policy's scheduler does not know."""
    if policy in TOKENWISE and (conditions.timeout_s is not None or not _is_plain(conditions)):
        raise UnsupportedError(
            f"{policy} has a scheduler of its own: no timeouts, failures, dispatch or preemption to choose",
            hint="take static, elastic or spatial",
        )
    if conditions.fails and (turns or policy not in TOGETHER):
        raise UnsupportedError(
            "replicas that take turns in a card's memory cannot fail here",
            hint="take static, elastic or spatial, and a plan without turns",
        )


def check_policy(policy: str) -> None:
    """Raises InputError for a policy that there is not."""
    if policy not in POLICIES:
        raise InputError(f"no policy {policy!r}", hint=f"one of {', '.join(POLICIES)}")


def _residency(
    plan: Plan, hosts: Sequence[Host], hostings: Sequence[Hosting], priorities: Sequence[int], policy: str,
    patience_s: float, minimum_fs: int,
) -> Residency:  # fmt: skip
    """Everybody asleep. Raises UnsupportedError where a model has no room beside the others' idle processes."""
    capacity: dict[object, int] = {
        (gpu.device.node, gpu.device.index): gpu.capacity_bytes - gpu.used_bytes for gpu in plan.gpus
    }
    residents = [
        Resident(
            replica=host.replica,
            cards=one.cards,
            awake_bytes=one.claimed_bytes,
            asleep_bytes=0 if policy == "restart" else one.runtime_bytes,
            wake_fs=round(one.swap_s[policy][1] * FS_PER_S),
            sleep_fs=round(one.swap_s[policy][0] * FS_PER_S),
            priority=priority,
        )
        for host, one, priority in zip(hosts, hostings, priorities, strict=True)
    ]
    found = Residency(residents, capacity, round(patience_s * FS_PER_S), minimum_fs)
    for one, resident in zip(hostings, residents, strict=True):
        short = max(resident.awake_bytes - resident.asleep_bytes - found.free_bytes(card) for card in one.cards)
        if short > 0:
            raise UnsupportedError(
                f"{one.id} lacks {format_bytes(short)} beside the idle processes of the others",
                hint="ask for more headroom, or take --policy restart",
            )
    return found


def _span(requests: Sequence[ModelRequest]) -> float:
    traces = [request.traffic.trace.arrivals_s[-1] for request in requests if request.traffic.trace is not None]
    return max(traces) + 1e-9 if traces else DURATION_S


def _model(
    number: int, request: ModelRequest, hostings: Sequence[Hosting], seed: int, span: float, start: int | None,
    conditions: Conditions,
) -> _Model:  # fmt: skip
    hosts = tuple(place for place, one in enumerate(hostings) if one.model == request.name)
    step = min((hostings[one].times.decode_step_s(1, 1) for one in hosts), default=1.0)
    work = workload(
        request.traffic, seed=seed, model=number, duration_s=span, step_s=step, priority=request.priority,
        start_hour=start,
    )  # fmt: skip
    if start is not None and silent(request.traffic, start, span):
        quiet = f"nobody asks it from {start:02}:00 on, when the fleet is busiest; ask --duration 24h for a day"
        work = replace(work, warnings=(*work.warnings, quiet))
    if conditions.timeout_s is not None and not work.users:
        leaves = work.requests.arrival_ns + round(conditions.timeout_s * _NS_PER_S)
        work = replace(work, requests=replace(work.requests, cancel_ns=leaves))
    return _Model(request, work, hosts)


def _pooled(
    policy: str,
    plan: Plan,
    models: Sequence[_Model],
    hosts: Sequence[Host],
    hostings: Sequence[Hosting],
    span: float, cards: int,
) -> list[Outcome]:  # fmt: skip
    """All models on all cards; a model's first hosting says how it runs on one of them, and stands for it."""
    cards = check_pool(plan, hostings, any(model.work.users for model in models), cards)
    placed = [model for model in models if model.hosts]
    found = serve_tokenwise(
        policy, cards, [one.work.requests for one in placed], [hostings[one.hosts[0]] for one in placed],
        [one.request.slo for one in placed], _GRACE * span + _GRACE_S,
    )  # fmt: skip
    outcomes = {one.hosts[0]: outcome for one, outcome in zip(placed, found, strict=True)}
    for place, outcome in outcomes.items():
        hosts[place].last_fs, hosts[place].replica.taken = outcome.end_ns * 10**6, len(outcome.status)
    return [outcomes.get(place) or host.replica.outcome(0, 0) for place, host in enumerate(hosts)]


def _serve(
    policy: str,
    models: Sequence[_Model],
    hosts: Sequence[Host],
    hostings: Sequence[Hosting],
    residency: Residency | None,
    span: float,
    conditions: Conditions,
    away: Outages,
    progress: Progress,
) -> list[Outcome]:
    """Replicas that nobody disturbs go to the fast core, the others through the kernel together."""
    outcomes: dict[int, Outcome] = {}
    placed = [model for model in models if model.hosts]
    count = sum(len(model.work.requests) for model in placed)
    until = round((_GRACE * span + _GRACE_S) * _NS_PER_S)
    jumps = policy == "static" and residency is None and _is_plain(conditions)
    jumps = jumps and not any(_needs_plain(model, hosts) for model in placed)
    if jumps and conditions.timeout_s is None and len(hosts) > 1 and crowded.can_serve(count, _COMPILE_FROM):
        progress(f"simulating {count:,} requests on {len(hosts)} replicas")
        works = [model.work.requests for model in placed]
        found = crowded.serve(works, [model.hosts for model in placed], hosts, hostings, until)
        return [found[place] for place in range(len(hostings))]
    for model in models if policy == "static" and _is_plain(conditions) else ():
        if not _needs_plain(model, hosts) and len(model.hosts) == 1 and _alone(model.hosts[0], hostings):
            (place,) = model.hosts
            progress(f"simulating {hostings[place].id}")
            outcomes[place] = _fast(model, hosts[place], hostings[place], until)
    together = [model for model in placed if model.hosts[0] not in outcomes]
    streams = [
        Stream(
            model.work.requests, model.hosts, users=model.work.users, until_ns=round(span * _NS_PER_S),
            dispatch=conditions.dispatch.replace("-", "_"), targets=_targets(model),
            timeout_ns=NEVER if conditions.timeout_s is None else round(conditions.timeout_s * _NS_PER_S),
        )
        for model in together
    ]  # fmt: skip
    if streams:
        run(
            hosts,
            streams,
            until_ns=until,
            residency=residency,
            cross=cross_cost(policy),
            outages=away,
            progress=lambda done, count: progress(f"simulating, request {done:,} of {count:,}"),
        )
    for model, stream in zip(together, streams, strict=True):
        if model.work.users:
            model.work = _as_it_came(model.work, stream)
        for place in model.hosts:
            outcomes[place] = hosts[place].replica.outcome(hosts[place].busy_fs, hosts[place].last_fs)
    return [outcomes[place] for place in range(len(hostings))]


def _is_plain(conditions: Conditions) -> bool:
    """Whether nothing is asked that only the plain core knows: failing replicas, other dispatch or preemption."""
    return not conditions.fails and conditions.dispatch == "least-loaded" and conditions.preempt == "latest"


def _targets(model: _Model) -> Targets:
    slo, outputs = model.request.slo, model.work.requests.output_tokens
    mean = max(1, round(float(outputs.mean()))) if len(outputs) else 1
    if slo is None:
        return Targets(output_tokens=mean)
    ttft, tpot = (
        ENDLESS if target is None else round(target * FS_PER_S) for target in (slo.ttft_s, slo.tpot_s)
    )  # fmt: skip
    return Targets(ttft, tpot, mean)


def _needs_plain(model: _Model, hosts: Sequence[Host]) -> bool:
    """Whether its requests are beyond the fast cores: they come in a closed loop, or find prefixes in a cache."""
    return bool(model.work.users) or any(hosts[place].replica.caches for place in model.hosts)


def _alone(place: int, hostings: Sequence[Hosting]) -> bool:
    mine = set(hostings[place].cards)
    return not any(mine & set(other.cards) for number, other in enumerate(hostings) if number != place)


def _fast(model: _Model, host: Host, one: Hosting, until_ns: int) -> Outcome:
    requests = replace(model.work.requests, prefixes=None)
    compiled = len(requests) >= _COMPILE_FROM
    outcome = fast.simulate(requests, one.limits, one.costs, until_ns=until_ns, with_numba=compiled)
    host.busy_fs = host.alone_fs = outcome.busy_ns * 10**6
    host.last_fs, host.replica.taken = outcome.end_ns * 10**6, len(requests)
    return outcome


def _as_it_came(work: Workload, stream: Stream) -> Workload:
    """A closed loop's requests with the times at which they came; those that never came are dropped."""
    came = len(stream.came_ns)
    kept = work.requests.take(slice(0, came))
    return replace(work, requests=replace(kept, arrival_ns=np.array(stream.came_ns, np.int64)))


def _figures(model: _Model, outcomes: Sequence[Outcome], hostings: Sequence[Hosting], span: float) -> ModelReplay:
    requests = model.work.requests
    first = max((hostings[one].times.first_token_s for one in model.hosts), default=0.0)
    merged = _merged([outcomes[one] for one in model.hosts], len(requests))
    return model_replay(
        model.request.name, requests, merged, slo=model.request.slo, first_token_s=first, duration_s=span
    )


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


def _replica(
    one: Hosting, host: Host, outcome: Outcome, end: float, plan: Plan, resident: Resident | None
) -> ReplicaReplay:
    names = _card_names(plan)
    return ReplicaReplay(
        id=one.id,
        model=one.model,
        cards=tuple(names[card] for card in one.cards),
        requests=host.replica.taken,
        steps=outcome.steps,
        busy=outcome.busy_ns / 1e9 / end,
        slowdown=host.busy_fs / host.alone_fs if host.alone_fs else 1.0,
        kv_blocks=host.replica.limits.num_blocks,
        kv_high_water=outcome.kv_high_water_blocks / host.replica.limits.num_blocks,
        preemptions=outcome.preemptions,
        wakes=None if resident is None else resident.wakes,
        times_from=one.times.why,
    )


def _warnings(
    models: Sequence[_Model],
    found: Sequence[ModelReplay],
    end: float,
    span: float,
    away: Outages,
    ids: Sequence[str],
) -> list[str]:
    warnings = [f"{model.request.name}: {text}" for model in models for text in model.work.warnings]
    for number, (model, one) in enumerate(zip(models, found, strict=True)):
        retried = away.retried.get(number, 0)
        warnings += remarks(one, model.work.requests, placed=bool(model.hosts), retried=retried)
    failed = {ids[place]: count for place, count in sorted(away.failures.items())}
    return [*warnings, *failures(failed), *overload(end, span)]
