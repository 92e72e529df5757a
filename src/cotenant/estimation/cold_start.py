"""From no process at all to a first answer, term by term: what a restart, a migration and a gateway's start take.

    start = engine + weights / min(storage, link) + compile + capture

`engines.starting` says which terms an engine has. Their seconds were measured of vLLM with Llama-3.1-8B-Instruct
on an L40S in a new pod (tensorfuse.io, "Reducing GPU Cold Start Time when using vLLM", 2025-09-01), once with
nothing kept (`FIRST`; the pod's own image and the download, 61 s, are not in it) and once with the files, the
compiled graphs and the caches of the pod before (`KEPT`, 8 batch sizes captured).

Others say of kept starts, weights of a few GB included: 48 s (vLLM's blog on sleep mode, A100, 2025-10-26), 59 s
(vLLM's issue 20264). Captures in 28 public logs of vLLM take 8 s in the median, half of them 4.5 to 18, so KEPT's
7 is the usual one; FIRST's 54 are all sizes, on a slow host whose kernels were compiled meanwhile. With nothing
kept Run:ai had 140 to 208 s (2024-12-09). The interval is that spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from cotenant.domain.gpu import GpuSpec
from cotenant.engines.starting import Starting
from cotenant.estimation.paths import CACHED_READ_BANDWIDTH, STORAGE_BANDWIDTH, link_rate


class Kept(Enum):
    """What earlier starts have left: nothing (a new machine), the engine's own files in the host's memory (another
    launch of it), or these, the weights' files and the compiled graphs (the same launch once more)."""

    NOTHING = auto()
    ENGINE = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Seconds of one start: imports and the engine's own, weights from storage, `torch.compile`, CUDA graphs."""

    engine_s: float
    weights_s: float
    compile_s: float
    capture_s: float

    @property
    def total_s(self) -> float:
        """All of it, one after another, as engines do."""
        return self.engine_s + self.weights_s + self.compile_s + self.capture_s

    @property
    def interval_s(self) -> tuple[float, float, float]:
        """(low, value, high): weights may come twice as fast or four times as slowly (a network's disk)."""
        rest = self.total_s - self.weights_s
        low, high = _SPREAD
        return low * rest + self.weights_s / 2, self.total_s, high * rest + 4 * self.weights_s


FIRST: Final = ColdStart(94.0, 33.0, 10.0 + 42.0, 54.0)
"""Nothing kept, as measured."""

KEPT: Final = ColdStart(34.0, 18.0, 10.0 + 13.0, 7.0)
"""Files and compiled graphs of the pod before at hand, as measured."""

MEASURED_BYTES: Final = 2 * 8_030_261_248
"""Llama-3.1-8B in 16 bits: the weights of both."""

_TERMS: Final = {
    Kept.NOTHING: FIRST,
    Kept.ENGINE: ColdStart(KEPT.engine_s, FIRST.weights_s, FIRST.compile_s, KEPT.capture_s),
    Kept.ALL: KEPT,
}
_NATIVE_S: Final = 1.0  # a program without Python: its own libraries and a context on its card
_SPREAD: Final = (
    0.3,
    2.0,
)  # 60 s of a kept start of 200 on a developer's H100 (vLLM's pull request 11005); 122 of 64


def cold_start(
    weights_bytes: int, starting: Starting, *, kept: Kept, gpu: GpuSpec | None = None,
    storage_bandwidth: float | None = None,
) -> ColdStart:  # fmt: skip
    """A start of `weights_bytes` (of one rank; ranks load side by side) onto a card (None: nobody knows its link).

    `storage_bandwidth` in bytes/s; None: local NVMe, or the host's memory where the files were read before.
    """
    storage = storage_bandwidth or (CACHED_READ_BANDWIDTH if kept is Kept.ALL else STORAGE_BANDWIDTH)
    terms = _TERMS[kept]
    return ColdStart(
        engine_s=terms.engine_s if starting.imports else _NATIVE_S,
        weights_s=weights_bytes / min(storage, link_rate(gpu)),
        compile_s=terms.compile_s if starting.compiles else 0.0,
        capture_s=terms.capture_s if starting.captures else 0.0,
    )
