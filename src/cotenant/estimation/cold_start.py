"""From no process at all to a first answer, term by term: what a sleeping or swapped process has behind it.

Measured of vLLM with Llama-3.1-8B-Instruct on an L40S in a new pod (tensorfuse.io, "Reducing GPU Cold Start Time
when using vLLM", 2025-09-01), once with nothing kept and once with the files, the compiled graphs and the caches
of the pod before; the capture then of 8 batch sizes instead of all. Weights go by their bytes, at the rate of that
run; the pod's own image is not in these figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MEASURED_BYTES: Final = 2 * 8_030_261_248  # Llama-3.1-8B in 16 bits


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Seconds of one start: imports and the engine's own, weights from storage, `torch.compile`, CUDA graphs.

    `compile_s` is 0 where the engine does not compile (vLLM before its V1 engine, `--enforce-eager`).
    """

    engine_s: float
    weights_s: float
    compile_s: float
    capture_s: float

    @property
    def total_s(self) -> float:
        """All of it, one after another, as engines do."""
        return self.engine_s + self.weights_s + self.compile_s + self.capture_s


FIRST: Final = ColdStart(94.0, 33.0, 10.0 + 42.0, 54.0)
"""Nothing kept (the download of the weights, 61 s, is not in it)."""

KEPT: Final = ColdStart(34.0, 18.0, 10.0 + 13.0, 7.0)
"""Files and compiled graphs of the pod before at hand, 8 sizes captured."""


def cold_start(weights_bytes: int, *, kept: bool = False, compiles: bool = True) -> ColdStart:
    """A start of `weights_bytes` (of one rank; ranks load side by side), its weights at the rate measured."""
    measured = KEPT if kept else FIRST
    return ColdStart(
        measured.engine_s,
        measured.weights_s * weights_bytes / _MEASURED_BYTES,
        measured.compile_s if compiles else 0.0,
        measured.capture_s,
    )
