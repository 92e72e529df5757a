"""One replica on one type of card: four terms a rank, the pool that is left, and whether it fits.

    pool      = budget - weights - activations - runtime inside the budget      (or what was asked in bytes)
    footprint = weights + activations + pool + all of the runtime

It fits when every check below holds over the whole 90 % interval, it does not when one fails over the whole,
and else it is uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from cotenant.catalogue.quantization import find_format
from cotenant.domain.calibration import CalibrationProfile
from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Estimate, KvCacheEstimate, RankEstimate, Term
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval, total
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines.rules import AdapterPlace, Base, Capacity, EngineRules, MemoryRules, Online
from cotenant.estimation.activations import activations
from cotenant.estimation.adapters import adapter_bytes
from cotenant.estimation.allocated import allocated_estimate
from cotenant.estimation.calibrated import profile_for, scaled, scaled_term
from cotenant.estimation.kv_cache import CacheLayout, cache_layout, pool_interval
from cotenant.estimation.loading import beside_weights, made_while_loading
from cotenant.estimation.pool import Room, capped, room_of
from cotenant.estimation.runtime import Runtime, runtime
from cotenant.estimation.speculation import served_model
from cotenant.estimation.verdict import Check, judge
from cotenant.estimation.weights import stage_weights, weights_per_rank
from cotenant.units import format_gib

_NOTHING = Interval.exact(0)


@dataclass(frozen=True, slots=True)
class StageMemory:
    """What one rank of a pipeline stage takes apart from its pool, and what is left for the pool."""

    weights: Term
    activations: Term
    runtime: Runtime
    loading: Interval  # beside the weights while they are loaded
    own: Interval  # what the budget pays before the pool
    spent: Interval  # the same with what others hold, where they are charged to it
    budget: Interval
    room: Interval
    base: Interval  # what the engine's fraction multiplies
    left: Interval | None  # what stays free beside a pool that is cut from what is free
    beyond: Interval  # what stands outside of the budget, or on top of it
    first: int  # cache of the warm-up's own batch, where it has one


@dataclass(frozen=True, slots=True)
class ReplicaMemory:
    """Everything that an estimate is made of, before it is judged: the cheap part for many candidates."""

    settings: EngineSettings  # resolved
    rules: MemoryRules
    layout: CacheLayout
    capacity: Interval
    stages: tuple[StageMemory, ...]
    online: Online | None = None  # how the format is made while loading

    @property
    def blocks(self) -> int:
        """Blocks of the pool, the smallest stage deciding."""
        return self.layout.blocks_in(tuple(max(0, stage.room.value) for stage in self.stages))

    @property
    def minimum_bytes(self) -> int:
        """What one sequence of max_model_len takes of the pool: below it the engine refuses to start."""
        settings = self.settings
        return self.layout.checked_bytes(settings.max_model_len or 1, settings.max_num_batched_tokens or 1)


def replica_memory(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    *,
    engine: EngineRules,
    version: Version,
    format: QuantizationFormat,  # noqa: A002 - the field's own word
    used_bytes: int = 0,
) -> ReplicaMemory:
    """Terms and room of every stage. Raises UnsupportedError for what the engine refuses."""
    model = served_model(model, settings)
    resolved = engine.resolve(model, gpu, settings, version)
    rules = engine.rules(version, gpu)
    capacity = gpu.cuda_bytes if rules.capacity is Capacity.CUDA else gpu.driver_bytes
    layout = cache_layout(model, resolved, rules.cache)
    ranks, stages = resolved.tensor_parallel_size, resolved.pipeline_parallel_size
    padding = engine.expert_padding(format.name, gpu)
    profile = engine.profile(model, version, gpu)
    terms = weights_per_rank(
        model, format, tensor_parallel_size=ranks, pipeline_parallel_size=stages,
        dtype=resolved.dtype, adapters_on_vocabulary=rules.adapters_on_vocabulary,
        adapters=resolved.adapters if rules.adapters is AdapterPlace.WEIGHTS else None,
        padding=padding, data_parallel_size=resolved.data_parallel_size, unsplit=rules.unsplit_weights,
        rest_last=rules.cache.rest_on_last_stage, copies_share=rules.copies_share,
    )  # fmt: skip
    online = made_while_loading(model, format, rules)
    plain = None if online is None else stage_weights(
        model, find_format("bf16"), ranks, stages, resolved.dtype, padding, resolved.data_parallel_size,
        rules.unsplit_weights, rules.cache.rest_on_last_stage, rules.copies_share,
    )  # fmt: skip
    raw = stage_weights(
        model, format, ranks, stages, resolved.dtype, padding, resolved.data_parallel_size, rules.unsplit_weights,
        rules.cache.rest_on_last_stage, rules.copies_share,
    )  # fmt: skip
    measured = profile_for(engine.name, str(version), gpu.name, model.family)
    common = _as_measured(
        runtime(model, gpu, resolved, rules.runtime, reserves_graphs=profile.reserves_graphs), measured
    )
    charged = used_bytes if rules.runtime.others_in_budget else 0
    others = used_bytes if rules.pool.base is not Base.CARD else charged
    found = []
    for stage in range(stages):
        shared = _with_adapters(common, model, resolved, rules, stage)
        active = activations(model, resolved, profile, last_stage=stage == stages - 1)
        active = scaled_term(active, "activations", measured)
        inside = rules.pool.activations_inside
        spent = total((terms[stage * ranks].bytes, *((active.bytes,) if inside else ()), shared.inside))
        first = _first_batch(layout, resolved, stage) if rules.pool.warms_cache else 0
        room = room_of(
            engine, resolved, rules.pool, capacity=capacity, others=others, before=shared.beside,
            spent=spent, first=first,
        )  # fmt: skip
        if resolved.kv_cache_memory_bytes is not None:
            asked = resolved.kv_cache_memory_bytes
            room = Room(room.base, spent.shifted(asked), Interval.exact(asked))
        elif resolved.kv_cache_tokens is not None:
            room = capped(room, spent, layout.bytes_of_tokens(resolved.kv_cache_tokens, stage))
        found.append(
            StageMemory(
                terms[stage * ranks], active, shared,
                beside_weights(raw[stage], None if plain is None else plain[stage], online),
                spent, spent.shifted(charged),
                room.budget, room.pool, room.base, room.left,
                shared.outside if inside else active.bytes + shared.outside, first,
            )
        )  # fmt: skip
    return ReplicaMemory(resolved, rules, layout, capacity, tuple(found), online)


def _as_measured(shared: Runtime, measured: CalibrationProfile | None) -> Runtime:
    """Runtime inside and outside the budget, both by the factor of their sum."""
    found = None if measured is None else measured.factors.get("runtime")
    if measured is None or found is None:
        return shared
    return Runtime(
        scaled(shared.inside, found), scaled(shared.outside, found), scaled(shared.beside, found),
        f"{shared.why}; x {found.value:.3g} as measured ({measured.provenance})",
    )  # fmt: skip


def _with_adapters(
    shared: Runtime, model: ModelSpec, settings: EngineSettings, rules: MemoryRules, stage: int
) -> Runtime:
    """With the LoRA slots that this version does not count among the weights."""
    if settings.adapters is None or rules.adapters is AdapterPlace.WEIGHTS:
        return shared
    extra = adapter_bytes(
        model, settings.adapters, settings.tensor_parallel_size, stage, settings.pipeline_parallel_size,
        rules.adapters_on_vocabulary, rules.cache.rest_on_last_stage,
    )  # fmt: skip
    slots = Interval(extra - extra // 4, extra, extra + extra // 4)
    why = f"{shared.why}; {format_gib(extra)} of LoRA slots"
    if rules.adapters is AdapterPlace.BUDGET:
        return replace(shared, inside=shared.inside + slots, why=why)
    return replace(shared, outside=shared.outside + slots, why=f"{why} that the budget does not count")


def _first_batch(layout: CacheLayout, settings: EngineSettings, stage: int) -> int:
    """Cache that a warm-up needs whose prompts, as long as one may be, each hold room for a whole sequence."""
    tokens = settings.max_num_batched_tokens or 1
    if settings.max_input_tokens is None:
        return layout.bytes_of_tokens(tokens + 1, stage)
    prompts = ceil(tokens / settings.max_input_tokens)
    return layout.bytes_of_tokens(prompts * (settings.max_model_len or 1), stage)


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
    ranks = _rank_estimates(memory, used_bytes)
    cache = _cache_estimate(memory, demand)
    verdict, reason = judge(_checks(memory, ranks, cache, used_bytes, engine, demand))
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


def _rank_estimates(memory: ReplicaMemory, used_bytes: int) -> tuple[RankEstimate, ...]:
    rooms = tuple(stage.room for stage in memory.stages)
    found: list[RankEstimate] = []
    free = memory.capacity.shifted(-used_bytes)
    for number, stage in enumerate(memory.stages):
        pool = pool_interval(memory.layout, rooms, number) if memory.layout.groups else _NOTHING
        footprint = _footprint(stage, pool)
        claimed = Interval(
            *(max(getattr(footprint, s), getattr(stage.budget, s)) for s in ("low", "value", "high"))
        )
        peak = load_peak(stage)
        for _ in range(memory.settings.tensor_parallel_size):
            found.append(
                RankEstimate(
                    rank=len(found), capacity=memory.capacity, used_bytes=used_bytes, budget=stage.budget,
                    weights=_as_printed(stage.weights, memory.rules.load_slack_bytes),
                    kv_cache=Term(pool, _pool_why(memory, pool)),
                    activations=stage.activations, runtime=stage.runtime.term, load_peak=peak,
                    headroom=free - claimed,
                )
            )  # fmt: skip
    return tuple(found)


def load_peak(stage: StageMemory) -> Interval:
    """What a rank takes while its weights are loaded (loading.py)."""
    return total((stage.weights.bytes, stage.loading, stage.runtime.beside))


def _as_printed(weights: Term, slack: int) -> Term:
    """Weights as the engine's log counts them, which may hold more than the tensors."""
    size = weights.bytes
    return Term(Interval(size.low, size.value, size.high + slack), weights.why) if slack else weights


def _footprint(stage: StageMemory, pool: Interval) -> Interval:
    """All that a rank takes. The pool fills what the budget leaves, so their errors cancel: where it does,
    the footprint is the budget and what stands outside of it."""
    if stage.room.low > 0 and not stage.room.is_exact:
        value = stage.own.value + pool.value
        return total((Interval(min(value, stage.budget.low), value, max(value, stage.budget.high)), stage.beyond))
    return total((stage.own.shifted(pool.value), stage.beyond))


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


def _checks(
    memory: ReplicaMemory,
    ranks: tuple[RankEstimate, ...],
    cache: KvCacheEstimate,
    used_bytes: int,
    engine: EngineRules,
    demand: Demand | None,
) -> list[Check]:
    """Everything that must hold, in the order in which an engine would fail."""
    free = memory.capacity.shifted(-used_bytes)
    checks: list[Check] = []
    for number, stage in enumerate(memory.stages):
        rank = ranks[number * memory.settings.tensor_parallel_size]
        asked = engine.budget(memory.capacity, memory.settings)
        if memory.rules.runtime.start_check:
            checks.append(_start_check(engine, memory, asked, free - stage.runtime.beside))
        checks.append(Check("loading its weights", rank.load_peak, free, "left on the card"))
        if stage.first:
            checks.append(_warm_up_check(memory, stage, free))
        if memory.layout.groups and not (demand is None and _holds_something(memory, stage, number)):
            checks.append(_pool_check(memory, cache, stage, number, demand))
        checks.append(_card_check(memory, stage, rank, free))
    return checks


def _warm_up_check(memory: ReplicaMemory, stage: StageMemory, free: Interval) -> Check:
    tokens = memory.settings.max_num_batched_tokens or 1
    what = f"the warm-up of {tokens:,} prompt tokens with {format_gib(stage.first)} of cache"
    hint = "fewer max_batch_prefill_tokens, or a smaller max_total_tokens"
    return Check(what, stage.own.shifted(stage.first), free, "left on the card", hint)


def _start_check(engine: EngineRules, memory: ReplicaMemory, asked: Interval, free: Interval) -> Check:
    share = memory.settings.gpu_memory_utilization or 0.0
    hint = f"lower gpu_memory_utilization below {max(0, free.low) / memory.capacity.high:.3f}"
    return Check(f"{engine.title}'s budget of {share:g} of the card", asked, free, "free at start", hint)


def _holds_something(memory: ReplicaMemory, stage: StageMemory, number: int) -> bool:
    """Whether an engine that asks for no more has room for a first block, beyond doubt."""
    return not memory.rules.pool.needs_longest(memory.settings) and (
        stage.room.low >= memory.layout.block_bytes[number]
    )


def _pool_check(
    memory: ReplicaMemory, cache: KvCacheEstimate, stage: StageMemory, number: int, demand: Demand | None
) -> Check:
    length = memory.settings.max_model_len or 1
    need = memory.layout.checked_bytes(length, memory.settings.max_num_batched_tokens or 1, number)
    what = f"the KV cache of one sequence of {length:,} tokens"
    least = cache.minimum_bytes
    if memory.layout.checks_whole_model and len(memory.stages) > 1:
        what += ", of all stages' layers as this version checks it,"
    if not memory.rules.pool.needs_longest(memory.settings):
        need, what, least = memory.layout.block_bytes[number], "the first block of the KV cache", 0
    if demand is not None and demand.kv_needed_bytes > least:
        size = memory.layout.block_bytes
        need = -(-demand.kv_needed_bytes // size[0]) * size[number]
        what = "the traffic's KV cache"
    left = "left of the budget" if memory.settings.kv_cache_memory_bytes is None else "given to it"
    spent = f" (budget {format_gib(stage.budget.value)})"
    return Check(
        what, Interval.exact(need), stage.room, left + spent, "fewer or shorter sequences, or smaller weights"
    )


def _card_check(memory: ReplicaMemory, stage: StageMemory, rank: RankEstimate, free: Interval) -> Check:
    """Where the pool is cut from what is free, only what comes after it can overflow the card; else all of it."""
    hint = f"lower {memory.rules.share_option}"
    if stage.left is not None and stage.room.low > 0:
        rules, share = memory.rules, memory.settings.gpu_memory_utilization or 0.0
        if rules.pool.base is Base.REST:
            what = f"a pool of {share:g} of what is free"
            pool = stage.room.value  # what is free is known no better than the pool, which is a part of it
            free = stage.left.shifted(pool)
            return Check(what, Interval.exact(pool), free, "free after weights and graphs", hint)
        before = stage.runtime.beside if rules.pool.base is Base.AT_START else _NOTHING
        later = (stage.beyond - before).clamped()
        return Check(
            _LATER[rules.pool.activations_inside], later, stage.left, f"left by {rules.share_option}", hint
        )
    footprint = _footprint(stage, rank.kv_cache.bytes)
    return Check("the replica with its graphs", footprint, free, "left on the card", hint)


_LATER = {True: "capturing graphs", False: "serving (activations, graphs, token tables)"}
"""What an engine does once its pool stands, by whether the pool left room for activations."""
