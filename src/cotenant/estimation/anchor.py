"""One measured configuration anchors all others of the same engine, card and model family.

Where steps took 20 % longer than a roofline says, they will with other batches and contexts: what it errs comes
mostly from a kernel or a version, not from the load. So a measurement scales the estimate, and the interval is
what remains: how far other loads of a configuration lie from one of them, scaled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log

from cotenant.domain.calibration import DECODE, FIRST_TOKEN, CalibrationProfile, Factor
from cotenant.errors import InputError
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.step_constants import ANCHORED, ANCHORED_FIRST_TOKEN

_SPREAD = {DECODE: ANCHORED, FIRST_TOKEN: ANCHORED_FIRST_TOKEN}
_FARTHEST = 20.0  # measured / estimated beyond which something else was measured


def profile_of(
    pairs: Mapping[str, Sequence[tuple[float, float]]],
    *,
    engine: str,
    version: str,
    gpu: str,
    family: str,
    provenance: str,
) -> CalibrationProfile:
    """From (measured, estimated) seconds by term: the median factor of each, with what it leaves open.

    Raises InputError where nothing was measured, or what cannot be a measurement of this.
    """
    factors = {term: _factor(term, each) for term, each in pairs.items() if each}
    if not factors:
        raise InputError("a calibration needs at least one measurement")
    return CalibrationProfile(engine, version, gpu, family, factors, provenance)


def anchored(exact: Roofline, profile: CalibrationProfile) -> Roofline:
    """The roofline scaled to what was measured; a term without a measurement follows the decode step's."""
    decode = profile.factors.get(DECODE)
    first = profile.factors.get(FIRST_TOKEN)
    if decode is None and first is None:
        return exact
    low, high = (exact.low, exact.high) if decode is None else (decode.low, decode.high)
    reading = first or decode
    return replace(
        exact,
        decode_factor=exact.decode_factor * (decode.value if decode is not None else 1.0),
        prefill_factor=exact.prefill_factor * (reading.value if reading is not None else 1.0),
        first_token_s=exact.first_token_s * (first.value if first is not None else 1.0),
        low=low,
        high=high,
        why=f"{exact.why}; anchored by {profile.provenance or 'a measurement'}",
    )


def _factor(term: str, pairs: Sequence[tuple[float, float]]) -> Factor:
    if not all(measured > 0 and estimated > 0 for measured, estimated in pairs):
        raise InputError(f"{term}: a measured and an estimated time above zero are needed")
    logs = sorted(log(measured / estimated) for measured, estimated in pairs)
    middle = (logs[(len(logs) - 1) // 2] + logs[len(logs) // 2]) / 2
    if abs(middle) > log(_FARTHEST):
        raise InputError(
            f"{term}: measured is {exp(middle):.3g} times what is estimated",
            hint="check the engine, the card, the model and the unit",
        )
    low, high = _SPREAD[term]
    # Measurements that disagree by more than loads usually do leave more open.
    return Factor(exp(middle), min(low, exp(logs[0] - middle)), max(high, exp(logs[-1] - middle)), len(logs))
