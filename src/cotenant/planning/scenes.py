"""What a plan is replayed against: the traffic as it is declared, and all peaks at once.

Models whose hours differ are never busiest together. So the declared traffic is looked at in the busiest hour of
each of them (in which all others come as they do in that hour), and traces in the busiest stretch of each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import Plan
from cotenant.domain.replay import ModelReplay, Replay
from cotenant.domain.workload import Lengths, Trace, Traffic


class Replayer(Protocol):
    """The port to the simulator: neither room knows the other."""

    def __call__(
        self,
        plan: Plan,
        models: Sequence[ModelRequest],
        seconds: float,
        /,
        *,
        policy: str = "static",
        draw: int = 0,
    ) -> Replay:
        """What comes of `seconds` of the models' traffic on the plan, its memory shared by `policy`; each `draw`
        has arrivals and lengths of its own."""
        ...


SHORTEST_S, LONGEST_S = 300.0, 1800.0
ENOUGH = 300  # requests of the rarest model with an SLO, a draw: one in twenty then is fifteen
DRAWS = 5  # of each scene, judged together: one alone may be lucky
MOST_REQUESTS = 20_000  # a draw
_ALMOST_NEVER = 1e-9


@dataclass(frozen=True, slots=True)
class Scene:
    """Traffic to replay for `seconds`: the fleet's models, each with what it is asked in that time."""

    name: str
    models: tuple[ModelRequest, ...]
    seconds: float


def declared_scenes(fleet: Fleet) -> tuple[Scene, ...]:
    """The busiest moments of the traffic as declared; one scene where nothing varies."""
    seconds = _seconds(fleet)
    found: dict[tuple[Traffic, ...], Scene] = {}
    for name, models in _moments(fleet, seconds):
        found.setdefault(tuple(model.traffic for model in models), Scene(name, models, seconds))
    return tuple(found.values())


def all_peaks(fleet: Fleet) -> Scene:
    """Every model in its own busiest hour (or stretch of its trace), all at the same time."""
    seconds = _seconds(fleet)
    return Scene("all peaks at once", tuple(_at_peak(model, seconds) for model in fleet.models), seconds)


def draws_of(scene: Scene) -> int:
    """How often it is replayed: what a trace tells comes the same way each time."""
    return DRAWS if any(model.traffic.trace is None for model in scene.models) else 1


@dataclass(frozen=True, slots=True)
class Kept:
    """What `replays` of a plan, with `requests` in all, said: the least share 0..1 of each model's requests within
    its SLO over the scenes, and who misses its SLO in one."""

    attainment: Mapping[str, float]
    missed: tuple[str, ...]
    replays: int
    requests: int


def kept_by(plan: Plan, scenes: Sequence[Scene], replayer: Replayer, policy: str = "static") -> Kept:
    """Replay every scene and judge it.

    A share is of the requests of all draws together and must be what the percentile asks, and nobody may be left
    unanswered. Draws that could not mend what the ones before them missed are left out.
    """
    attainment: dict[str, float] = {}
    missed: dict[str, None] = {}
    replays = requests = 0
    for scene in scenes:
        found: list[tuple[ModelReplay, ...]] = []
        while len(found) < draws_of(scene) and not _is_lost(scene, found):
            replayed = replayer(plan, scene.models, scene.seconds, policy=policy, draw=len(found))
            found.append(tuple(replayed.models))
        replays += len(found)
        requests += sum(one.requests for models in found for one in models)
        for request, *draws in zip(scene.models, *found, strict=True):
            share = _share(draws)
            attainment[request.name] = min(share, attainment.get(request.name, 1.0))
            if request.slo is None:
                continue
            if share < request.slo.percentile / 100 - 1e-9 or any(one.unfinished for one in draws):
                missed[request.name] = None
    return Kept(attainment, tuple(missed), replays, requests)


def _share(draws: Sequence[ModelReplay]) -> float:
    count = sum(one.requests for one in draws)
    return sum(one.attainment * one.requests for one in draws) / count if count else 1.0


def _is_lost(scene: Scene, found: Sequence[tuple[ModelReplay, ...]]) -> bool:
    """Whether somebody misses its SLO even if all requests of the draws to come keep it."""
    if not found:
        return False
    part = len(found) / draws_of(scene)
    return any(
        request.slo is not None and (1 - _share(draws)) * part > 1 - request.slo.percentile / 100 + 1e-9
        for request, *draws in zip(scene.models, *found, strict=True)
    )


def _moments(fleet: Fleet, seconds: float) -> Iterator[tuple[str, tuple[ModelRequest, ...]]]:
    varying = [model for model in fleet.models if model.traffic.by_hour or model.traffic.trace is not None]
    if not varying or _zones(fleet) > 1:
        yield "declared traffic", tuple(_at_peak(model, seconds) for model in fleet.models)
        return
    for model in varying:
        if model.traffic.trace is not None:
            start = busiest_start(model.traffic.trace, seconds)
            name = f"the {seconds:,.0f} s from {start:,.0f} s on"
            yield name, tuple(_from(other, start, seconds) for other in fleet.models)
        else:
            weights = model.traffic.by_hour
            hour = weights.index(max(weights))
            yield f"from {hour:02d}:00", tuple(at_hour(other, hour, seconds) for other in fleet.models)


def _zones(fleet: Fleet) -> int:
    """Time zones of the hours that are told: with several, nobody knows which hours meet."""
    return len({model.traffic.timezone for model in fleet.models if model.traffic.by_hour})


def at_hour(request: ModelRequest, hour: int, seconds: float) -> ModelRequest:
    """The model as it is asked in that hour; one whose traffic does not vary as always."""
    traffic = request.traffic
    if not traffic.by_hour:
        return _at_peak(request, seconds)
    return _steady(request, hour_rate(traffic, hour))


def hour_rate(traffic: Traffic, hour: int) -> float:
    """Requests/s in that hour of the day: the day's mean x the hour's weight over the mean weight."""
    rate = traffic.requests_per_second or 0.0
    return rate * traffic.by_hour[hour] * 24 / sum(traffic.by_hour) if traffic.by_hour else rate


def _at_peak(request: ModelRequest, seconds: float) -> ModelRequest:
    traffic = request.traffic
    if traffic.trace is not None:
        return _from(request, busiest_start(traffic.trace, seconds), seconds)
    if traffic.by_hour and traffic.requests_per_second is not None:
        return _steady(request, max(hour_rate(traffic, hour) for hour in range(24)))
    return request


def _from(request: ModelRequest, start: float, seconds: float) -> ModelRequest:
    trace = request.traffic.trace
    if trace is None:
        return _at_peak(request, seconds)
    first, last = (bisect_left(trace.arrivals_s, moment) for moment in (start, start + seconds))
    if first == last:
        silent = Traffic(_ALMOST_NEVER, Lengths(p50=1), Lengths(p50=1))
        return replace(request, traffic=silent)
    kept = slice(first, last)
    cut = replace(
        trace,
        arrivals_s=tuple(moment - start for moment in trace.arrivals_s[kept]),
        input_tokens=trace.input_tokens[kept],
        output_tokens=trace.output_tokens[kept],
        seen_tokens=trace.seen_tokens[kept],
        blocks=trace.blocks[kept],
    )
    return replace(request, traffic=Traffic(trace=cut))


def _steady(request: ModelRequest, rate: float) -> ModelRequest:
    traffic = replace(request.traffic, requests_per_second=max(rate, _ALMOST_NEVER), by_hour=())
    return replace(request, traffic=traffic)


def busiest_start(trace: Trace, seconds: float) -> float:
    """When the `seconds` with the most arrivals begin."""
    moments = trace.arrivals_s
    counts = [bisect_left(moments, start + seconds) - number for number, start in enumerate(moments)]
    return moments[counts.index(max(counts))]


def _seconds(fleet: Fleet) -> float:
    """Long enough to count misses of the rarest, short enough to wait for."""
    rates = {model.name: _peak_rate(model.traffic) for model in fleet.models}
    judged = [rate for model in fleet.models if model.slo is not None and (rate := rates[model.name])]
    wanted = min(max(SHORTEST_S, ENOUGH / min(judged, default=1.0)), LONGEST_S)
    return min(wanted, max(1.0, MOST_REQUESTS / max(sum(rates.values()), _ALMOST_NEVER)))


def _peak_rate(traffic: Traffic) -> float:
    """Requests/s at most; 0 where the answers decide how many come."""
    if traffic.trace is not None:
        span = traffic.trace.arrivals_s[-1] - traffic.trace.arrivals_s[0]
        return len(traffic.trace.arrivals_s) / max(span, 1.0)
    return max(hour_rate(traffic, hour) for hour in range(24))
