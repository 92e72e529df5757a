"""One replica on one type of card: four terms a rank, the pool that is left, and whether it fits.

It fits when every check (`memory_checks`) holds over the whole 90 % interval, it does not when one fails over the
whole, and else it is uncertain. The terms themselves are those of `memory_terms`.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Estimate, KvCacheEstimate, RankEstimate, Term
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines.rules import EngineRules, Online
from cotenant.estimation.allocated import allocated_estimate
from cotenant.estimation.memory_checks import judged, pools_of
from cotenant.estimation.memory_terms import ReplicaMemory, footprint_of, load_peak, replica_memory
from cotenant.estimation.runtime import SHARED_MEMORY
from cotenant.units import format_gib


def estimate_memory(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    *,
    engine: EngineRules,
    version: Version,
    format: QuantizationFormat,  # noqa: A002
    used_bytes: int = 0,
    demand: Demand | None = None,
    model_path: str = "",
) -> Estimate:
    """The estimate of one replica, judged. `used_bytes` is held on each card by others; a `demand` fills in
    max_num_seqs and max_model_len where the settings leave them open, and the pool must hold its need."""
    asked = _filled(settings, demand)
    if engine.rules(version, gpu).allocate is not None:
        return allocated_estimate(
            model, gpu, asked, engine=engine, version=version, format=format, used_bytes=used_bytes,
            demand=demand, model_path=model_path,
        )  # fmt: skip
    memory = replica_memory(
        model, gpu, asked, engine=engine, version=version, format=format, used_bytes=used_bytes
    )
    pools = pools_of(memory)
    shared = gpu.compute_capability in SHARED_MEMORY
    ranks = _rank_estimates(memory, pools, used_bytes, shares_memory=shared)
    cache = _cache_estimate(memory, demand)
    verdict, reason = judged(memory, pools, engine, used_bytes, demand)
    return Estimate(
        model=model, gpu=gpu, engine=engine.name, engine_version=str(version),
        quantization=format.name, settings=memory.settings, verdict=verdict, per_gpu=ranks, kv_cache=cache,
        arguments=engine.arguments(
            memory.settings, version=version,
            model_path=model_path or model.name,
            quantization=format.engine_flag,
        ),
        reason=reason, warnings=(*memory.rules.notes, *_warnings(model, gpu, memory, used_bytes)), demand=demand,
    )  # fmt: skip


def _warnings(model: ModelSpec, gpu: GpuSpec, memory: ReplicaMemory, used_bytes: int) -> tuple[str, ...]:
    """What the figures leave open, in sentences."""
    found = []
    if not gpu.cuda_measured and not memory.capacity.is_exact:
        span = f"{format_gib(memory.capacity.low)} to {format_gib(memory.capacity.high)}"
        found.append(f"no log of the {gpu.name} says what CUDA reports as its total; taken as {span}")
    if memory.online in _LOADS:
        found.append(f"{_LOADS[memory.online]}: a checkpoint that holds the format already loads as it is")
    found += _pool_warnings(memory, any(group.window is not None for group in model.layer_groups))
    if used_bytes and memory.rules.runtime.others_in_budget:
        found.append("this version charges what others hold on the card to the new engine's budget")
    if not memory.rules.cache.hybrid and any(g.kind is AttentionKind.RECURRENT for g in model.layer_groups):
        found.append("this version keeps recurrent states outside of its KV pool; they are not counted")
    return tuple(found)


_LOADS = {
    Online.WHOLE: "this version loads the 16-bit checkpoint whole before it quantises it",
    Online.HELD: "this version keeps the 16-bit checkpoint on the card until all of it is quantised",
}


def _pool_warnings(memory: ReplicaMemory, windowed: bool) -> list[str]:
    """What an engine says nothing of: a pool below one longest sequence, a size that it has no option for."""
    found: list[str] = []
    settings = memory.settings
    length, batch = settings.max_model_len or 1, settings.max_num_batched_tokens or 1
    blocks = memory.blocks if memory.layout.groups else 0
    if blocks and memory.rules.limits is not None:
        found += memory.rules.limits(settings, memory.layout.tokens_as_printed(blocks, length, batch))
    refuses = memory.rules.pool.needs_longest(settings)
    if not refuses and 0 < blocks < memory.layout.sequence_blocks(length, batch):
        tokens = memory.layout.tokens_as_printed(blocks, length, batch)
        found.append(f"the pool holds {tokens:,} tokens: requests up to {length:,} are refused or cut there")
    if memory.rules.pool.of_free and not memory.rules.cache.hybrid and windowed:
        found.append("sliding layers are cached whole, every token of them")
    if settings.kv_cache_memory_bytes is not None and not memory.rules.has_cache_bytes:
        found.append("this engine has no option for the bytes of its pool; they are counted as if it had")
    return found


def _filled(settings: EngineSettings, demand: Demand | None) -> EngineSettings:
    if demand is None:
        return settings
    return replace(
        settings,
        max_num_seqs=settings.max_num_seqs or demand.max_num_seqs,
        max_model_len=settings.max_model_len or demand.max_model_len,
    )


# Where host and card share one memory, SGLang reads what is available to the host, so that what its process takes
# there while it loads counts as weights (utils, get_available_gpu_memory): up to 0.26 GiB in five public logs.
_SHARED_SLACK = 2


def _rank_estimates(
    memory: ReplicaMemory, pools: tuple[Interval, ...], used_bytes: int, *, shares_memory: bool
) -> tuple[RankEstimate, ...]:
    found: list[RankEstimate] = []
    free = memory.capacity.shifted(-used_bytes)
    slack = memory.rules.load_slack_bytes * (_SHARED_SLACK if shares_memory else 1)
    for stage, pool in zip(memory.stages, pools, strict=True):
        footprint = footprint_of(stage, pool)
        claimed = Interval(
            *(max(getattr(footprint, s), getattr(stage.budget, s)) for s in ("low", "value", "high"))
        )
        peak = load_peak(stage)
        for _ in range(memory.settings.tensor_parallel_size):
            found.append(
                RankEstimate(
                    rank=len(found), capacity=memory.capacity, used_bytes=used_bytes, budget=stage.budget,
                    weights=_as_printed(stage.weights, slack),
                    kv_cache=Term(pool, _pool_why(memory, pool)),
                    activations=stage.activations, runtime=stage.runtime.term, load_peak=peak,
                    headroom=free - claimed,
                )
            )  # fmt: skip
    return tuple(found)


def _as_printed(weights: Term, slack: int) -> Term:
    """Weights as the engine's log counts them, which may hold more than the tensors."""
    size = weights.bytes
    return Term(Interval(size.low, size.value, size.high + slack), weights.why) if slack else weights


def _pool_why(memory: ReplicaMemory, pool: Interval) -> str:
    if not memory.layout.groups:
        return "nothing is cached"
    if memory.settings.kv_cache_memory_bytes is not None:
        return f"{memory.blocks:,} blocks in the bytes asked for"
    return f"{memory.blocks:,} blocks in what the budget leaves"


def _cache_estimate(memory: ReplicaMemory, demand: Demand | None) -> KvCacheEstimate:
    layout, settings = memory.layout, memory.settings
    length, batch = settings.max_model_len or 1, settings.max_num_batched_tokens or 1
    if not layout.groups:
        return KvCacheEstimate(0, 0, 0, 0, 0.0, 0, None if demand is None else demand.kv_needed_bytes, 0, 0)
    blocks = memory.blocks
    concurrency = blocks / layout.sequence_blocks(length, batch)
    plain = len(layout.groups) == 1 and layout.groups[0].window is None
    return KvCacheEstimate(
        bytes_per_token=layout.token_bytes(),
        bytes_per_sequence=layout.fixed_bytes(length),
        tokens=blocks * layout.groups[0].block_size if plain else int(concurrency * length),
        tokens_as_printed=layout.tokens_as_printed(blocks, length, batch),
        max_concurrency=concurrency,
        reserved_bytes=blocks * layout.block_bytes[0],
        needed_bytes=None if demand is None else demand.kv_needed_bytes,
        worst_case_bytes=(settings.max_num_seqs or 1) * layout.sequence_bytes(length, batch)
        if demand is None else demand.kv_worst_case_bytes,
        minimum_bytes=memory.minimum_bytes,
        sequence_bytes=own if (own := layout.sequence_bytes(length, batch)) < memory.minimum_bytes else None,
    )  # fmt: skip
