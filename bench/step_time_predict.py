"""What the roofline says that a benchmark would have measured: TPOT, TTFT and throughput of one situation.

Closed-loop serving: `concurrency` in flight at all times, as many running as the KV cache holds, the rest queued.
Open-loop serving: Poisson at `request_rate`. A burst: all prompts at once. An offline batch: all prompts read
together, then all answers written together. Maximum throughput: as many as the cache or the engine's limit holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.step_time_rows import LeftOutError, Situation
from cotenant.estimation.in_flight import held_tokens
from cotenant.estimation.lengths import ConstantLength
from cotenant.estimation.service import Service, closed_service, open_service
from cotenant.estimation.step_constants import FITTED, Fitted

_MOST_SEQUENCES = 2048.0  # TensorRT-LLM's max_batch_size by default, which its maximum throughput is measured at
_NO_LIMIT = 1 << 24

# How closed-loop benchmarks run: `concurrency` requests at once, then one as one ends, ten times as many in all
# (--max-concurrency C --num-prompts 10 C in InferenceX's scripts): one request in ten waits for half the others.
_WAVES = 10
# InferenceX draws lengths between 0.8 and 1 times those it reports (--random-range-ratio 0.8).
_MEAN_LENGTH = {"InferenceX": 0.9}


@dataclass(frozen=True, slots=True)
class Predicted:
    """Seconds and tokens/s; None where the kind of benchmark has no such figure."""

    tpot_s: float | None
    ttft_s: float | None
    output_rate: float | None
    batch: float


@dataclass(frozen=True, slots=True)
class _Load:
    """Mean tokens of a request."""

    prompt: float
    answer: float

    @property
    def middle(self) -> float:
        """Context half way through the answer."""
        return self.prompt + self.answer / 2


def predict(asked: Situation, fitted: Fitted = FITTED) -> Predicted:
    """The figures of one situation. Raises LeftOutError where the record does not state its load."""
    kind, record = asked.record["kind"], asked.record
    share = _MEAN_LENGTH.get(record["pub"], 1.0)
    load = _Load(record["isl"] * share, (record["osl"] or 1) * share)
    if kind == "max_throughput":
        return _closed(asked, load, min(_MOST_SEQUENCES, _fitting(asked, load)), fitted)
    if kind == "serving" and record["request_rate"] and not record["concurrency"]:
        return _open(asked, load, record["request_rate"])
    number = record["concurrency"]
    if not number:
        raise LeftOutError("neither a concurrency nor a request rate")
    if kind in ("offline_batch", "offline_prefill"):
        return _batch(asked, load, number)
    return (_burst if kind == "burst" else _closed)(asked, load, number, fitted)


def _fitting(asked: Situation, load: _Load) -> float:
    """Sequences that the cache holds at once, half way through their answers."""
    fits = asked.capacity_tokens / load.middle
    if fits < 1:
        raise LeftOutError("by our arithmetic not one sequence fits")
    return fits


def _closed(asked: Situation, load: _Load, number: float, fitted: Fitted) -> Predicted:
    running = min(number, _fitting(asked, load))
    inputs, outputs = ConstantLength(load.prompt), ConstantLength(load.answer)
    state = closed_service(running, inputs, outputs, held_tokens(inputs, outputs, _NO_LIMIT), asked.times)
    waiting = (number - running) / state.rate
    if _in_step(asked):
        return _together(asked, load, running, fitted, waiting)
    first = state.ttft_s(load.prompt, running, asked.times, fitted.closed_queue)
    first += (running - 1) / 2 / _WAVES * state.prefill_s
    return _figures(asked, load, state, running, first + waiting)


def _in_step(asked: Situation) -> bool:
    """Whether all requests begin and end together every time.

    SGLang reads every waiting prompt before the next token; with one length for all, all end in the same step and
    come back at once. Engines that mix prompts into decode steps stagger them for good.
    """
    return asked.record["engine"] == "sglang" and asked.record["pub"] not in _MEAN_LENGTH


def _together(asked: Situation, load: _Load, running: float, fitted: Fitted, waiting: float = 0.0) -> Predicted:
    """Prompts one after another, then tokens; half the prompts stand between a first token and a second."""
    times = asked.times
    one = times.prefill_s(load.prompt * running, load.prompt**2 * running) / running
    tpot = times.decode_step_s(running, running * load.middle)
    others = one * (running - 1) / 2
    whole = one * running + load.answer * tpot
    return Predicted(
        tpot + others / load.answer,
        fitted.first_token_s + one + others + waiting,
        running * load.answer / whole,
        running,
    )


def _open(asked: Situation, load: _Load, rate: float) -> Predicted:
    inputs, outputs = ConstantLength(load.prompt), ConstantLength(load.answer)
    state = open_service(rate, inputs, outputs, held_tokens(inputs, outputs, _NO_LIMIT), asked.times)
    if state is None:
        raise LeftOutError("by our arithmetic more load than capacity: no steady state")
    batch = 1 + state.in_service
    return _figures(asked, load, state, batch, state.ttft_s(load.prompt, batch, asked.times))


def _figures(asked: Situation, load: _Load, state: Service, running: float, first_s: float) -> Predicted:
    return Predicted(state.tpot_s(running, asked.times), first_s, state.rate * load.answer, running)


def _burst(asked: Situation, load: _Load, number: float, fitted: Fitted) -> Predicted:
    """Its throughput as published counts the time until all answers are in, which no record states: left out."""
    return replace(_together(asked, load, min(number, _fitting(asked, load)), fitted), output_rate=None)


def _batch(asked: Situation, load: _Load, number: float) -> Predicted:
    """`number` prompts together, then the answers; in waves of what the cache holds."""
    times = asked.times
    running = min(number, _fitting(asked, load))
    reading = times.prefill_s(load.prompt * running, load.prompt**2 * running)
    step = times.decode_step_s(running, running * load.middle)
    return Predicted(None, None, running * load.answer / (reading + load.answer * step), running)
