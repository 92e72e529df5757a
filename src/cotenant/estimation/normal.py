"""The standard normal distribution, without importing `statistics` (which costs a cold start 10 ms)."""

from __future__ import annotations

from functools import lru_cache
from math import erfc, exp, pi, sqrt

Z95 = 1.6448536269514722  # the 95th percentile of the standard normal


def normal_cdf(z: float) -> float:
    """P(Z <= z)."""
    return 0.5 * erfc(-z / sqrt(2))


@lru_cache(maxsize=256)
def normal_quantile(p: float) -> float:
    """The z with P(Z <= z) = p, 0 < p < 1, to about 1e-12 (Newton on the CDF from the median outward).

    In the upper half Newton from 0 approaches from below or lands right of the root once; the function is
    concave there, so it converges from anywhere on the near side.
    """
    if not 0 < p < 1:
        raise ValueError(f"a probability strictly between 0 and 1 is needed, not {p}")
    if p < 0.5:
        return -normal_quantile(1 - p)
    z = 0.0
    for _ in range(100):
        step = (0.5 * erfc(z / sqrt(2)) - (1 - p)) * sqrt(2 * pi) * exp(z * z / 2)
        z += step
        if abs(step) < 1e-12:
            break
    return z
