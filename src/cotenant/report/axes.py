"""Scales of a plot: values to places, and the round values that are written along it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """From `low`..`high` to the places `first`..`last`; `log` for equal ratios instead of equal steps."""

    low: float
    high: float
    first: float
    last: float
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Where `value` stands; beyond the ends it stays at the end."""
        if not self.high > self.low:  # two values that rounding made one
            return self.first
        share = (
            (log10(max(value, self.low)) - log10(self.low)) / (log10(self.high) - log10(self.low))
            if self.log
            else (value - self.low) / (self.high - self.low)
        )
        return self.first + min(1.0, max(0.0, share)) * (self.last - self.first)


def linear(low: float, high: float, span: tuple[float, float], *, tight: bool = False, most: int = 5) -> Scale:
    """Round values in at most `most` steps; the scale ends at a round value, or (`tight`) where the data does."""
    if high - low <= 1e-9 * abs(low):
        high = low + max(1.0, 0.01 * abs(low))
    step = _round_step((high - low) / most)
    start, end = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    ticks = tuple(number * step for number in range(start, end + 1))
    if tight:
        return Scale(low, high, *span, tuple(tick for tick in ticks if low <= tick <= high * (1 + 1e-9)))
    return Scale(start * step, end * step, *span, ticks)


def logarithmic(low: float, high: float, span: tuple[float, float]) -> Scale:
    """Decades and, where there are few of them, 2 and 5 between. What is not above zero stands at the low end."""
    high = high if high > 0 else 1.0
    low = max(low, high * 1e-6)
    if high < 1.5 * low:
        low, high = low / 1.3, high * 1.3
    parts = (1, 2, 5) if log10(high / low) < 2.5 else (1,)
    ticks = tuple(
        part * 10.0**power
        for power in range(floor(log10(low)), ceil(log10(high)) + 1)
        for part in parts
        if low * 0.999 <= part * 10.0**power <= high * 1.001
    )
    return Scale(low, high, *span, ticks, log=True)


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 2.5, 5 x 10^n that is not below `rough`."""
    power = 10.0 ** floor(log10(rough)) if rough > 0 else 1.0
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))
