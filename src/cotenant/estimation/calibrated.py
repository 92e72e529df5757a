"""What was measured, in force for the estimates made meanwhile: terms scaled, their intervals narrowed.

Activations, runtime and step times follow measurements of the same engine, version, card and model family; weights
and KV cache follow from the engine's rules, which no measurement of another model changes. What the user says on
the command line or in the fleet stands before either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from cotenant.domain.calibration import CalibrationProfile, Factor
from cotenant.domain.estimate import Term
from cotenant.domain.interval import Interval

HOST = "CPU"
"""What a calibration calls the card of an engine that works from host memory."""


@dataclass(slots=True)
class InForce:
    """Profiles, and which of them an estimate made use of."""

    profiles: tuple[CalibrationProfile, ...] = ()
    used: dict[str, CalibrationProfile] = field(default_factory=dict)


_NONE = InForce()
_IN_FORCE: ContextVar[InForce] = ContextVar("calibrations", default=_NONE)


@contextmanager
def calibrations(profiles: Sequence[CalibrationProfile]) -> Iterator[InForce]:
    """Estimates made inside use these profiles; the value says afterwards which they did."""
    found = InForce(tuple(profiles))
    token = _IN_FORCE.set(found)
    try:
        yield found
    finally:
        _IN_FORCE.reset(token)


def profiles_in_force() -> tuple[CalibrationProfile, ...]:
    """All of them, the same object as long as the same are in force."""
    return _IN_FORCE.get().profiles


def profile_for(engine: str, version: str, gpu: str, family: str) -> CalibrationProfile | None:
    """The profile in force for these; None where nothing was measured."""
    held = _IN_FORCE.get()
    for profile in held.profiles:
        if profile.matches(engine, version, gpu, family):
            held.used[profile.provenance] = profile
            return profile
    return None


def scaled(expected: Interval, found: Factor | None) -> Interval:
    """An estimated term as it was measured to be. Its interval never grows."""
    if found is None:
        return expected
    value = round(expected.value * found.value)
    low = max(round(value * found.low), value - (expected.value - expected.low))
    high = min(round(value * found.high), value + (expected.high - expected.value))
    return Interval(max(0, min(low, value)), value, max(high, value))


def scaled_term(term: Term, name: str, profile: CalibrationProfile | None) -> Term:
    """The term by its name, with a word on who measured it."""
    found = None if profile is None else profile.factors.get(name)
    if profile is None or found is None:
        return term
    return Term(scaled(term.bytes, found), f"{term.why}; x {found.value:.3g} as measured ({profile.provenance})")


def factors(profile: CalibrationProfile | None) -> Mapping[str, Factor]:
    """By term; empty without a profile."""
    return {} if profile is None else profile.factors
