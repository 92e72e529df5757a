"""What the user has, may buy, and wants to run: the question that a plan answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant.domain.engine import Speculation
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import ModelSpec
from cotenant.domain.workload import Adapter, Slo, Traffic


@dataclass(frozen=True, slots=True)
class GpuOffer:
    """Cards of one type: `count` owned, or bought at `price_per_hour` up to `maximum` (None: any number).

    MIG slices count as cards of their own, without links. `used_bytes` is held on each card by others.
    A tensor-parallel group stays inside one node of
    `node_size` cards.
    """

    gpu: GpuSpec
    count: int | None = None
    maximum: int | None = None
    price_per_hour: float | None = None
    node_size: int = 8
    host_memory_bytes: int | None = None
    used_bytes: int = 0
    slice_of: GpuSpec | None = None  # where `gpu` is a MIG slice: the card that it is cut from
    time_slices: int | None = None  # places for processes on each card, which nothing but time keeps apart

    @property
    def is_cut(self) -> bool:
        """Whether a process gets a part of a card only, and never several of them."""
        return self.slice_of is not None or self.time_slices is not None

    @property
    def is_shop(self) -> bool:
        """Whether these cards are bought rather than owned."""
        return self.count is None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model that must be served, with its traffic, targets and wishes."""

    name: str
    model: ModelSpec
    model_id: str  # what an engine is given to load: a hub id or a path
    checkpoints: Mapping[str, str]  # format name -> hub id that is known to hold it
    engine: str
    task: str
    traffic: Traffic
    slo: Slo | None = None
    formats: tuple[str, ...] = ()  # explicit wish, in order; () = all that pass the rules
    max_loss_percent: float = 1.0
    kv_cache_dtypes: tuple[str, ...] = ("auto",)
    adapters: tuple[Adapter, ...] = ()
    speculation: Speculation | None = None
    max_num_batched_tokens: int | None = None  # what a step may read, where the user says it
    priority: int = 0
    min_replicas: int = 1
    max_replicas: int | None = None
    sharing: tuple[str, ...] = ("co-resident", "alone")
    pin_gpus: tuple[int, ...] = ()
    apart_from: tuple[str, ...] = ()
    spread: bool = False  # its replicas stand on different nodes
    also_serves: tuple[str, ...] = ()  # names of models that were folded into it (`planning.folding`)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The whole question. `headroom` is a fraction 0..1 of every card, `kv_overflow` a probability; `source` the
    file itself as plain values, where it came from one."""

    gpus: tuple[GpuOffer, ...]
    models: tuple[ModelRequest, ...]
    headroom: float
    kv_overflow: float
    objective: tuple[str, ...]
    input_hash: str = ""
    spare: str = "none"  # "gpu", "node": what may fail without a model going without
    source: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
