"""Formats that weights are stored in, which engine runs them fast, and what they cost in quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cotenant.domain.model import Role
from cotenant.domain.storage import Storage


@dataclass(frozen=True, slots=True)
class QuantizationFormat:
    """A named format: which storage each role's matrices get. Roles not named keep the model's dtype."""

    name: str
    title: str
    storage: Mapping[Role, Storage]
    activation: str  # precision that the matrices are multiplied in: "bf16", "fp8", "int8", "fp4"
    aliases: tuple[str, ...] = ()
    engine_flag: str = ""  # what the engine's --quantization says where it must be told
    notes: str = ""
    source: str = ""


class Speed(StrEnum):
    """How an engine runs a format on a card."""

    FAST = "fast"
    WORKS = "works"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class KernelSupport:
    """One engine's kernel for one format: where it runs and how fast."""

    engine: str
    format: str
    kernel: str
    speed: Speed
    min_compute_capability: tuple[int, int] | None
    max_compute_capability: tuple[int, int] | None
    gfx: tuple[str, ...]
    since_version: str = ""
    until_version: str = ""
    note: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class QualityFigure:
    """A published loss of one format on one model, task and metric. Never compared across metrics."""

    format: str
    model: str
    task: str
    metric: str
    loss_percent: float | None
    source: str
    baseline: float | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class SpeedFigure:
    """A published speed of one format with one kernel beside the same model in 16 bits."""

    format: str
    kernel: str
    engine: str
    model: str
    gpu: str
    metric: str
    value: float
    baseline: float | None
    ratio: float | None  # above 1: faster than 16 bits
    source: str
    note: str = ""


class Advice(StrEnum):
    """What the decision matrix says of one format."""

    USE = "use"
    POSSIBLE = "possible"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PrecisionChoice:
    """One row of the decision matrix, best first by `rank` (from 1).

    `quality` is the published figure that decided, or, where `quality_known` is false, one that is only shown:
    of another metric, or not enough to decide. `memory_only` formats save bytes, not arithmetic. `checkpoint` is
    "" where none is known; `online` formats can be made while loading instead.
    """

    format: str
    title: str
    advice: Advice
    rank: int
    kernel: KernelSupport | None
    quality: QualityFigure | None
    quality_known: bool
    memory_only: bool
    checkpoint: str
    online: bool
    reason: str
    warning: str = ""
