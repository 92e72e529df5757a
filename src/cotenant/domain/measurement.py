"""What an engine printed about its own memory: figures as printed, the settings that it named, how it ended.

Names of figures are those of the published records: ``weights_gib``, ``available_kv_gib``, ``kv_cache_tokens``,
``model_buffer_mib``... The name ends in the unit in which `value` stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.units import GIB, MIB

Setting = str | int | float | bool

GIB_FIGURES = (
    "weights_gib", "activation_peak_gib", "non_torch_gib", "cudagraph_gib", "cudagraph_estimated_gib",
    "available_kv_gib", "needed_kv_gib", "sglang_k_gib", "sglang_v_gib", "consumed_weights_plus_nontorch_gib",
)  # fmt: skip
COUNT_FIGURES = (
    "kv_cache_tokens", "gpu_blocks", "max_concurrency", "max_concurrency_len", "needed_kv_seq_len",
    "estimated_max_len",
)  # fmt: skip


class Outcome(StrEnum):
    """How the run ended, as far as the log says."""

    FITS = "fits"
    OOM = "oom"


@dataclass(frozen=True, slots=True)
class Figure:
    """One printed figure. `value` is in the unit that `name` ends in, `text` has the digits as printed.

    `rank` is the process that printed it ("" where the log does not say), `device` the engine's name of the
    device ("CUDA0"), `section` the cache or model it belongs to ("full", "swa", "draft", "mmproj").
    """

    name: str
    value: float
    text: str
    rank: str = ""
    device: str = ""
    section: str = ""
    line: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """`value` in bytes. Raises ValueError for a figure that is no size."""
        for suffix, factor in (("_gib", GIB), ("_mib", MIB), ("_bytes", 1)):
            if self.name.endswith(suffix):
                return round(self.value * factor)
        raise ValueError(f"{self.name} is no size")


@dataclass(frozen=True, slots=True)
class Failure:
    """One line that says what went wrong. `kind` is a word of `engines.logs`; `figures` what stood in the line."""

    kind: str
    text: str
    line: int
    rank: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one engine, read from its log.

    `settings` use our words (`EngineSettings`, or llama.cpp's own); `version_assumed` is a release that prints
    such lines, where the log names none. `source` is the container or unit that the lines came from.
    """

    engine: str
    engine_version: str | None
    model: str | None
    gpu: str | None
    settings: Mapping[str, Setting]
    figures: tuple[Figure, ...]
    failures: tuple[Failure, ...] = ()
    ready: bool = False
    source: str = ""
    ranks: tuple[str, ...] = ()
    version_assumed: str | None = None
    first_line: int = 0
    notes: tuple[str, ...] = ()

    def every(self, name: str, section: str | None = "") -> Iterator[Figure]:
        """The figures of that name in the order of the log; `section` None: whatever they belong to."""
        return (
            figure for figure in self.figures
            if figure.name == name and (section is None or figure.section == section)
        )  # fmt: skip

    def first(self, name: str) -> Figure | None:
        """The first figure of that name: the first rank's, the model's own before a draft's."""
        return next(self.every(name), None)

    def smallest(self, name: str) -> Figure | None:
        """The smallest of the first figure of each rank: the rank that binds."""
        firsts: dict[str, Figure] = {}
        for figure in self.every(name):
            firsts.setdefault(figure.rank, figure)
        return min(firsts.values(), key=lambda figure: figure.value, default=None)

    def value(self, name: str) -> float | None:
        """The first figure's value, or None."""
        found = self.first(name)
        return None if found is None else found.value

    def size_bytes(self, name: str) -> int | None:
        """The first figure in bytes, or None."""
        found = self.first(name)
        return None if found is None else found.bytes

    @property
    def outcome(self) -> Outcome | None:
        """`oom` where a line says so, `fits` where the engine got past its memory, None where it ends before."""
        if self.failures:
            return Outcome.OOM
        passed = self.ready or any(
            self.first(name) for name in ("kv_cache_tokens", "max_concurrency", "cudagraph_gib")
        )
        return Outcome.FITS if passed else None
