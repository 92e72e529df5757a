"""A quantity with its 90 % interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt


@dataclass(frozen=True, slots=True)
class Interval:
    """A whole number with its 90 % interval: ``low <= value <= high``. Bytes unless said otherwise."""

    low: int
    value: int
    high: int

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"interval out of order: {self.low}, {self.value}, {self.high}")

    @classmethod
    def exact(cls, value: int) -> Interval:
        """A quantity known without doubt."""
        return cls(value, value, value)

    @property
    def is_exact(self) -> bool:
        """Whether nothing is uncertain here."""
        return self.low == self.high

    def __add__(self, other: Interval) -> Interval:
        value = self.value + other.value
        below = isqrt((self.value - self.low) ** 2 + (other.value - other.low) ** 2)
        above = isqrt((self.high - self.value) ** 2 + (other.high - other.value) ** 2)
        return Interval(value - below, value, value + above)

    def __sub__(self, other: Interval) -> Interval:
        value = self.value - other.value
        below = isqrt((self.value - self.low) ** 2 + (other.high - other.value) ** 2)
        above = isqrt((self.high - self.value) ** 2 + (other.value - other.low) ** 2)
        return Interval(value - below, value, value + above)

    def shifted(self, by: int) -> Interval:
        """The same doubt about a value that is `by` more."""
        return Interval(self.low + by, self.value + by, self.high + by)

    def scaled(self, factor: int) -> Interval:
        """`factor` copies that err together (the same term many times), factor >= 0."""
        return Interval(self.low * factor, self.value * factor, self.high * factor)

    def clamped(self, floor: int = 0) -> Interval:
        """No part below `floor`."""
        return Interval(max(floor, self.low), max(floor, self.value), max(floor, self.high))


def total(intervals: Iterable[Interval]) -> Interval:
    """The sum of quantities that err independently.

    Values add; each side's deviation adds in quadrature (root of the sum of squares), which is how
    90 % intervals of independent errors combine when each is roughly normal.
    """
    value = below_squared = above_squared = 0
    for item in intervals:
        value += item.value
        below_squared += (item.value - item.low) ** 2
        above_squared += (item.high - item.value) ** 2
    below, above = isqrt(below_squared), isqrt(above_squared)
    return Interval(value - below, value, value + above)
