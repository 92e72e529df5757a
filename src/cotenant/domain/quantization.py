"""Formats that weights are stored in, which engine runs them fast, and what they cost in quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cotenant.domain.model import Role


@dataclass(frozen=True, slots=True)
class Storage:
    """How one tensor is stored: bits an element, and what each group of elements adds.

    A group is `group_size` consecutive inputs of one output (0: the whole row = per channel; -1: the whole
    tensor), or a `block` of rows x columns. `input_bits` are stored once per input column (GPTQ's g_idx).
    """

    bits: float
    group_size: int = -1
    scale_bits: int = 0
    zero_bits: int = 0
    input_bits: int = 0
    block: tuple[int, int] | None = None


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
