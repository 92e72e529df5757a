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
        return total((self, other))

    def __sub__(self, other: Interval) -> Interval:
        return total((self, Interval(-other.high, -other.value, -other.low)))

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
    items = tuple(intervals)
    value = sum(item.value for item in items)
    below = isqrt(sum((item.value - item.low) ** 2 for item in items))
    above = isqrt(sum((item.high - item.value) ** 2 for item in items))
    return Interval(value - below, value, value + above)
