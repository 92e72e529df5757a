"""Random numbers that are the same on every machine: raw bits of a named generator, then arithmetic of our own.

A library may change how it shapes its bits from one release to the next, and the C library's logarithm may differ
in its last bit; sums, products, quotients and square roots of doubles may not (IEEE 754).
"""

from __future__ import annotations

from math import frexp, ldexp, sqrt

import numpy as np

_LN2 = 0.6931471805599453


class Draws:
    """A stream of random numbers from a seed and a few numbers that name what it is for."""

    def __init__(self, seed: int, *purpose: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, *purpose]))

    def uniform(self) -> float:
        """Strictly between 0 and 1: the middle of one of 2^52 equal cells."""
        return ((int(self._bits.random_raw()) >> 12) + 0.5) / 2**52

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit` - 1; the bias is below `limit` / 2^52."""
        return int(self.uniform() * limit)

    def exponential(self) -> float:
        """Mean 1."""
        return -logarithm(self.uniform())

    def normal(self) -> float:
        """Mean 0, variance 1, by Marsaglia's polar method (1964)."""
        while True:
            x, y = 2 * self.uniform() - 1, 2 * self.uniform() - 1
            square = x * x + y * y
            if 0 < square < 1:
                return x * sqrt(-2 * logarithm(square) / square)

    def gamma(self, shape: float) -> float:
        """Mean `shape`, variance `shape`: Marsaglia and Tsang (2000); below 1 by the power of a uniform."""
        if shape < 1:
            return self.gamma(shape + 1) * exponential(logarithm(self.uniform()) / shape)
        d = shape - 1 / 3
        c = 1 / sqrt(9 * d)
        while True:
            x = self.normal()
            root = 1 + c * x
            v = root * root * root
            if v > 0 and logarithm(self.uniform()) < 0.5 * x * x + d - d * v + d * logarithm(v):
                return d * v


def logarithm(x: float) -> float:
    """The natural logarithm by basic arithmetic: 2 artanh((m - 1) / (m + 1)) after halving into [0.7, 1.4]."""
    mantissa, exponent = frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = 2 * mantissa, exponent - 1
    z = (mantissa - 1) / (mantissa + 1)
    square, term, total = z * z, z, 0.0
    for odd in range(1, 25, 2):
        total += term / odd
        term *= square
    return 2 * total + exponent * _LN2


def exponential(x: float) -> float:
    """e to the `x` by basic arithmetic: its series within half a halving of 0, then halved or doubled exactly."""
    halvings = round(x / _LN2)
    if halvings < -1100:
        return 0.0
    rest, term, total = x - halvings * _LN2, 1.0, 1.0
    for number in range(1, 20):
        term *= rest / number
        total += term
    return ldexp(total, halvings)
