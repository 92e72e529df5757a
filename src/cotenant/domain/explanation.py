"""A log explained: printed beside predicted, what is left, why it ran out, what would have worked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.domain.estimate import Estimate
from cotenant.domain.interval import Interval
from cotenant.domain.measurement import Measurement, Setting

TERMS = ("weights", "kv_cache", "activations", "runtime")


@dataclass(frozen=True, slots=True)
class TermPair:
    """One term of one device: bytes as printed (None: the log does not say), and as predicted."""

    printed_bytes: int | None
    predicted: Interval | None

    @property
    def best_bytes(self) -> int | None:
        """What was printed, else what was predicted."""
        if self.printed_bytes is not None:
            return self.printed_bytes
        return None if self.predicted is None else self.predicted.value


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """Where the bytes of one device went. `name` is the engine's own name of the device ("": the only one, or the
    one that binds). `left_bytes` is what nothing of this engine takes, after what others hold."""

    name: str
    capacity_bytes: int | None
    used_bytes: int | None
    budget_bytes: int | None
    terms: Mapping[str, TermPair]
    left_bytes: int | None

    @property
    def best_known(self) -> int:
        """What is known to be taken, printed or predicted: 0 for a log that says nothing in bytes."""
        return sum(pair.best_bytes or 0 for pair in self.terms.values())


@dataclass(frozen=True, slots=True)
class Change:
    """One flag set otherwise, with the estimate of the run that it gives.

    `argument` is the flag in the engine's own words, "checkpoint" where another checkpoint is to be loaded.

    `spare_bytes` is what is over then, and `max_concurrency` how many of the longest sequences fit at once, both
    reckoned from what the log printed and what the estimate changes by.
    """

    flag: str
    argument: str
    was: Setting | None
    becomes: Setting
    spare_bytes: int
    max_concurrency: float
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Explanation:
    """One run explained. `shortfall_bytes` is 0 where it fits and None where the log does not let one say.

    `others` are further runs that the log holds, `assumed` what the log left open and what was put there. `host`:
    bytes by term that llama.cpp or Ollama put into host memory.
    """

    measurement: Measurement
    predicted: Estimate | None
    shares: tuple[DeviceShare, ...]
    verdict: str
    cause: str
    advice: tuple[str, ...]
    shortfall_bytes: int | None
    changes: tuple[Change, ...]
    assumed: tuple[str, ...] = ()
    others: tuple[Measurement, ...] = ()
    input_hash: str = ""
    host: Mapping[str, int] = field(default_factory=dict)
