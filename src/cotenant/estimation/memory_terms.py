"""The terms of one replica on one type of card, and the pool that is left, before anything is judged.

    pool      = budget - weights - activations - runtime inside the budget      (or what was asked in bytes)
    footprint = weights + activations + pool + all of the runtime

Where many settings are tried, these terms are worked out once and `with_pool` gives each its pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from cotenant.catalogue.quantization import find_format
from cotenant.domain.calibration import CalibrationProfile
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Term
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval, total
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines.rules import (
    AdapterPlace,
    Base,
    Capacity,
    EngineRules,
    ExpertPadding,
    MemoryRules,
    Online,
    PoolRules,
    ProfileRules,
)
from cotenant.estimation.activations import activations, given_back, minds_length
from cotenant.estimation.adapters import adapter_bytes
from cotenant.estimation.calibrated import profile_for, scaled, scaled_term
from cotenant.estimation.kv_cache import CacheLayout, cache_layout
from cotenant.estimation.loading import beside_weights, held_format, made_while_loading
from cotenant.estimation.pool import Room, capped, room_of
from cotenant.estimation.runtime import Runtime, runtime
from cotenant.estimation.speculation import served_model
from cotenant.estimation.token_tables import table_slots
from cotenant.estimation.untied import untied
from cotenant.estimation.weights import StageWeights, stage_weights, weights_per_rank
from cotenant.units import format_gib


@dataclass(frozen=True, slots=True)
class StageTerms:
    """What one rank of a pipeline stage takes apart from its pool, whatever it is given for that."""

    weights: Term
    activations: Term
    runtime: Runtime
    loading: Interval  # beside the weights while they are loaded
    own: Interval  # what the budget pays before the pool
    beyond: Interval  # what stands outside of the budget, or on top of it
    first: int  # cache of the warm-up's own batch, where it has one
    given_back: int = 0  # of `own`, what is kept unused until memory is short


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
    given_back: int = 0  # of `own`, what is kept unused until memory is short


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


@dataclass(frozen=True, slots=True)
class Frame:
    """What of a replica's memory stays the same however long its sequences are, how many there are and how many
    tokens a batch has: `terms_of` and `opened` make the rest. `model` as it is held, `weights` by rank, `loading`
    by stage."""

    model: ModelSpec
    gpu: GpuSpec
    engine: EngineRules
    used_bytes: int
    rules: MemoryRules
    layout: CacheLayout
    capacity: Interval
    weights: tuple[Term, ...]
    loading: tuple[Interval, ...]
    online: Online | None
    profile: ProfileRules
    measured: CalibrationProfile | None
    minds_length: bool  # whether max_model_len changes anything beyond the pool that is asked for


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
    frame = frame_of(model, gpu, resolved, engine=engine, version=version, format=format, used_bytes=used_bytes)
    return opened(frame, resolved, terms_of(frame, resolved))


def frame_of(
    model: ModelSpec,
    gpu: GpuSpec,
    resolved: EngineSettings,
    *,
    engine: EngineRules,
    version: Version,
    format: QuantizationFormat,  # noqa: A002
    used_bytes: int = 0,
) -> Frame:
    """The frame of a model (with its draft, `served_model`) under resolved settings."""
    rules = engine.rules(version, gpu)
    model = untied(model) if rules.unties_head else model
    format = held_format(format, rules)  # noqa: A001
    padding = engine.expert_padding(format.name, gpu)
    profile = engine.profile(model, version, gpu).served_as(format.name)
    terms = weights_per_rank(
        model, format, tensor_parallel_size=resolved.tensor_parallel_size,
        pipeline_parallel_size=resolved.pipeline_parallel_size,
        dtype=resolved.dtype, adapters_on_vocabulary=rules.adapters_on_vocabulary,
        adapters=resolved.adapters if rules.adapters is AdapterPlace.WEIGHTS else None,
        padding=padding, data_parallel_size=resolved.data_parallel_size, loaded=rules.loaded,
        rest_last=rules.cache.rest_on_last_stage, copies_share=rules.copies_share,
    )  # fmt: skip
    online = made_while_loading(model, format, rules)
    return Frame(
        model, gpu, engine, used_bytes, rules, cache_layout(model, resolved, rules.cache),
        gpu.cuda_bytes if rules.capacity is Capacity.CUDA else gpu.driver_bytes,
        terms, _while_loading(model, format, resolved, rules, padding, online), online,
        profile, profile_for(engine.name, str(version), gpu.name, model.family),
        bool(rules.runtime.slot_bytes or rules.pool.warms_cache or minds_length(model, profile)),
    )  # fmt: skip


def _while_loading(
    model: ModelSpec, format: QuantizationFormat, resolved: EngineSettings, rules: MemoryRules,  # noqa: A002
    padding: ExpertPadding | None, online: Online | None,
) -> tuple[Interval, ...]:  # fmt: skip
    """What stands beside a rank's weights while they are loaded, stage by stage."""

    def held(one: QuantizationFormat) -> tuple[StageWeights, ...]:
        return stage_weights(
            model, one, resolved.tensor_parallel_size, resolved.pipeline_parallel_size, resolved.dtype, padding,
            resolved.data_parallel_size, rules.loaded, rules.cache.rest_on_last_stage, rules.copies_share,
        )  # fmt: skip

    plain = None if online is None else held(find_format("bf16"))
    return tuple(
        beside_weights(raw, None if plain is None else plain[stage], online)
        for stage, raw in enumerate(held(format))
    )


def terms_of(frame: Frame, resolved: EngineSettings) -> tuple[StageTerms, ...]:
    """The terms of every stage in that frame, under resolved settings that differ in lengths, slots and batch."""
    model, rules, profile = frame.model, frame.rules, frame.profile
    ranks, stages = resolved.tensor_parallel_size, resolved.pipeline_parallel_size
    inside, spare = rules.pool.activations_inside, given_back(model, resolved, profile)
    found = []
    for stage in range(stages):
        common = _as_measured(_runtime(frame, resolved, stage), frame.measured)
        shared = _with_adapters(common, model, resolved, rules, stage)
        active = activations(model, resolved, profile, last_stage=stage == stages - 1)
        active = scaled_term(active, "activations", frame.measured)
        weights = frame.weights[stage * ranks]
        own = total((weights.bytes, *((active.bytes,) if inside else ()), shared.inside))
        first = _first_batch(frame.layout, resolved, stage, rules.pool) if rules.pool.warms_cache else 0
        beyond = shared.outside if inside else active.bytes + shared.outside
        found.append(StageTerms(weights, active, shared, frame.loading[stage], own, beyond, first, spare))
    return tuple(found)


def _runtime(frame: Frame, resolved: EngineSettings, stage: int) -> Runtime:
    """The runtime of a rank of that stage, with rows of a token table where the engine keeps one."""
    slots = None
    if frame.rules.runtime.slot_bytes:
        left = frame.capacity - frame.weights[stage * resolved.tensor_parallel_size].bytes
        slots = table_slots(resolved, frame.layout, frame.rules, left, stage)
    return runtime(
        frame.model, frame.gpu, resolved, frame.rules.runtime,
        reserves_graphs=frame.profile.reserves_graphs, slots=slots,
    )  # fmt: skip


def opened(frame: Frame, resolved: EngineSettings, terms: tuple[StageTerms, ...]) -> ReplicaMemory:
    """The replica of `terms_of` these settings, with the room of every stage's pool."""
    rules, charged = frame.rules, charged_bytes(frame.rules, frame.used_bytes)
    found = []
    for number, stage in enumerate(terms):
        room = _room(
            frame.engine, resolved, rules, frame.layout, frame.capacity, frame.used_bytes, number, stage.own,
            stage.runtime.beside, stage.first, stage.given_back,
        )  # fmt: skip
        found.append(
            StageMemory(
                stage.weights, stage.activations, stage.runtime, stage.loading, stage.own,
                stage.own.shifted(charged), room.budget, room.pool, room.base, room.left, stage.beyond,
                stage.first, stage.given_back,
            )
        )  # fmt: skip
    return ReplicaMemory(resolved, rules, frame.layout, frame.capacity, tuple(found), frame.online)


def charged_bytes(rules: MemoryRules, used_bytes: int) -> int:
    """What others hold on the card, where it counts as this engine's own."""
    return used_bytes if rules.runtime.others_in_budget else 0


def _room(
    engine: EngineRules,
    settings: EngineSettings,
    rules: MemoryRules,
    layout: CacheLayout,
    capacity: Interval,
    used_bytes: int,
    stage: int,
    spent: Interval,
    before: Interval,
    first: int,
    spare: int,
) -> Room:
    """The room of one stage's pool: what the fraction leaves, or what was asked for in bytes or tokens."""
    others = used_bytes if rules.pool.base is not Base.CARD else charged_bytes(rules, used_bytes)
    room = room_of(
        engine,
        settings,
        rules.pool,
        capacity=capacity,
        others=others,
        before=before,
        spent=spent,
        first=first,
        spare=spare,
    )
    if settings.kv_cache_memory_bytes is not None:
        asked = settings.kv_cache_memory_bytes
        return Room(room.base, spent.shifted(asked), Interval.exact(asked))
    if settings.kv_cache_tokens is not None:
        return capped(room, spent, layout.bytes_of_tokens(settings.kv_cache_tokens, stage))
    return room


def with_pool(
    memory: ReplicaMemory, settings: EngineSettings, *, engine: EngineRules, used_bytes: int = 0
) -> ReplicaMemory:
    """The same replica under settings that differ in what its pool is given alone (`inverse.size_pool`): what
    `replica_memory` says of them, without working out the other terms again."""

    def given() -> Iterator[StageMemory]:
        for number, stage in enumerate(memory.stages):
            room = _room(
                engine, settings, memory.rules, memory.layout, memory.capacity, used_bytes, number, stage.own,
                stage.runtime.beside, stage.first, stage.given_back,
            )  # fmt: skip
            yield StageMemory(
                stage.weights, stage.activations, stage.runtime, stage.loading, stage.own, stage.spent,
                room.budget, room.pool, room.base, room.left, stage.beyond, stage.first, stage.given_back,
            )  # fmt: skip

    return ReplicaMemory(settings, memory.rules, memory.layout, memory.capacity, tuple(given()), memory.online)


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


def _first_batch(layout: CacheLayout, settings: EngineSettings, stage: int, rules: PoolRules) -> int:
    """Cache of a warm-up whose prompts, as long as one may be, each hold room for a whole sequence, or for two
    tokens of an answer."""
    tokens = settings.max_num_batched_tokens or 1
    if settings.max_input_tokens is None:
        return layout.bytes_of_tokens(tokens + 1, stage)
    prompts = ceil(tokens / settings.max_input_tokens)
    if not rules.warms_answers:
        return layout.bytes_of_tokens(tokens + 2 * prompts, stage)
    return layout.bytes_of_tokens(prompts * (settings.max_model_len or 1), stage)


def load_peak(stage: StageMemory | StageTerms) -> Interval:
    """What a rank takes while its weights are loaded (loading.py)."""
    return total((stage.weights.bytes, stage.loading, stage.runtime.beside))


def footprint_of(stage: StageMemory, pool: Interval) -> Interval:
    """All that a rank takes. The pool fills what the budget leaves, so their errors cancel: where it does,
    the footprint is the budget and what stands outside of it."""
    if stage.room.low > 0 and not stage.room.is_exact:
        value = stage.own.value + pool.value
        return total((Interval(min(value, stage.budget.low), value, max(value, stage.budget.high)), stage.beyond))
    return total((stage.own.shifted(pool.value), stage.beyond))
