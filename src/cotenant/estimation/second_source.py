"""Step times of another source beside the roofline's, combined: who measured kernels where we know a data sheet.

Both err by a factor, so both are combined in the logarithm, each weighed by the inverse square of its published
error (`step_constants.OWN_ERROR`, as much wider as our interval is; `OtherTimes.error`). A median error of e is a
deviation of log(1 + e) / 0.6745.

    d     = median over loads of log(theirs / ours), of decode steps and of prefills
    vo    = ours^2,   vt = theirs^2 + max(0, d^2 - ours^2 - theirs^2)
    moved = d vo / (vo + vt)
    width = sqrt(vt / (vo + vt))    of our interval, in the logarithm

What the two differ by beyond what their errors explain counts as theirs: our rule is one for every card, a
database of kernels is as good as those that it holds, and where it is wrong (a kernel that no engine calls so) it
is wrong by a factor of two and more. Then it says nothing: it neither moves us nor narrows our interval, which
shrinks as that of a weighted mean does. Both kinds of step have one interval: that of the kind on which they agree
less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from math import exp, inf, log, sqrt
from statistics import median
from typing import Final

from cotenant.domain.step_time import OtherTimes, StepQuestion
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.step_constants import INTERVAL, OWN_ERROR

Asked = Callable[[StepQuestion], OtherTimes | None]
"""Who else times steps: None for what it does not know."""

_QUARTILE: Final = 0.6745  # of a normal distribution: the median of |x| in deviations
_ASKED: ContextVar[Asked | None] = ContextVar("second_source", default=None)


@contextmanager
def second_source(asked: Asked | None) -> Iterator[None]:
    """Rooflines made inside are combined with what `asked` says of the same steps; None: ours alone."""
    token = _ASKED.set(asked)
    try:
        yield
    finally:
        _ASKED.reset(token)


def second_source_in_force() -> Asked | None:
    """Whoever is asked now, the same object as long as it is in force."""
    return _ASKED.get()


def combined(exact: Roofline, other: OtherTimes, memory_bytes: float = inf) -> Roofline:
    """The roofline moved towards `other` by their weights; decode steps and prefills each by their own factor.

    Loads that a card of `memory_bytes` cannot hold were never run, so nothing is made of what is said of them.
    """
    held = [load for load in other.decode if exact.held_bytes(load[0], load[0] * load[1]) <= memory_bytes]
    if not held:
        return exact
    decoding = median(
        log(seconds / exact.decode_step_s(batch, batch * context)) for batch, context, seconds in held
    )
    reading = median(log(seconds / exact.prefill_s(tokens)) for tokens, seconds in other.prefill)
    wider = log(exact.high / exact.low) / log(INTERVAL[1] / INTERVAL[0])  # where less was measured of ours
    ours, theirs = wider * _deviation(OWN_ERROR), _deviation(other.error)
    width = max(_width(each, ours, theirs) for each in (decoding, reading))
    decode, prefill = (exp(_moved(each, ours, theirs)) for each in (decoding, reading))
    return replace(
        exact,
        decode_factor=exact.decode_factor * decode,
        prefill_factor=exact.prefill_factor * prefill,
        low=exact.low**width,
        high=exact.high**width,
        why=f"{exact.why}; with {other.source}: it says {_percent(decoding)} a decode step and "
        f"{_percent(reading)} a prefill, taken {_percent(log(decode))} and {_percent(log(prefill))}",
    )  # fmt: skip


def _deviation(error: float) -> float:
    return log(1 + error) / _QUARTILE


def _moved(difference: float, ours: float, theirs: float) -> float:
    return difference * ours**2 / (ours**2 + _charged(difference, ours, theirs))


def _width(difference: float, ours: float, theirs: float) -> float:
    """Of a weighted mean's deviation, as a share of ours."""
    other = _charged(difference, ours, theirs)
    return sqrt(other / (ours**2 + other))


def _charged(difference: float, ours: float, theirs: float) -> float:
    """Their variance, with all that both errors do not explain."""
    return theirs**2 + max(0.0, difference**2 - ours**2 - theirs**2)


def _percent(logarithm: float) -> str:
    return f"{exp(logarithm) - 1:+.0%}"
