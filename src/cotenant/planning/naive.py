"""The usual sizing, to compare with: each model alone, FP16, its full context times 16 slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cotenant.catalogue.quantization import find_format
from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.plan import Naive
from cotenant.engines import find_engine
from cotenant.errors import UnsupportedError
from cotenant.estimation.kv_cache import cache_layout
from cotenant.estimation.memory import estimate_memory
from cotenant.units import format_bytes

SLOTS = 16
MOST_CARDS = 1024

Usual = Callable[[ModelRequest, GpuOffer, int, int], Estimate]
"""(request, offer, tensor parallel, pipeline parallel) -> the estimate at FP16, full context, 16 slots."""


def usual_sizing(fleet: Fleet, usual: Usual, *, cards: int, cost_per_hour: float | None) -> Naive:
    """What the usual sizing takes, and how many times the plan's `cards` and cost that is.

    The cards are the fleet's largest type (capacity, then price); the number a model gets is the smallest power
    of two that fits. Tensor parallel stops at the model's key-value heads, since beyond them each rank would
    hold a copy of the cache; pipeline stages take over from there.
    """
    offer = max(fleet.gpus, key=lambda one: (one.gpu.cuda_bytes.value, -(one.price_per_hour or 0.0)))
    counts: dict[str, int] = {}
    lines: dict[str, str] = {}
    for request in fleet.models:
        number, estimate = _smallest(request, offer, usual)
        counts[request.name] = number * request.min_replicas
        lines[request.name] = _sentence(request, offer, number, estimate)
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


def _smallest(request: ModelRequest, offer: GpuOffer, usual: Usual) -> tuple[int, Estimate]:
    heads = max((group.kv_heads for group in request.model.layer_groups), default=1) or 1
    number, found = 1, usual(request, offer, 1, 1)
    while number < MOST_CARDS and not _fits(found):
        tensor = min(2 * number, _largest_power_of_two(heads))
        try:
            found = usual(request, offer, tensor, 2 * number // tensor)
        except UnsupportedError:  # the engine splits it no further
            break
        number *= 2
    return number, found


def _fits(estimate: Estimate) -> bool:
    return all(rank.footprint_bytes <= rank.capacity.value for rank in estimate.per_gpu)


def _largest_power_of_two(limit: int) -> int:
    return 1 << (limit.bit_length() - 1)


def _sentence(request: ModelRequest, offer: GpuOffer, number: int, estimate: Estimate) -> str:
    weights = sum(rank.weights.bytes.value for rank in estimate.per_gpu)
    cache = sum(rank.kv_cache.bytes.value for rank in estimate.per_gpu)
    context = request.model.max_model_len
    return (
        f"{number} x {offer.gpu.name}: {format_bytes(weights)} of FP16 weights, {format_bytes(cache)} of KV for "
        f"{SLOTS} x {context:,} tokens"
    )


def usual_of(fleet: Fleet) -> Usual:
    """The estimate of the usual sizing: 16 bits, the model's whole context times 16 slots."""

    def usual(request: ModelRequest, offer: GpuOffer, tensor: int, pipeline: int) -> Estimate:
        engine, version = find_engine(request.engine)
        model = request.model if not request.model.quantization else replace(request.model, stored_bytes=None)
        length = request.model.max_model_len
        slots = Demand(
            max_model_len=length, max_model_len_is_minimum=False, refused_share=0.0, max_num_seqs=SLOTS,
            mean_in_service=SLOTS, in_service_p999=SLOTS, kv_needed_tokens=length * SLOTS, kv_needed_bytes=0,
            kv_minimum_bytes=0, kv_worst_case_bytes=0, overflow=fleet.kv_overflow, busy=1.0,
        )  # fmt: skip
        settings = EngineSettings(
            tensor_parallel_size=tensor, pipeline_parallel_size=pipeline, max_model_len=length, max_num_seqs=SLOTS
        )  # fmt: skip
        try:
            resolved = engine.resolve(model, offer.gpu, settings, version)
        except UnsupportedError:  # no pipeline stages there: all of the cards share each layer
            settings = replace(settings, tensor_parallel_size=tensor * pipeline, pipeline_parallel_size=1)
            resolved = engine.resolve(model, offer.gpu, settings, version)
        layout = cache_layout(model, resolved, engine.rules(version).cache)
        sized = layout.groups and engine.rules(version).allocate is None  # else its slots are its pool
        pool = SLOTS * layout.sequence_bytes(length, resolved.max_num_batched_tokens or 1) if sized else None
        return estimate_memory(
            model, offer.gpu, replace(settings, kv_cache_memory_bytes=pool), engine=engine, version=version,
            format=find_format("fp16" if model.dtype in ("fp16", "float16") else "bf16"), demand=slots,
        )  # fmt: skip

    return usual
