"""A pool asked for in bytes, from terms that are there: whole numbers, for the thousands of sizes of a plan.

What `inverse.size_pool`, `memory_terms.with_pool` and `memory_checks` say of a replica whose engine takes its pool
in bytes, without the sentences: those are made where something does not fit. A test holds both equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isqrt

from cotenant.domain.engine import EngineSettings
from cotenant.domain.interval import Interval
from cotenant.estimation.inverse import blocks_needed, rounded_share
from cotenant.estimation.memory_checks import holds_states
from cotenant.estimation.memory_terms import Frame, StageTerms, charged_bytes, load_peak


@dataclass(frozen=True, slots=True)
class Given:
    """Settings that ask for the pool, what the binding rank then claims, and whether all of it surely fits."""

    settings: EngineSettings
    claimed_bytes: int
    fits: bool


@dataclass(frozen=True, slots=True)
class _Stage:
    """`block`: bytes of one; `spent`, `own`: what the budget pays before the pool, with and without what others
    hold; `rest`: all but the pool; `beyond`: outside of the budget; `most`: the largest pool that surely finds
    room beside them."""

    block: int
    spent: int
    own: int
    rest: int
    beyond: int
    most: int


@dataclass(frozen=True, slots=True)
class PoolInBytes:
    """A replica whose pool is yet to be asked for in bytes; `used_bytes` of its card are held by others."""

    frame: Frame
    loads: bool  # and has room for its warm-up, whatever its pool
    free_at_start: tuple[Interval, ...]  # what the engine checks its budget against; empty where it does not
    stages: tuple[_Stage, ...]
    _starts: dict[float, bool] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, frame: Frame, resolved: EngineSettings, terms: tuple[StageTerms, ...]) -> PoolInBytes | None:
        """None where the pool is no matter of bytes, or is held against more than them."""
        rules, layout, sizes = frame.rules, frame.layout, frame.layout.block_bytes
        if not rules.has_cache_bytes or not layout.groups or not all(sizes):
            return None
        if holds_states(layout, rules, resolved):
            return None
        free = frame.capacity.shifted(-frame.used_bytes)
        needs = [load_peak(stage) for stage in terms]
        needs += [stage.own.shifted(stage.first - stage.given_back) for stage in terms if stage.first]
        checked = {free - stage.runtime.beside for stage in terms if rules.runtime.start_check}
        charged = charged_bytes(rules, frame.used_bytes)
        return cls(
            frame, all((free - need).low >= 0 for need in needs), tuple(checked),
            tuple(_stage(stage, size, free, charged) for stage, size in zip(terms, sizes, strict=True)),
        )  # fmt: skip

    def likely_bytes(self, resolved: EngineSettings, kv_bytes: int) -> int:
        """`Sizing.claimed_bytes` of `inverse.size_pool`."""
        blocks = blocks_needed(self.frame.layout, resolved, kv_bytes)
        return self._spent_bytes(blocks) + self.stages[0].beyond

    def given(self, resolved: EngineSettings, kv_bytes: int) -> Given:
        """The smallest pool that holds `kv_bytes` of rank 0 and one longest sequence, under settings that differ
        from the replica's in max_model_len alone."""
        blocks = blocks_needed(self.frame.layout, resolved, kv_bytes)
        pool = blocks * max(stage.block for stage in self.stages)
        share = min(1.0, rounded_share(self._spent_bytes(blocks) / self.frame.capacity.value))
        settings = replace(resolved, kv_cache_memory_bytes=pool, gpu_memory_utilization=share)
        whole = min(pool // stage.block for stage in self.stages)
        claimed = max(
            max(stage.own + pool, stage.rest + whole * stage.block) for stage in self.stages
        )  # fmt: skip
        fits = self.loads and all(whole * stage.block <= stage.most for stage in self.stages)
        return Given(settings, claimed, fits and self._has_budget(settings, share))

    def _spent_bytes(self, blocks: int) -> int:
        return max(stage.spent + blocks * stage.block for stage in self.stages)

    def _has_budget(self, settings: EngineSettings, share: float) -> bool:
        """Whether that share of the card is free when the engine looks."""
        found = self._starts.get(share)
        if found is None:
            asked = self.frame.engine.budget(self.frame.capacity, settings)
            found = all((free - asked).low >= 0 for free in self.free_at_start)
            self._starts[share] = found
        return found


def _stage(stage: StageTerms, block: int, free: Interval, charged: int) -> _Stage:
    own, beyond = stage.own, stage.beyond
    above = isqrt((own.high - own.value) ** 2 + (beyond.high - beyond.value) ** 2)  # of the footprint
    most = free.value - own.value - beyond.value - isqrt((free.value - free.low) ** 2 + above**2)
    rest = stage.weights.bytes.value + stage.activations.bytes.value
    rest += stage.runtime.inside.value + stage.runtime.outside.value
    return _Stage(block, own.value + charged, own.value, rest, beyond.value, most)
