"""Everything that must hold of one replica, in the order in which an engine would fail."""

from __future__ import annotations

from math import ceil

from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Verdict
from cotenant.domain.interval import Interval, total
from cotenant.domain.model import AttentionKind
from cotenant.engines import own_word
from cotenant.engines.rules import Base, EngineRules, MemoryRules
from cotenant.estimation.kv_cache import CacheLayout, pool_interval
from cotenant.estimation.memory_terms import ReplicaMemory, StageMemory, footprint_of, load_peak
from cotenant.estimation.verdict import Check, judge
from cotenant.units import format_gib

_NOTHING = Interval.exact(0)


def pools_of(memory: ReplicaMemory) -> tuple[Interval, ...]:
    """What a rank of each stage reserves for its pool, in whole blocks."""
    if not memory.layout.groups:
        return tuple(_NOTHING for _ in memory.stages)
    rooms = tuple(stage.room for stage in memory.stages)
    return tuple(pool_interval(memory.layout, rooms, number) for number in range(len(rooms)))


def judged(
    memory: ReplicaMemory,
    pools: tuple[Interval, ...],
    engine: EngineRules,
    used_bytes: int = 0,
    demand: Demand | None = None,
) -> tuple[Verdict, str]:
    """Whether the replica fits on its card with `pools_of` its stages, and the sentence that says by how much. The
    pool must hold a `demand`, where there is one; `used_bytes` is held on each card by others."""
    return judge(_checks(memory, pools, used_bytes, engine, demand))


def claimed_bytes(memory: ReplicaMemory, pools: tuple[Interval, ...]) -> int:
    """What no other replica may count on, of the rank that binds: as `domain.estimate.RankEstimate` says it."""
    return max(
        max(
            stage.budget.value,
            stage.weights.bytes.value
            + stage.activations.bytes.value
            + stage.runtime.inside.value
            + stage.runtime.outside.value
            + pool.value,
        )
        for stage, pool in zip(memory.stages, pools, strict=True)
    )


def _checks(
    memory: ReplicaMemory,
    pools: tuple[Interval, ...],
    used_bytes: int,
    engine: EngineRules,
    demand: Demand | None,
) -> list[Check]:
    free = memory.capacity.shifted(-used_bytes)
    checks: list[Check] = []
    for number, stage in enumerate(memory.stages):
        asked = engine.budget(memory.capacity, memory.settings)
        if memory.rules.runtime.start_check:
            checks.append(_start_check(engine, memory, asked, free - stage.runtime.beside))
        checks.append(Check("loading its weights", load_peak(stage), free, "left on the card"))
        if stage.first:
            checks.append(_warm_up_check(memory, stage, free))
        if memory.layout.groups and not (demand is None and _holds_something(memory, stage, number)):
            checks.append(_pool_check(memory, stage, number, demand, engine.name))
        if holds_states(memory.layout, memory.rules, memory.settings):
            checks.append(_states_check(memory, stage, number))
        checks.append(_card_check(memory, stage, pools[number], free))
    return checks


def _warm_up_check(memory: ReplicaMemory, stage: StageMemory, free: Interval) -> Check:
    tokens = memory.settings.max_num_batched_tokens or 1
    what = f"the warm-up of {tokens:,} prompt tokens with {format_gib(stage.first)} of cache"
    needed = stage.own.shifted(stage.first - stage.given_back)
    return Check(what, needed, free, "left on the card", _SMALLER_WARM_UP)


_SMALLER_WARM_UP = "fewer max_batch_prefill_tokens, or a smaller max_total_tokens"


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
    memory: ReplicaMemory, stage: StageMemory, number: int, demand: Demand | None, engine: str
) -> Check:
    length = memory.settings.max_model_len or 1
    need = memory.layout.checked_bytes(length, memory.settings.max_num_batched_tokens or 1, number)
    what = f"the KV cache of one sequence of {length:,} tokens"
    least = memory.minimum_bytes
    if memory.layout.checks_whole_model and len(memory.stages) > 1:
        what += ", of all stages' layers as this version checks it,"
    if not memory.rules.pool.needs_longest(memory.settings):
        need, what, least = memory.layout.block_bytes[number], "the first block of the KV cache", 0
        if stage.room.high < 0:
            return _before_pool_check(stage, need, engine)
    if demand is not None and demand.kv_needed_bytes > least:
        size = memory.layout.block_bytes
        need = -(-demand.kv_needed_bytes // size[0]) * size[number]
        what = "the traffic's KV cache"
    left = "left of the budget" if memory.settings.kv_cache_memory_bytes is None else "given to it"
    spent = f" (budget {format_gib(stage.budget.value)})"
    return Check(
        what, Interval.exact(need), stage.room, left + spent, "fewer or shorter sequences, or smaller weights"
    )


def _before_pool_check(stage: StageMemory, block: int, engine: str) -> Check:
    """What fills the budget before there is a pool at all, and the larger part of it named."""
    budget, room = stage.budget.value, stage.room
    needed = Interval(budget - room.high, budget - room.value, budget - room.low).shifted(block)
    tokens, slots = (own_word(engine, name) for name in ("max_num_batched_tokens", "max_num_seqs"))
    many = 2 * stage.activations.bytes.value > stage.weights.bytes.value
    hint = f"a smaller {tokens} or {slots}" if many else "smaller weights, or more GPUs"
    what = "weights, activations and runtime, before any KV cache,"
    return Check(what, needed, Interval.exact(budget), "of budget", hint)


def holds_states(layout: CacheLayout, rules: MemoryRules, settings: EngineSettings) -> bool:
    """Whether the engine refuses to capture graphs unless every slot may have a state."""
    stateful = any(group.kind is AttentionKind.RECURRENT for group in layout.groups)
    return stateful and rules.runtime.graphs_hold_states and not settings.enforce_eager


def _states_check(memory: ReplicaMemory, stage: StageMemory, number: int) -> Check:
    slots, size = memory.settings.max_num_seqs or 1, memory.layout.block_bytes[number]
    most = max(1, stage.room.low // size) if size else slots
    what = f"a state for each of {slots:,} sequences, which graphs are captured for,"
    hint = f"max_num_seqs of {most:,} at most, or enforce_eager"
    return Check(what, Interval.exact(slots * size), stage.room, "left of the budget", hint)


def _card_check(memory: ReplicaMemory, stage: StageMemory, pool: Interval, free: Interval) -> Check:
    """Where the pool is cut from what is free, only what comes after it can overflow the card; else all of it."""
    hint = f"lower {memory.rules.share_option}"
    if stage.left is not None and stage.room.low > 0:
        rules, share = memory.rules, memory.settings.gpu_memory_utilization or 0.0
        if rules.pool.base is Base.REST:
            what = f"a pool of {share:g} of what is free"
            room = stage.room.value  # what is free is known no better than the pool, which is a part of it
            free = stage.left.shifted(room)
            return Check(what, Interval.exact(room), free, "free after weights and graphs", hint)
        before = stage.runtime.beside if rules.pool.base is Base.AT_START else _NOTHING
        later = (stage.beyond - before).clamped()
        what = _LATER[rules.pool.activations_inside]
        if rules.pool.unspared:
            most = stage.given_back + ceil(stage.room.high * rules.pool.unspared)  # none of it can be relied on
            later = total((later, Interval(0, 0, most)))
            what = "serving requests of other sizes than the warm-up's"
        return Check(what, later, stage.left, f"left by {rules.share_option}", hint)
    footprint = footprint_of(stage, pool)
    if stage.first:  # the warm-up's own memory is kept, and a smaller share of the card gives none of it back
        return Check("the replica with all of its warm-up", footprint, free, "left on the card", _SMALLER_WARM_UP)
    return Check("the replica with its graphs", footprint, free, "left on the card", hint)


_LATER = {True: "capturing graphs", False: "serving (activations, graphs, token tables)"}
"""What an engine does once its pool stands, by whether the pool left room for activations."""
