"""What was measured of one engine on one card, as factors on what would be estimated without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DECODE = "decode_step"
FIRST_TOKEN = "first_token"


@dataclass(frozen=True, slots=True)
class Factor:
    """measured / estimated of one term. The true value lies within [`low`, `high`] x the scaled estimate nine
    times in ten; `measurements` is how many there were.
    """

    value: float
    low: float
    high: float
    measurements: int = 1


@dataclass(frozen=True, slots=True)
class CalibrationProfile:
    """Measurements of an engine's version on a type of card with models of one family. `factors` by term
    (`DECODE`, `FIRST_TOKEN`, and whatever else is compared, as memory's); `provenance` says who measured what.
    """

    engine: str
    version: str
    gpu: str
    family: str
    factors: Mapping[str, Factor] = field(default_factory=dict)
    provenance: str = ""

    def matches(self, engine: str, version: str, gpu: str, family: str) -> bool:
        """Whether it speaks of this engine, version, card and family."""
        return (self.engine, self.version, self.gpu, self.family) == (engine, version, gpu, family)
