"""A trace as traffic: its busiest hour's rate, its own lengths, inputs and outputs as they came together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from math import log

from cotenant.domain.workload import Trace
from cotenant.estimation.in_flight import Held, Mixture

HOUR_S = 3600.0
_WIDTH = log(1.04)  # cells of 4 %, as elsewhere
_SHARES = 6
_BURSTY = 2.0  # variance over mean of the number of arrivals a service time from which Poisson is too calm


@dataclass(frozen=True, slots=True, eq=False)
class TracedLength:
    """Lengths as they came, sorted. Compared by identity, as the trace is."""

    tokens: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean length."""
        return sum(self.tokens) / len(self.tokens)

    def quantile(self, p: float) -> float:
        """The smallest length that a share `p` of the requests does not exceed."""
        return float(self.tokens[min(len(self.tokens) - 1, int(p * len(self.tokens)))])

    def share_above(self, tokens: float) -> float:
        """The share of requests that were longer."""
        return 1 - bisect_right(self.tokens, tokens) / len(self.tokens)

    def cells(self) -> tuple[tuple[float, float], ...]:
        """Lengths in cells of 4 %, each at its own mean."""
        return _cells(self.tokens)


@lru_cache(maxsize=64)
def _cells(tokens: tuple[int, ...]) -> tuple[tuple[float, float], ...]:
    sums: dict[int, list[float]] = {}
    for length, count in Counter(tokens).items():
        cell = sums.setdefault(int(log(length + 1) / _WIDTH), [0.0, 0.0])
        cell[0] += length * count
        cell[1] += count
    return tuple((total / count, count / len(tokens)) for _, (total, count) in sorted(sums.items()))


@dataclass(frozen=True, slots=True)
class TracedTraffic:
    """What sizing takes from a trace. `rate` is requests/s of its busiest hour (of all, where it is shorter)."""

    rate: float
    inputs: TracedLength
    outputs: TracedLength
    longest: int


@lru_cache(maxsize=16)
def traced(trace: Trace) -> TracedTraffic:
    """The rate and the lengths of a trace."""
    return TracedTraffic(
        rate=_busiest_rate(trace.arrivals_s),
        inputs=TracedLength(tuple(sorted(trace.input_tokens))),
        outputs=TracedLength(tuple(sorted(trace.output_tokens))),
        longest=trace.longest,
    )


def _busiest_rate(arrivals_s: tuple[float, ...]) -> float:
    """Requests/s of the hour with the most arrivals."""
    whole = arrivals_s[-1] - arrivals_s[0]
    if whole <= HOUR_S:
        return len(arrivals_s) / max(whole, 1.0)
    most = max(
        bisect_left(arrivals_s, start + HOUR_S) - number for number, start in enumerate(arrivals_s)
    )  # fmt: skip
    return most / HOUR_S


@lru_cache(maxsize=16)
def held_by_trace(trace: Trace, limit: int) -> Mixture:
    """What a request in service holds, input and output as they came together; sequences cut at `limit` tokens."""
    cells: dict[int, list[float]] = {}
    for given, written in zip(trace.input_tokens, trace.output_tokens, strict=True):
        for share in range(_SHARES):
            tokens = min(float(limit), given + written * (share + 0.5) / _SHARES)
            cell = cells.setdefault(int(log(tokens + 1) / _WIDTH), [0.0, 0.0, 0.0, 0.0])
            cell[0] += tokens
            cell[1] += 1
            cell[2] += given
            cell[3] += written or 1
    inputs = sum(cell[2] for cell in cells.values())
    outputs = sum(cell[3] for cell in cells.values())
    return Mixture.of(
        tuple(
            Held(total / count, by_input / inputs, by_output / outputs)
            for _, (total, count, by_input, by_output) in sorted(cells.items())
        )
    )


def burstiness(trace: Trace, window_s: float) -> float:
    """Variance over mean of the number of arrivals in windows of `window_s`: 1 for Poisson, more for bursts."""
    whole = trace.arrivals_s[-1]
    windows = int(whole / window_s)
    if windows < 10:
        return 1.0
    counts = Counter(min(windows - 1, int(arrival / window_s)) for arrival in trace.arrivals_s)
    # sum of squares over n, less the mean: windows in which nobody came need no look, however many they are
    arrivals = len(trace.arrivals_s)
    return sum(count * count for count in counts.values()) / arrivals - arrivals / windows


def burst_warning(trace: Trace, service_s: float) -> tuple[str, ...]:
    """A warning where arrivals bunch more within a service time than the Poisson sizing assumes."""
    ratio = burstiness(trace, max(service_s, 1.0))
    if ratio < _BURSTY:
        return ()
    return (
        f"arrivals of {trace.name} are burstier than Poisson (variance {ratio:.1f} x the mean within a service "
        "time): requests may queue at peaks although the average fits",
    )
