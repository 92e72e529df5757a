"""Backwards: the smallest settings whose pool holds a given KV need, and what the replica then claims.

utilization = (weights + activations + runtime inside + pool) / capacity, rounded up
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, inf

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines.rules import Base, EngineRules
from cotenant.errors import UnsupportedError
from cotenant.estimation.allocated import allocated_estimate
from cotenant.estimation.kv_cache import CacheLayout
from cotenant.estimation.memory_terms import ReplicaMemory, replica_memory
from cotenant.estimation.pool import share_for
from cotenant.units import format_gib

STEPS = 1000
"""Utilisations are rounded up to a thousandth: what people write, and what every version reads."""

CAPPED_SHARE = 0.98
"""The fraction beside a pool given in tokens: room for it whoever came before, but not the last bytes."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """Settings that hold a need. `pool_bytes`, `claimed_bytes` (budget or footprint, whichever is more) are of
    the rank that binds; `confident_bytes` is the claim at the upper end of its 90 % interval."""

    settings: EngineSettings
    pool_bytes: int
    claimed_bytes: int
    confident_bytes: int
    note: str


def settings_for_pool(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    *,
    engine: EngineRules,
    version: Version,
    format: QuantizationFormat,  # noqa: A002 - the field's own word
    kv_bytes: int,
    used_bytes: int = 0,
    in_bytes: bool = True,
) -> Sizing:
    """The settings, with max_model_len and the batch limits filled in, whose pool holds `kv_bytes` (of rank 0) and
    one sequence of max_model_len.

    Where the version knows kv_cache_memory_bytes (and `in_bytes`), the pool is asked for in bytes: exact, and
    untouched by what neighbours do meanwhile. gpu_memory_utilization is set beside it, because vLLM still refuses
    to start unless that share is free, though it no longer sizes the pool. Else the utilisation alone is set so
    that the pool holds the need at the upper end of the 90 % interval of all else. Raises UnsupportedError when no
    utilisation up to 1 does.
    """
    open_settings = replace(settings, kv_cache_memory_bytes=None)
    if engine.rules(version, gpu).allocate is not None:  # its settings are its pool
        return allocated_sizing(model, gpu, open_settings, engine=engine, version=version, format=format)
    memory = replica_memory(
        model, gpu, open_settings, engine=engine, version=version, format=format, used_bytes=used_bytes
    )
    return size_pool(memory, kv_bytes, in_bytes=in_bytes and memory.rules.has_cache_bytes)


def allocated_sizing(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    *,
    engine: EngineRules,
    version: Version,
    format: QuantizationFormat,  # noqa: A002
) -> Sizing:
    """The same for an engine that allocates what its settings say: the cache of every slot, whole."""
    found = allocated_estimate(model, gpu, settings, engine=engine, version=version, format=format)
    claimed = max(rank.claimed_bytes for rank in found.per_gpu)
    surely = max(rank.capacity.value - rank.headroom.low for rank in found.per_gpu)
    note = "the engine allocates the cache of all its slots at start"
    return Sizing(found.settings, found.kv_cache.reserved_bytes, claimed, surely, note)


def size_pool(memory: ReplicaMemory, kv_bytes: int, *, in_bytes: bool) -> Sizing:
    """The same from terms that are already there."""
    needs = pool_needs(memory, kv_bytes)
    likely, surely = claimed_before_graphs(memory, needs)
    capacity, outside = memory.capacity, memory.stages[0].beyond
    if in_bytes and memory.layout.groups:  # without a cache there is no pool to ask for
        share = min(1.0, rounded_share(likely / capacity.value))
        chosen = replace(memory.settings, kv_cache_memory_bytes=max(needs), gpu_memory_utilization=share)
        note = "the pool is given in bytes; the utilisation is only what must be free at start"
        return Sizing(chosen, max(needs), likely + outside.value, surely + outside.high, note)
    share = rounded_share(_share_for(memory, needs))
    if share > 1:
        raise UnsupportedError(
            f"needs {format_gib(surely)} with its KV cache, the card has {format_gib(capacity.low)}",
            hint="fewer or shorter sequences, smaller weights, or more GPUs",
        )
    if memory.rules.has_cache_tokens and memory.layout.groups and not _has_states(memory):
        return _capped(memory, needs)
    chosen = replace(memory.settings, gpu_memory_utilization=share)
    note = "the fraction holds the pool at the upper end of the other terms' 90 % interval"
    if memory.rules.pool.base is not Base.CARD:
        return Sizing(chosen, max(needs), likely + outside.value, surely + outside.high, note)
    budget = ceil(share * memory.rules.pool.usable * capacity.value)
    return Sizing(chosen, max(needs), budget + outside.value, budget + outside.high, note)


def _has_states(memory: ReplicaMemory) -> bool:
    """Whether states have a pool beside the tokens', which a number of tokens does not bound."""
    return any(group.kind is AttentionKind.RECURRENT for group in memory.layout.groups)


def _share_for(memory: ReplicaMemory, needs: list[int]) -> float:
    """The fraction that holds every stage's pool."""
    return max(
        share_for(memory.rules.pool, stage.base, stage.spent, need, stage.first)
        for stage, need in zip(memory.stages, needs, strict=True)
    )


def beside(memory: ReplicaMemory, earlier_bytes: int) -> EngineSettings:
    """The settings with the fraction that gives the same pool on a card where `earlier_bytes` are taken already:
    more of the card where an engine counts all that is used as its own, more of what is free where its fraction is
    of that. Rounded down to four digits, so that no neighbour's room is touched."""
    settings, rules, stage = memory.settings, memory.rules, memory.stages[0]
    share, base = settings.gpu_memory_utilization or 0.0, stage.base.value
    given = settings.kv_cache_tokens is not None or settings.kv_cache_memory_bytes is not None
    if not earlier_bytes or given or (rules.pool.base is Base.CARD and not rules.runtime.others_in_budget):
        return settings
    if rules.pool.base is Base.CARD:
        raised = share + earlier_bytes / base
    else:
        raised = share * base / max(1, base - earlier_bytes)
    return replace(settings, gpu_memory_utilization=min(1.0, floor(raised * 10_000) / 10_000))


def _capped(memory: ReplicaMemory, needs: list[int]) -> Sizing:
    """The pool asked for in tokens: the same whatever neighbours hold, as long as the fraction leaves it room. The
    fraction is of what is free when this engine starts, so that it must not count on an empty card."""
    size = memory.layout.block_bytes[0] or max(memory.layout.block_bytes)
    tokens = max(needs) // size * memory.layout.groups[0].block_size
    chosen = replace(memory.settings, kv_cache_tokens=tokens, gpu_memory_utilization=CAPPED_SHARE)
    pairs = [(stage, need) for stage, need in zip(memory.stages, needs, strict=True)]
    likely = max(stage.spent.value + need + stage.beyond.value for stage, need in pairs)
    surely = max(stage.spent.high + need + stage.beyond.high for stage, need in pairs)
    return Sizing(chosen, max(needs), likely, surely, "the pool is given in tokens; the fraction only bounds it")


def claimed_before_graphs(memory: ReplicaMemory, needs: list[int]) -> tuple[int, int]:
    """(likely, at the upper end) bytes of the binding rank with pools of `needs`, without what stands outside of
    the budget: the cheap test of a candidate, a few microseconds."""
    pairs = [(stage.spent, need) for stage, need in zip(memory.stages, needs, strict=True)]
    return max(spent.value + need for spent, need in pairs), max(spent.high + need for spent, need in pairs)


def pool_needs(memory: ReplicaMemory, kv_bytes: int) -> list[int]:
    """Pool bytes a stage: whole blocks for `kv_bytes` of rank 0, never less than one longest sequence."""
    if not memory.layout.groups:
        return [0 for _ in memory.stages]
    blocks = blocks_needed(memory.layout, memory.settings, kv_bytes)
    return [blocks * each for each in memory.layout.block_bytes]


def blocks_needed(layout: CacheLayout, settings: EngineSettings, kv_bytes: int) -> int:
    """The blocks of that pool, for a layout that has any."""
    length, batch, sizes = settings.max_model_len or 1, settings.max_num_batched_tokens or 1, layout.block_bytes
    least = max(-(-layout.checked_bytes(length, batch, s) // size) for s, size in enumerate(sizes) if size)
    return max(least, -(-kv_bytes // (sizes[0] or max(sizes))))


def rounded_share(share: float) -> float:
    """Rounded up; infinite where nothing is free to take a share of."""
    return inf if share == inf else ceil(share * STEPS - 1e-9) / STEPS
