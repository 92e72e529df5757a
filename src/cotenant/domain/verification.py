"""What a plan's engines were measured to do: readings, load points, and a verdict a line beside the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.domain.calibration import CalibrationProfile
from cotenant.domain.interval import Interval


class Held(StrEnum):
    """How a measurement stands to what was predicted."""

    YES = "holds"
    NO = "off"
    UNKNOWN = "unknown"  # not measured here, with the reason


@dataclass(frozen=True, slots=True)
class Reading:
    """What one replica holds at a moment: its process and its cards.

    `anonymous_bytes` and `file_bytes` are resident in host memory, `model_file_bytes` those of the second that
    belong to the checkpoint's own file, `model_shared_bytes` those of them that other processes map too.
    `device_bytes` is what its processes hold on the fullest of their cards (None: it uses none, or nothing tells).
    """

    at_s: float
    anonymous_bytes: int = 0
    file_bytes: int = 0
    model_file_bytes: int = 0
    model_shared_bytes: int = 0
    device_bytes: int | None = None
    kv_used: float | None = None
    running: int | None = None
    waiting: int | None = None
    preemptions: int | None = None

    @property
    def total_bytes(self) -> int:
        """On its cards where it uses some, else resident in host memory."""
        return self.device_bytes if self.device_bytes is not None else self.anonymous_bytes + self.file_bytes


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: so many tokens in, so many out, sent `at_s` seconds after its step begins."""

    replica: str
    input_tokens: int
    output_tokens: int
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of it. `error` is "" where it was answered; times are seconds from sending."""

    ask: Ask
    error: str = ""
    ttft_s: float = 0.0
    e2e_s: float = 0.0
    prompt_tokens: int = 0
    generated_tokens: int = 0

    @property
    def tpot_s(self) -> float | None:
        """Seconds a token after the first; None where there was none."""
        return (self.e2e_s - self.ttft_s) / (self.generated_tokens - 1) if self.generated_tokens > 1 else None


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a load on one replica. Times are medians and 95th percentiles, in seconds; None without answers.

    `peak` is the reading at which it held most; `kv_used` the largest share 0..1 of its pool that was seen.
    """

    replica: str
    concurrency: int
    input_tokens: int
    output_tokens: int
    answered: int
    errors: int
    ttft_s: tuple[float, float] | None
    tpot_s: tuple[float, float] | None
    peak: Reading | None
    kv_used: float | None
    preemptions: int | None
    first_error: str = ""
    stopped: str = ""  # why no more was asked of it


@dataclass(frozen=True, slots=True)
class Term:
    """One figure predicted beside measured. `source` says who measured it."""

    name: str
    predicted: Interval | None
    measured: int | None
    held: Held
    source: str = ""

    @property
    def ratio(self) -> float | None:
        """measured / predicted; None where either is missing or nothing."""
        if self.measured is None or self.predicted is None or not self.predicted.value:
            return None
        return self.measured / self.predicted.value


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the checklist. `replica` is "" for what concerns all of them."""

    check: str
    replica: str
    held: Held
    text: str


@dataclass(frozen=True, slots=True)
class ReplicaVerified:
    """One replica: its terms in bytes, its load points, step times predicted (low, value, high) and measured."""

    id: str
    model: str
    engine: str
    version: str
    gpu: str
    family: str
    terms: tuple[Term, ...]
    points: tuple[Point, ...]
    readings: Mapping[str, Reading] = field(default_factory=dict)  # before, loaded, warm, peak
    ttft_s: tuple[float, float, float] | None = None
    tpot_s: tuple[float, float, float] | None = None
    limit_concurrency: int = 1
    limit_tokens: int = 1


@dataclass(frozen=True, slots=True)
class Verification:
    """A plan beside its live engines. `series` are readings over time by replica; `tides` are those of a watch:
    (least, most) bytes and when, in seconds from its begin."""

    replicas: tuple[ReplicaVerified, ...]
    findings: tuple[Finding, ...]
    series: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)
    tides: Mapping[str, tuple[tuple[float, int], tuple[float, int]]] = field(default_factory=dict)
    profiles: tuple[CalibrationProfile, ...] = ()
    capacities: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    stopped: str = ""
    input_hash: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nothing that was measured contradicts the plan, and something was."""
        told = [finding.held for finding in self.findings]
        return Held.NO not in told and Held.YES in told and not self.stopped
