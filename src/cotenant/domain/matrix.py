"""The decision matrix of one model on one card: what `cotenant quantize` shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.domain.quantization import PrecisionChoice


@dataclass(frozen=True, slots=True)
class PrecisionMatrix:
    """Every format, best first, with the bytes of the weights in it. `engine_version` is "" where no rule of ours
    tells versions of that engine apart."""

    model: str
    gpu: str
    engine: str
    engine_version: str
    task: str
    max_loss_percent: float
    choices: tuple[PrecisionChoice, ...]
    bytes_by_format: Mapping[str, int]
