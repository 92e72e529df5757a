"""Whether models may take turns on a card: how often they swap, who waits how long, what the host must hold.

Each hour of the day by itself, Poisson within it, l_i requests a second of model i, L = sum l_i. Who is asked is
woken; who was awake finishes what it runs and goes to sleep (`simulation.residency` replays it). So a request of i
finds i asleep when the one before it was not for i, a share 1 - l_i / L of the time, and then waits

    W_i = [what the other still runs] + sleep_j + wake_i,   over 1 - (busy + swapping) for those queued before it

Where an hour of others gives way to one of its own, its first request wakes it. Swapping takes a share
S = sum_i l_i (1 - l_i / L) (sleep_j + wake_i) of an hour. Thrash is S above a twentieth; busy + S must stay below
what a queue stands in every hour that several share. TTFT holds where W_i fits into what it leaves, or where so
few requests wait that half of the misses that the percentile grants pays for them. Traces are cut into 24 parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp

from cotenant.domain.engine import Version
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.plan import Turns
from cotenant.engines import find_engine
from cotenant.engines.sleeping import RESTART, SLEEP_1, SLEEP_2, kept_bytes, sleep_modes
from cotenant.engines.starting import starting
from cotenant.estimation.swapping import swap_seconds
from cotenant.estimation.traced import traced
from cotenant.planning.problem import Candidate
from cotenant.planning.scenes import hour_rate
from cotenant.units import format_percent, format_seconds

THRASH = 0.05
FULL = 0.8  # busy and swapping together; beyond, whoever waits waits for several turns
_HOUR_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Hour:
    """Requests/s of each model in one hour of the day (or a 24th of the traces)."""

    rates: tuple[float, ...]

    def delayed(self, one: int) -> float:
        """Requests/s of a model that find it asleep."""
        total = sum(self.rates)
        return self.rates[one] * (1 - self.rates[one] / total) if total else 0.0


@dataclass(frozen=True, slots=True)
class Member:
    """One of the group: seconds that a request of it takes, and that it takes to fall asleep and to wake."""

    service_s: float
    sleep_s: float
    wake_s: float


def modes_of(requests: Sequence[ModelRequest]) -> tuple[str, ...]:
    """What all of them can be told to do, the quickest first."""
    each = [
        sleep_modes(*_engine(request), adapters=bool(request.adapters)) for request in requests
    ]  # fmt: skip
    return tuple(mode for mode in (SLEEP_1, SLEEP_2, RESTART) if all(mode in known for known in each))


def _engine(request: ModelRequest) -> tuple[str, Version]:
    engine, version = find_engine(request.engine)
    return engine.name, version


def hours_of(requests: Sequence[ModelRequest]) -> tuple[Hour, ...] | str:
    """Their day, or why nobody can say how their hours meet."""
    if any(request.traffic.concurrent is not None for request in requests):
        return "who always has requests in flight never sleeps"
    zones = {request.traffic.timezone for request in requests if request.traffic.by_hour}
    if len(zones) > 1:
        return f"their hours are told in several time zones ({', '.join(sorted(zones))})"
    traced = [request for request in requests if request.traffic.trace is not None]
    if traced and any(request.traffic.by_hour for request in requests):
        return "a trace and hours of the day have no common clock"
    if not traced:
        return tuple(Hour(tuple(hour_rate(one.traffic, hour) for one in requests)) for hour in range(24))
    span = max(one.traffic.trace.arrivals_s[-1] for one in traced if one.traffic.trace is not None)
    return tuple(Hour(tuple(_traced_rate(one, part, span / 24) for one in requests)) for part in range(24))


def _traced_rate(request: ModelRequest, part: int, width: float) -> float:
    trace = request.traffic.trace
    if trace is None:
        return request.traffic.requests_per_second or 0.0
    last = part == 23
    count = sum(part * width <= moment < (part + 1) * width or (last and moment == trace.arrivals_s[-1])
                for moment in trace.arrivals_s)  # fmt: skip
    return count / max(width, 1.0)


def judge(
    requests: Sequence[ModelRequest], chosen: Sequence[Candidate], gpu: GpuSpec, mode: str, host_bytes: int | None
) -> Turns | str:
    """What turns in that mode would mean for these ways of serving the models, or why they may not take them.

    `host_bytes` is the memory of one node (None: unknown, and then nobody sleeps in it).
    """
    day = hours_of(requests)
    if isinstance(day, str):
        return day
    held = _host_bytes(chosen) if mode == SLEEP_1 else 0
    if held and host_bytes is None:
        return "how much host memory a node has is not told (node: {host_memory: 512GiB})"
    if host_bytes is not None and held > host_bytes:
        return "host memory does not hold the sleepers"
    members = [_member(*pair, gpu, mode) for pair in zip(requests, chosen, strict=True)]
    swapping = max(_swapping(hour, members) for hour in day)
    if swapping > THRASH:
        return f"they would swap for {format_percent(swapping, digits=1)} of their busiest hour (thrash)"
    shared = [hour for hour in day if sum(rate > 0 for rate in hour.rates) > 1]
    full = max((_busy(hour, members) + _swapping(hour, members) for hour in shared), default=0.0)
    if full > FULL:
        return f"together they want {format_percent(full)} of the card's time in an hour that they share"
    waits = {one.name: _wait(number, day, members) for number, one in enumerate(requests)}
    delayed = {one.name: _delayed(number, day) for number, one in enumerate(requests)}
    for request, candidate in zip(requests, chosen, strict=True):
        fault = _slo_fault(request, candidate, waits[request.name], delayed[request.name])
        if fault:
            return fault
    return Turns(
        models=tuple(one.name for one in requests),
        mode=mode,
        swaps_per_day=sum(_swaps(number, day) for number in range(len(members))),
        first_wait_s=waits,
        delayed=delayed,
        swapping=swapping,
        host_bytes=held,
    )


def _host_bytes(chosen: Sequence[Candidate]) -> int:
    """Weights of all of them, over all ranks: who is awake keeps its pages, pinned, for its next sleep."""
    return sum(rank.weights.bytes.value for one in chosen for rank in one.estimate.per_gpu)


def asleep_bytes(candidate: Candidate, mode: str) -> int:
    """What stays on each of its cards."""
    return kept_bytes(mode, max(rank.runtime.bytes.value for rank in candidate.estimate.per_gpu))


def _member(request: ModelRequest, candidate: Candidate, gpu: GpuSpec, mode: str) -> Member:
    """Its service time by Little's law: the number in service at the peak over the peak's rate."""
    weights = max(rank.weights.bytes.value for rank in candidate.estimate.per_gpu)
    cache = max(rank.kv_cache.bytes.value for rank in candidate.estimate.per_gpu)
    trace = request.traffic.trace
    peak = traced(trace).rate if trace is not None else max(hour_rate(request.traffic, hour) for hour in range(24))
    engine, version = find_engine(f"{candidate.estimate.engine}@{candidate.estimate.engine_version}")
    how = starting(engine.name, version, enforce_eager=candidate.estimate.settings.enforce_eager)
    times = swap_seconds(weights, gpu, cache, starting=how)[mode]
    return Member(candidate.demand.mean_in_service / peak, *times)


def _busy(hour: Hour, members: Sequence[Member]) -> float:
    """The sum of the shares of time in which each has something in service."""
    return sum(1 - exp(-rate * one.service_s) for rate, one in zip(hour.rates, members, strict=True))


def _swapping(hour: Hour, members: Sequence[Member]) -> float:
    return sum(hour.delayed(one) * _swap_s(one, hour, members) for one in range(len(members)))


def _swap_s(one: int, hour: Hour, members: Sequence[Member]) -> float:
    """Seconds from the end of another's work to the wake of `one`; the others in proportion to their requests."""
    rest = sum(hour.rates) - hour.rates[one]
    if rest <= 0:
        return members[one].wake_s
    sleeps = sum(rate * other.sleep_s for place, (rate, other) in _others(one, hour, members))
    return sleeps / rest + members[one].wake_s


def _others(one: int, hour: Hour, members: Sequence[Member]) -> Iterator[tuple[int, tuple[float, Member]]]:
    pairs = enumerate(zip(hour.rates, members, strict=True))
    return ((place, pair) for place, pair in pairs if place != one)


def _wait(one: int, day: Sequence[Hour], members: Sequence[Member]) -> float:
    """The mean wait of a request that finds its model asleep, where that is longest: in an hour that it shares, or
    where it takes over from the hour before."""
    longest, last = 0.0, next((hour for hour in reversed(day) if sum(hour.rates) > 0), day[0])
    for before, hour in zip([day[-1], *day[:-1]], day, strict=True):
        awake, last = last, hour if sum(hour.rates) > 0 else last  # who was asked last is awake, however long ago
        if hour.rates[one] <= 0:
            continue
        load = _busy_beside(one, hour, members) + _swapping(hour, members)
        shared = (_running(one, hour, members) + _swap_s(one, hour, members)) / (1 - min(0.99, load))
        longest = max(longest, shared, _running(one, before, members) + _swap_s(one, awake, members))
    return longest


def _running(one: int, hour: Hour, members: Sequence[Member]) -> float:
    """Seconds that the others still work for what they have begun."""
    pairs = (pair for _, pair in _others(one, hour, members))
    return sum((1 - exp(-rate * other.service_s)) * other.service_s for rate, other in pairs)


def _busy_beside(one: int, hour: Hour, members: Sequence[Member]) -> float:
    return sum(1 - exp(-rate * other.service_s) for _, (rate, other) in _others(one, hour, members))


def _swaps(one: int, day: Sequence[Hour]) -> float:
    """How often a model is woken in a day: within its hours, and where an hour of others ends."""
    hours = [hour for hour in day if sum(hour.rates) > 0]
    within = sum(hour.delayed(one) for hour in hours) * _HOUR_S
    between = 0.0
    for before, after in zip([*hours[-1:], *hours[:-1]], hours, strict=True):
        was, now = (hour.rates[one] / sum(hour.rates) for hour in (before, after))
        between += max(0.0, now * (1 - was) - now * (1 - now))
    return within + between


def _delayed(one: int, day: Sequence[Hour]) -> float:
    requests = sum(hour.rates[one] for hour in day) * _HOUR_S
    return min(1.0, _swaps(one, day) / requests) if requests else 0.0


def _slo_fault(request: ModelRequest, candidate: Candidate, wait_s: float, delayed: float) -> str:
    """ "" where its TTFT holds all the same."""
    slo, own = request.slo, candidate.demand.ttft_s
    if slo is None or slo.ttft_s is None:
        return ""
    alone = own[1] if own else 0.0
    granted = (1 - slo.percentile / 100) / 2
    if alone + wait_s <= slo.ttft_s or delayed <= granted:
        return ""
    return (
        f"{request.name}: {format_percent(delayed, digits=1)} of its requests would wait {format_seconds(wait_s)} "
        f"for it to wake (TTFT {format_seconds(slo.ttft_s)})"
    )
