"""The KV cache: how an engine cuts its pool into pages, and what a sequence takes of it.

    page      = tokens a block x heads of a rank x (key + value width) x element bytes   (full, windows)
                tokens a block x (latent + rotary width) x element bytes                 (MLA: whole on every rank)
                convolution and recurrent state / ranks                                  (linear attention, Mamba)
    hybrids   all pages grow to the largest; layers are dealt into groups of equal size, so that one block of
              the pool is `group size` pages and every group takes blocks of its own
    sequence  full: ceil(n / block); sliding: ceil(min(n, window - 1 + batch) / block) + 1; state: 1

Two answers: what the engine reserves, with padding and blocks, and what the model needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from cotenant.domain.engine import EngineSettings
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.engines.rules import CacheRules, Packing, Printed
from cotenant.estimation.compressed_pages import compressed_pages, is_compressed
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.packed_pages import is_packed, packed
from cotenant.estimation.page_groups import (
    deal,
    is_uniform,
    joined,
    one_table,
    own_pools,
    shares_one_pool,
    unified,
)
from cotenant.estimation.pages import FORGETS, KEEPS_ALL, PageGroup, page_groups, rejectable
from cotenant.estimation.stages import stage_layers


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """The pool of every stage: `block_bytes` a stage is what one block takes of one rank there.

    `batch_factor` x max_num_batched_tokens are in flight. `apart`: every group has a pool of its own, of as many
    blocks. `checks_whole_model`: the start-up check asks every stage for all stages' layers. Empty `groups`: the
    model caches nothing. `checked_block_bytes`: what a block counts as in the start-up check, where that is not
    what it takes.
    """

    groups: tuple[PageGroup, ...]
    block_bytes: tuple[int, ...]
    printed: Printed
    batch_factor: int
    apart: bool = False
    checks_whole_model: bool = False
    checked_block_bytes: tuple[int, ...] = ()

    def sequence_blocks(self, tokens: int, batched_tokens: int) -> int:
        """Blocks of the pool that the engine reserves for one sequence of `tokens`."""
        in_flight = self.batch_factor * batched_tokens
        each = [group.blocks(tokens, in_flight) for group in self.groups]
        return max(each, default=0) if self.apart else sum(each)

    def sequence_bytes(self, tokens: int, batched_tokens: int, stage: int = 0) -> int:
        """Bytes of one rank of a stage that the engine reserves for one sequence of `tokens`."""
        return self.sequence_blocks(tokens, batched_tokens) * self.block_bytes[stage]

    def checked_bytes(self, tokens: int, batched_tokens: int, stage: int = 0) -> int:
        """Bytes that a rank of the stage must have free for a start with sequences of up to `tokens`."""
        blocks = self.sequence_blocks(tokens, batched_tokens)
        size = self.checked_block_bytes or self.block_bytes
        return blocks * (sum(size) if self.checks_whole_model else size[stage])

    def needed_bytes(self, tokens: int, stage: int = 0) -> int:
        """Bytes of one rank of a stage that the model needs for one sequence: no padding, no batch."""
        return ceil(sum(group.needed(tokens, stage) for group in self.groups))

    def token_bytes(self, stage: int = 0) -> int:
        """Bytes of one rank that every further token of a long sequence needs."""
        kinds = [group for group in self.groups if group.kind in KEEPS_ALL]
        if not kinds:  # only windows: what a token takes while it is inside
            kinds = [group for group in self.groups if group.kind in FORGETS]
        return round(sum(group.layers[stage] * group.token_bytes for group in kinds))

    def fixed_bytes(self, max_model_len: int, stage: int = 0) -> int:
        """Bytes of one rank that a long sequence needs whatever its length: windows and states."""
        growing = [group for group in self.groups if group.kind in KEEPS_ALL]
        if not growing:
            return sum(round(g.needed(1, stage)) for g in self.groups if g.kind is AttentionKind.RECURRENT)
        others = (group for group in self.groups if group.kind not in KEEPS_ALL)
        return round(sum(group.needed(max_model_len, stage) for group in others))

    def bytes_of_tokens(self, tokens: int, stage: int = 0) -> int:
        """Bytes of one rank of a stage in a pool of `tokens`, as the engine counts them."""
        if not self.groups:
            return 0
        return -(-tokens // self.groups[0].block_size) * self.block_bytes[stage]

    def blocks_in(self, pools: tuple[int, ...]) -> int:
        """Blocks that every stage's pool of so many bytes can hold: the smallest stage decides."""
        return max(
            0, min((pool // size for pool, size in zip(pools, self.block_bytes, strict=True) if size), default=0)
        )

    def tokens_as_printed(self, blocks: int, max_model_len: int, batched_tokens: int) -> int:
        """The number of tokens that the engine's log shows for a pool of `blocks`."""
        if not self.groups:
            return 0
        if self.printed is Printed.TOKENS:
            return blocks * self.groups[0].block_size
        if self.printed is Printed.BLOCKS:
            sizes = [group.block_size for group in self.groups if group.token_bytes]
            return blocks // len(self.groups) * min(sizes, default=max_model_len)
        return int(blocks / self.sequence_blocks(max_model_len, batched_tokens) * max_model_len)


_CACHE: IdentityCache[CacheLayout] = IdentityCache(4096)


def cache_layout(model: ModelSpec, settings: EngineSettings, rules: CacheRules) -> CacheLayout:
    """The layout of a model under resolved settings; kept for the next call with the same objects."""
    key = (
        settings.tensor_parallel_size,
        settings.pipeline_parallel_size,
        settings.block_size,
        settings.kv_cache_dtype,
        settings.dtype,
        rejectable(settings),
        settings.decode_context_parallel_size,
        settings.enable_prefix_caching,
    )
    return _CACHE.get((model, rules), key, lambda: _checked(_layout(model, settings, rules), rules))


def _checked(layout: CacheLayout, rules: CacheRules) -> CacheLayout:
    return replace(layout, checks_whole_model=True) if rules.checks_whole_model else layout


def _layout(model: ModelSpec, settings: EngineSettings, rules: CacheRules) -> CacheLayout:
    latent = any(group.kind is AttentionKind.LATENT for group in model.layer_groups)
    block = settings.block_size or (rules.latent_block_size if latent else rules.block_size)
    stages = stage_layers(model.num_layers, settings.pipeline_parallel_size, rules.rest_on_last_stage)
    if is_compressed(model, rules.packing):
        return _compressed(model, settings, rules, stages)
    groups = page_groups(model, settings, block, stages, rules)
    if rules.own_pools:
        groups, per_stage = own_pools(groups, rules, len(stages))
        return CacheLayout(tuple(groups), per_stage, rules.printed, rules.batches_in_flight, apart=True)
    if is_packed(groups):
        dealt, per_stage = packed(groups, rules, len(stages))
        return CacheLayout(dealt, per_stage, rules.printed, rules.batches_in_flight)
    if shares_one_pool(groups):
        merged, per_stage = joined(groups, len(stages))
        return CacheLayout(merged, per_stage, rules.printed, rules.batches_in_flight)
    if is_uniform(groups):
        per_stage = tuple(sum(g.layers[s] * g.page_bytes for g in groups) for s in range(len(stages)))
        return CacheLayout(one_table(groups), per_stage, rules.printed, rules.batches_in_flight)
    dealt, per_stage = deal(unified(groups, rules), rules.padding_ratio, len(stages))
    return CacheLayout(dealt, per_stage, rules.printed, rules.batches_in_flight)


def _compressed(
    model: ModelSpec, settings: EngineSettings, rules: CacheRules, stages: tuple[range, ...]
) -> CacheLayout:
    row = next(size for name, size in rules.packed if name == model.architecture)
    groups, blocks = compressed_pages(model, settings, stages, rules.packing, row)
    checked = compressed_pages(model, settings, stages, Packing.TUPLES, row)[1]
    return CacheLayout(
        groups, blocks, rules.printed, rules.batches_in_flight,
        checked_block_bytes=checked if rules.packing is Packing.SLOTS else (),
    )  # fmt: skip


def pool_interval(layout: CacheLayout, available: tuple[Interval, ...], stage: int) -> Interval:
    """What a stage's ranks reserve, in whole blocks, when every stage has so much left."""
    low, value, high = (
        layout.blocks_in(tuple(max(0, getattr(room, side)) for room in available))
        for side in ("low", "value", "high")
    )
    size = layout.block_bytes[stage]
    return Interval(low * size, value * size, high * size)
