"""Token lengths as a distribution: log-normal through p50 and p95, as a histogram says, or constant."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import exp, inf, log
from typing import Protocol

from cotenant.domain.workload import Lengths
from cotenant.errors import InputError
from cotenant.estimation.normal import Z95, normal_cdf, normal_quantile

_CELLS = 24
_REACH = (
    3.9  # cells reach this many standard deviations either way; 1e-4 of the mass lies outside, kept at the ends
)


class LengthModel(Hashable, Protocol):
    """How long requests are, in tokens."""

    @property
    def mean(self) -> float:
        """Mean length."""
        ...

    def quantile(self, p: float) -> float:
        """The length that a share `p` of requests does not exceed, 0 < p < 1."""
        ...

    def share_above(self, tokens: float) -> float:
        """The share of requests longer than `tokens`."""
        ...

    def cells(self) -> tuple[tuple[float, float], ...]:
        """(length, probability) pairs that keep the mean exactly."""
        ...


@dataclass(frozen=True, slots=True)
class ConstantLength:
    """Every request alike."""

    tokens: float

    @property
    def mean(self) -> float:
        """Mean length."""
        return self.tokens

    def quantile(self, p: float) -> float:
        """Always the one length."""
        return self.tokens

    def share_above(self, tokens: float) -> float:
        """1 or 0."""
        return float(self.tokens > tokens)

    def cells(self) -> tuple[tuple[float, float], ...]:
        """The one length."""
        return ((self.tokens, 1.0),)


@dataclass(frozen=True, slots=True)
class LogNormalLength:
    """exp(mu + sigma Z), capped at `maximum`: what would be longer is exactly `maximum` long."""

    mu: float
    sigma: float
    maximum: float = inf

    @property
    def mean(self) -> float:
        """Mean of the capped length: E[X; X < max] + max P(X >= max)."""
        top = (log(self.maximum) - self.mu) / self.sigma if self.maximum < inf else inf
        body = exp(self.mu + self.sigma**2 / 2) * normal_cdf(top - self.sigma)
        return body + (self.maximum * normal_cdf(-top) if self.maximum < inf else 0.0)

    def quantile(self, p: float) -> float:
        """exp(mu + sigma z_p), at most `maximum`."""
        return min(self.maximum, exp(self.mu + self.sigma * normal_quantile(p)))

    def share_above(self, tokens: float) -> float:
        """P(X > tokens); nothing is above `maximum`."""
        if tokens >= self.maximum:
            return 0.0
        return 1.0 if tokens <= 0 else normal_cdf((self.mu - log(tokens)) / self.sigma)

    def cells(self) -> tuple[tuple[float, float], ...]:
        """Cells of equal width in z, each at its conditional mean: the tail is kept as finely as the middle."""
        return _cells(self)


@lru_cache(maxsize=256)
def _cells(length: LogNormalLength) -> tuple[tuple[float, float], ...]:
    """E[X; z in (a, b)] = e^(mu + sigma^2/2) (F(b - sigma) - F(a - sigma)); the outer cells take all beyond."""
    sigma, maximum = length.sigma, length.maximum
    top = (log(maximum) - length.mu) / sigma if maximum < inf else inf
    inner = [-_REACH + 2 * _REACH * k / _CELLS for k in range(1, _CELLS)]
    edges = [-inf, *(z for z in inner if z < top), top] + ([] if top == inf else [inf])
    scale = exp(length.mu + sigma**2 / 2)
    found = []
    for start, end in pairwise(edges):
        probability = _between(start, end)
        if probability > 1e-12:
            mean = maximum if start >= top else scale * _between(start - sigma, end - sigma) / probability
            found.append((mean, probability))
    return tuple(found)


def _between(start: float, end: float) -> float:
    """P(start < Z <= end), without cancellation in the upper tail."""
    return normal_cdf(-start) - normal_cdf(-end) if start > 0 else normal_cdf(end) - normal_cdf(start)


@dataclass(frozen=True, slots=True)
class HistogramLength:
    """Lengths that occur, shortest first, and the share `upto` each."""

    lengths: tuple[float, ...]
    upto: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean length."""
        return sum(length * share for length, share in self.cells())

    def quantile(self, p: float) -> float:
        """The shortest length that a share `p` does not exceed."""
        return self.lengths[min(bisect_left(self.upto, p - 1e-12), len(self.lengths) - 1)]

    def share_above(self, tokens: float) -> float:
        """The share of requests longer than `tokens`."""
        place = bisect_right(self.lengths, tokens)
        return 1.0 if place == 0 else max(0.0, 1.0 - self.upto[place - 1])

    def cells(self) -> tuple[tuple[float, float], ...]:
        """Each length with its share."""
        shares = (high - low for low, high in pairwise((0.0, *self.upto)))
        return tuple(zip(self.lengths, shares, strict=True))


def histogram_length(histogram: tuple[tuple[int, float], ...], *, cap: float = inf) -> HistogramLength:
    """Of (length, weight) pairs in any order; what would be longer than `cap` is that long."""
    whole = sum(weight for _, weight in histogram)
    if not histogram or not whole > 0 or any(weight < 0 or length <= 0 for length, weight in histogram):
        raise InputError(
            "a histogram needs lengths and weights above zero", hint="[[100, 5], [500, 20], [2000, 3]]"
        )
    merged: dict[float, float] = {}
    for length, weight in sorted(histogram):
        merged[min(cap, float(length))] = merged.get(min(cap, float(length)), 0.0) + weight / whole
    kept = {length: share for length, share in merged.items() if share > 0}
    upto = [min(1.0, part) for part in accumulate(kept.values())]
    return HistogramLength(tuple(kept), (*upto[:-1], 1.0))


def length_model(lengths: Lengths, *, cap: float = inf) -> LengthModel:
    """The distribution of `lengths`: log-normal through p50 and p95, one percentile alone constant.

    `cap` is the model's own limit; the smaller of it and a declared maximum holds. Raises InputError when
    no percentile is given, p95 lies below p50, or a length is not positive.
    """
    given = [value for value in (lengths.p50, lengths.p95, lengths.maximum) if value is not None]
    if any(value <= 0 for value in given):
        raise InputError("token lengths must be positive", hint="write p50, p95 and max as whole tokens")
    maximum = min(cap, lengths.maximum if lengths.maximum is not None else inf)
    if lengths.histogram:
        return histogram_length(lengths.histogram, cap=maximum)
    if lengths.p50 is None and lengths.p95 is None:
        if lengths.maximum is None:
            raise InputError("token lengths need p50, p95 or max", hint="{p50: 600, p95: 1600}")
        return ConstantLength(float(maximum))
    if lengths.p50 is None or lengths.p95 is None:
        return ConstantLength(float(min(maximum, lengths.p95 or lengths.p50 or 0)))
    if lengths.p95 < lengths.p50:
        raise InputError(f"p95 ({lengths.p95}) lies below p50 ({lengths.p50})", hint="swap them")
    if lengths.p95 == lengths.p50:
        return ConstantLength(float(min(maximum, lengths.p50)))
    sigma = log(lengths.p95 / lengths.p50) / Z95
    return LogNormalLength(log(lengths.p50), sigma, float(maximum))
