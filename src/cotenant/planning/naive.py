"""The usual sizing, to compare with: each model alone, FP16, its full context times 16 slots."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.model import ModelSpec
from cotenant.domain.plan import Naive
from cotenant.engines import find_engine
from cotenant.engines.rules import EngineRules
from cotenant.errors import UnsupportedError
from cotenant.estimation.inverse import pool_needs
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.memory_terms import replica_memory
from cotenant.units import format_bytes

SLOTS = 16
MOST_CARDS = 1024


@dataclass(frozen=True, slots=True)
class Taken:
    """What the usual sizing takes: weights and cache over all its cards, and everything on the fullest."""

    weights_bytes: int
    cache_bytes: int
    fullest_bytes: int
    capacity_bytes: int

    @property
    def fits(self) -> bool:
        """Whether the fullest card holds it."""
        return self.fullest_bytes <= self.capacity_bytes


def usual_sizing(fleet: Fleet, *, cards: int, cost_per_hour: float | None) -> Naive:
    """What the usual sizing takes, and how many times the plan's `cards` and cost that is.

    The cards are the fleet's largest type (capacity, then price); the number a model gets is the smallest power
    of two that fits. Tensor parallel stops at the model's key-value heads, since beyond them each rank would
    hold a copy of the cache; pipeline stages take over from there.
    """
    offer = fleet.gpus[largest_offer(fleet)]
    counts: dict[str, int] = {}
    lines: dict[str, str] = {}
    for request in fleet.models:
        number, taken = _smallest(request, offer)
        counts[request.name] = number * request.min_replicas
        lines[request.name] = _sentence(request, offer, number, taken)
    total = sum(counts.values())
    cost = total * offer.price_per_hour if offer.price_per_hour is not None else None
    return Naive(
        gpu=offer.gpu.name,
        cards=total,
        cost_per_hour=cost,
        cards_ratio=total / cards if cards else 0.0,
        cost_ratio=cost / cost_per_hour if cost and cost_per_hour else None,
        by_model=lines,
    )


def largest_offer(fleet: Fleet) -> int:
    """The number of the offer with the largest cards; of equals the cheapest."""
    return max(
        range(len(fleet.gpus)),
        key=lambda one: (fleet.gpus[one].gpu.cuda_bytes.value, -(fleet.gpus[one].price_per_hour or 0.0)),
    )


def usual_settings(request: ModelRequest, offer: GpuOffer) -> EngineSettings:
    """How the usual sizing would launch a model on that offer's cards."""
    number, _ = _smallest(request, offer)
    return _settings(request, offer, *_split(request, number))


def _split(request: ModelRequest, number: int) -> tuple[int, int]:
    """(tensor, pipeline) of `number` cards."""
    heads = max((group.kv_heads for group in request.model.layer_groups), default=1) or 1
    tensor = min(number, 1 << (heads.bit_length() - 1))
    return tensor, number // tensor


def _smallest(request: ModelRequest, offer: GpuOffer) -> tuple[int, Taken]:
    number, found = 1, _taken(request, offer, 1, 1)
    while number < MOST_CARDS and not found.fits:
        try:
            found = _taken(request, offer, *_split(request, 2 * number))
        except UnsupportedError:  # the engine splits it no further
            break
        number *= 2
    return number, found


def _taken(request: ModelRequest, offer: GpuOffer, tensor: int, pipeline: int) -> Taken:
    """16 bits, the model's whole context times 16 slots, on `tensor` x `pipeline` cards."""
    engine, version = find_engine(request.engine)
    model, settings = in_sixteen_bits(request.model), _settings(request, offer, tensor, pipeline)
    if engine.rules(version, offer.gpu).allocate is None:
        return _filled(model, offer, settings, engine, version)
    return _allocated(model, offer, settings, engine, version)


def _settings(request: ModelRequest, offer: GpuOffer, tensor: int, pipeline: int) -> EngineSettings:
    engine, version = find_engine(request.engine)
    model = in_sixteen_bits(request.model)
    settings = EngineSettings(
        tensor_parallel_size=tensor, pipeline_parallel_size=pipeline, max_model_len=model.max_model_len,
        max_num_seqs=SLOTS,
    )  # fmt: skip
    try:
        engine.resolve(model, offer.gpu, settings, version)
    except UnsupportedError:  # no pipeline stages there: all of the cards share each layer
        return replace(settings, tensor_parallel_size=tensor * pipeline, pipeline_parallel_size=1)
    return settings


def in_sixteen_bits(model: ModelSpec) -> ModelSpec:
    """The model as it was before anybody quantised it."""
    return replace(model, stored_bytes=None) if model.quantization else model


def _filled(
    model: ModelSpec, offer: GpuOffer, settings: EngineSettings, engine: EngineRules, version: Version
) -> Taken:
    """An engine whose pool is what a budget leaves: here as large as the slots ask, whatever its flags."""
    memory = replica_memory(
        model, offer.gpu, settings, engine=engine, version=version, format=find_format(sixteen_bits(model))
    )  # fmt: skip
    pools = pool_needs(memory, SLOTS * memory.minimum_bytes if memory.layout.groups else 0)
    ranks = memory.settings.tensor_parallel_size
    pairs = list(zip(memory.stages, pools, strict=True))
    return Taken(
        weights_bytes=ranks * sum(stage.weights.bytes.value for stage, _ in pairs),
        cache_bytes=ranks * sum(pools),
        fullest_bytes=max(
            stage.weights.bytes.value + stage.activations.bytes.value + stage.runtime.term.bytes.value + pool
            for stage, pool in pairs
        ),
        capacity_bytes=memory.capacity.value,
    )


def _allocated(
    model: ModelSpec, offer: GpuOffer, settings: EngineSettings, engine: EngineRules, version: Version
) -> Taken:
    """An engine that allocates what its slots ask for."""
    ranks = estimate_memory(
        model, offer.gpu, settings, engine=engine, version=version, format=find_format(sixteen_bits(model))
    ).per_gpu  # fmt: skip
    return Taken(
        weights_bytes=sum(rank.weights.bytes.value for rank in ranks),
        cache_bytes=sum(rank.kv_cache.bytes.value for rank in ranks),
        fullest_bytes=max(rank.footprint_bytes for rank in ranks),
        capacity_bytes=ranks[0].capacity.value,
    )


def sixteen_bits(model: ModelSpec) -> str:
    """The 16-bit format that it was published in."""
    return "fp16" if model.dtype in ("fp16", "float16") else "bf16"


def _sentence(request: ModelRequest, offer: GpuOffer, number: int, taken: Taken) -> str:
    return (
        f"{number} x {offer.gpu.name}: {format_bytes(taken.weights_bytes)} of FP16 weights, "
        f"{format_bytes(taken.cache_bytes)} of KV for {SLOTS} x {request.model.max_model_len:,} tokens"
    )
