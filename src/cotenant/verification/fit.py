"""A calibration from measurements: the median factor of each term, and what single ones leave open.

Pairs are (measured, predicted). A factor's interval is the spread of single measurements about it: 1.645 times
their standard deviation, from the median absolute deviation (1.4826 x MAD), which one outlier does not move; from
few of them it is wider, and never below what a repetition is off by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log, sqrt

from cotenant.domain.calibration import DECODE, FIRST_TOKEN, CalibrationProfile, Factor
from cotenant.errors import InputError
from cotenant.estimation.step_constants import ANCHORED, ANCHORED_FIRST_TOKEN

Pair = tuple[float, float]
# What the same launch has been seen to differ by from one start to the next (pages, arenas, clocks).
_LEAST = {"weights": 0.005, "kv_cache": 0.002, "activations": 0.01, "runtime": 0.06, "total": 0.02}
_LEAST_TIME = 0.1
# How far other loads lie from one that was measured (estimation/step_constants.py).
_LOADS = {DECODE: ANCHORED, FIRST_TOKEN: ANCHORED_FIRST_TOKEN}
_ALONE = 2.0  # a single measurement leaves that many times the least open
_FARTHEST = 20.0


def factor(term: str, pairs: Sequence[Pair]) -> Factor:
    """The factor of one term. Raises InputError where a pair is no measurement of it."""
    if not pairs or not all(one > 0 and other > 0 for one, other in pairs):
        raise InputError(f"{term}: a calibration needs measurements and predictions above zero")
    logs = sorted(log(one / other) for one, other in pairs)
    middle = _median(logs)
    if abs(middle) > log(_FARTHEST):
        raise InputError(
            f"{term}: measured is {exp(middle):.3g} times what is predicted",
            hint="check the engine, its version, the card and the model",
        )
    spread = 1.4826 * _median(sorted(abs(one - middle) for one in logs)) * 1.645
    least = _LEAST.get(term, _LEAST_TIME)
    open_ = max(spread * sqrt(1 + 1 / len(logs)), least * (1 + (_ALONE - 1) / len(logs)))
    low, high = _LOADS.get(term, (1.0, 1.0))
    return Factor(exp(middle), min(low, exp(-open_)), max(high, exp(open_)), len(logs))


def profile(
    pairs: Mapping[str, Sequence[Pair]], *, engine: str, version: str, gpu: str, family: str, provenance: str
) -> CalibrationProfile:
    """From pairs by term. Raises InputError where there are none."""
    factors = {term: factor(term, each) for term, each in sorted(pairs.items()) if each}
    if not factors:
        raise InputError("a calibration needs at least one measurement")
    return CalibrationProfile(engine, version, gpu, family, factors, provenance)


def residuals(pairs: Sequence[Pair], fitted: Factor) -> tuple[float, ...]:
    """What each measurement is off by, in shares, once scaled."""
    return tuple(one / (fitted.value * other) - 1 for one, other in pairs)


def _median(ordered: Sequence[float]) -> float:
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
