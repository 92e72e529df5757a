"""From a model's traffic to its requests: when they come, how long they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cotenant.domain.workload import Arrivals, Lengths, Trace, Traffic
from cotenant.estimation.lengths import length_model
from cotenant.simulation.arrivals import by_hour, gamma, on_off, poisson
from cotenant.simulation.costs import NS_PER_S
from cotenant.simulation.draws import Draws
from cotenant.simulation.load import Prefixes, Requests

_CELLS = 2048  # lengths are drawn from that many equally likely quantiles
_PROMPT_SHARE = 0.75
_MOST_CLOSED = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Requests of one model. `users` above 0: closed loop, each of them asks again as soon as it is answered; the
    requests then come in their order, and their times say nothing."""

    requests: Requests
    users: int
    warnings: tuple[str, ...] = ()


def workload(
    traffic: Traffic, *, seed: int, model: int, duration_s: float, step_s: float, priority: int,
    start_hour: int | None = None, timeout_s: float | None = None, answers: bool = True,
) -> Workload:  # fmt: skip
    """The requests of the `model`-th model within `duration_s`. `step_s` is its fastest decode step; it and
    `timeout_s`, after which clients leave, bound how many a closed loop can ask. A varying rate (`by_hour`)
    starts at `start_hour`, or at its busiest hour. Without output lengths, or where it does not answer
    (`answers`: embeddings do not), a request is done as soon as it is read.
    """
    if traffic.trace is not None:
        requests = traced(traffic.trace, priority=priority, duration_s=duration_s)
        return Workload(requests if answers else _read_only(requests), 0, traffic.trace.notes)
    if traffic.concurrent is not None:
        return _closed(traffic, seed, model, duration_s, step_s, priority, timeout_s, answers)
    times, sizes = Draws(seed, model, 0), Draws(seed, model, 1)
    rate = traffic.requests_per_second or 0.0
    if traffic.by_hour:
        start = traffic.by_hour.index(max(traffic.by_hour)) if start_hour is None else start_hour
        arrivals = by_hour(rate, traffic.by_hour, duration_s, times, start_hour=start)
    else:
        arrivals = _arrivals(traffic.arrivals, rate, duration_s, times)
    inputs = _drawn(traffic.input_tokens or traffic.context_tokens, len(arrivals), sizes)
    outputs = _drawn(traffic.output_tokens or Lengths(p50=1), len(arrivals), sizes)
    requests = Requests.of(arrivals, inputs, outputs, priority)
    return Workload(requests if answers else _read_only(requests), 0)


def _arrivals(how: Arrivals, rate: float, duration_s: float, draws: Draws) -> list[int]:
    if how.kind == "gamma":
        return gamma(rate, duration_s, draws, variation=how.variation)
    if how.kind == "on-off":
        return on_off(rate * how.peak, duration_s, draws, on_s=how.on_s, off_s=how.off_s)
    return poisson(rate, duration_s, draws)


def traced(trace: Trace, *, priority: int = 0, duration_s: float | None = None) -> Requests:
    """A trace's requests, those within `duration_s`. One that asks for no token still costs a first one."""
    arrivals = np.round(np.array(trace.arrivals_s) * NS_PER_S).astype(np.int64)
    kept = len(arrivals) if duration_s is None else int(np.searchsorted(arrivals, round(duration_s * NS_PER_S)))
    outputs = np.maximum(1, np.array(trace.output_tokens, np.int64))
    found = Requests.of(arrivals[:kept], trace.input_tokens[:kept], outputs[:kept], priority)
    return replace(found, prefixes=Prefixes(trace.blocks[:kept], trace.block_tokens)) if trace.blocks else found


def _closed(
    traffic: Traffic,
    seed: int,
    model: int,
    duration_s: float,
    step_s: float,
    priority: int,
    timeout_s: float | None,
    answers: bool,
) -> Workload:
    """`concurrent` users. Where only the context in flight is known, three quarters of it are taken as prompt, or
    all of it where nothing is answered."""
    users, sizes, warnings = traffic.concurrent or 1, Draws(seed, model, 1), []
    outputs = _quantiles(traffic.output_tokens or traffic.context_tokens)
    mean = sum(outputs) / len(outputs) * (1.0 if traffic.output_tokens else 1 - _PROMPT_SHARE) if answers else 1.0
    fastest = max(step_s * mean, 1e-9)
    if timeout_s is not None and timeout_s < fastest:
        fastest = max(min(step_s, fastest), timeout_s)  # who leaves earlier asks again earlier, at a step's end
    count = min(_MOST_CLOSED, users * (2 + int(2 * duration_s / fastest)))
    if traffic.input_tokens is not None and traffic.output_tokens is not None:
        given, written = (
            _drawn(lengths, count, sizes) for lengths in (traffic.input_tokens, traffic.output_tokens)
        )
    else:
        context = _drawn(traffic.context_tokens, count, sizes)
        given = [max(1, round(tokens * _PROMPT_SHARE)) for tokens in context] if answers else context
        written = [max(1, tokens - prompt) for tokens, prompt in zip(context, given, strict=True)]
        if answers:
            warnings.append("of the context in flight three quarters are taken as prompt, one as answer")
    requests = Requests.of([0] * count, given, written, priority)
    return Workload(requests if answers else _read_only(requests), users, tuple(warnings))


def _read_only(requests: Requests) -> Requests:
    """Done with what would be their first token."""
    return replace(requests, output_tokens=np.ones_like(requests.output_tokens))


def _drawn(lengths: Lengths | None, count: int, draws: Draws) -> list[int]:
    cells = _quantiles(lengths)
    return [cells[draws.below(len(cells))] for _ in range(count)]


def _quantiles(lengths: Lengths | None) -> list[int]:
    """Equally likely lengths, at least one token each."""
    found = length_model(lengths or Lengths())
    return [max(1, round(found.quantile((cell + 0.5) / _CELLS))) for cell in range(_CELLS)]
