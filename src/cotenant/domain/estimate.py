"""An estimate: four terms a GPU, each with an interval and a sentence on where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec


class Verdict(StrEnum):
    """Whether it fits; `uncertain` when the 90 % interval straddles the limit (then `fits` is false)."""

    FITS = "fits"
    DOES_NOT_FIT = "does not fit"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Term:
    """Bytes with their interval and why."""

    bytes: Interval
    why: str


@dataclass(frozen=True, slots=True)
class HostMemory:
    """What a replica holds in the host's memory: never part of a GPU's capacity. `weights` may be mapped from
    the file, shared and evictable. `runtime` is what the process holds beside these buffers and `computed` the
    interval of `compute`, where they are known."""

    weights: int
    kv_cache: int
    compute: int
    runtime: Interval | None = None
    computed: Interval | None = None

    @property
    def bytes(self) -> int:
        """All of its buffers."""
        return self.weights + self.kv_cache + self.compute


@dataclass(frozen=True, slots=True)
class RankEstimate:
    """One GPU's share of a replica. `budget` is what the engine allows itself; `headroom` = capacity - used
    by others - max(budget, footprint), negative when it overflows. An engine that leaves alone what it does not
    need (`fills` false) claims its footprint only, whatever its budget."""

    rank: int
    capacity: Interval
    used_bytes: int
    budget: Interval
    weights: Term
    kv_cache: Term
    activations: Term
    runtime: Term
    load_peak: Interval
    headroom: Interval
    fills: bool = True

    @property
    def terms(self) -> Mapping[str, Term]:
        """The four terms by name, in the order in which they are drawn."""
        return {
            "weights": self.weights,
            "kv_cache": self.kv_cache,
            "activations": self.activations,
            "runtime": self.runtime,
        }

    @property
    def footprint_bytes(self) -> int:
        """What the replica really takes of this GPU at peak."""
        return sum(term.bytes.value for term in self.terms.values())

    @property
    def claimed_bytes(self) -> int:
        """What no other replica may count on."""
        return max(self.budget.value, self.footprint_bytes) if self.fills else self.footprint_bytes


@dataclass(frozen=True, slots=True)
class KvCacheEstimate:
    """The cache of one replica. Per-token and per-sequence bytes are of the whole replica's rank 0.

    `reserved_bytes` is what the engine will reserve (a rank), `needed_bytes` what the traffic needs at the
    overflow probability, `worst_case_bytes` max_model_len x max_num_seqs; None without traffic.
    """

    bytes_per_token: int
    bytes_per_sequence: int
    tokens: int
    tokens_as_printed: int
    max_concurrency: float
    reserved_bytes: int
    needed_bytes: int | None
    worst_case_bytes: int
    minimum_bytes: int  # one sequence of max_model_len: below this the engine refuses to start
    sequence_bytes: int | None = None  # what it takes of rank 0, where the engine asks for more at start


@dataclass(frozen=True, slots=True)
class Estimate:
    """One replica of one model on one type of card. `demand` is what the traffic asks, where it was given."""

    model: ModelSpec
    gpu: GpuSpec
    engine: str
    engine_version: str
    quantization: str
    settings: EngineSettings  # resolved: every default filled in
    verdict: Verdict
    per_gpu: tuple[RankEstimate, ...]
    kv_cache: KvCacheEstimate
    arguments: tuple[str, ...]
    reason: str  # why it does not fit, or by how much it does
    warnings: tuple[str, ...] = ()
    demand: Demand | None = None
    host: HostMemory | None = None  # where the engine keeps part of the model in host memory
    calibration: str | None = None  # names the measurements that it follows

    @property
    def fits(self) -> bool:
        """True only when even the 90 % interval fits."""
        return self.verdict is Verdict.FITS

    def holds(self, needed_bytes: int) -> bool:
        """Whether the cache holds so many bytes of rank 0. All ranks have as many blocks, but those of a stage of
        fewer layers are smaller: 80 layers in three stages are 27, 27 and 26."""
        return self.kv_cache.reserved_bytes >= needed_bytes
