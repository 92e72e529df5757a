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
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec
from cotenant.engines.rules import CacheRules, Printed
from cotenant.estimation.elements import element_bytes
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.stages import stage_layers

_KEEPS_ALL = (AttentionKind.FULL, AttentionKind.LATENT, AttentionKind.CROSS)
_FORGETS = (AttentionKind.SLIDING, AttentionKind.CHUNKED)
# Sparse MLA (DeepSeek-V3.2) with fp8: 512 values, 4 scales in fp32 and 64 rotary elements in bf16 a token.
_SPARSE_FP8_BYTES = 656


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Layers that share one block table. `layers` counts those of each stage; bytes are of one rank.

    `token_bytes` is what one layer needs for a token (0 for a state), `need_bytes` for a state.
    """

    kind: AttentionKind
    layers: tuple[int, ...]
    block_size: int
    page_bytes: int
    token_bytes: float
    window: int | None = None
    need_bytes: int = 0
    state_blocks: int = 1

    def blocks(self, tokens: int, in_flight: int) -> int:
        """Blocks that one sequence of `tokens` may hold while `in_flight` tokens are being computed."""
        if self.kind is AttentionKind.RECURRENT:
            return self.state_blocks
        if self.kind is AttentionKind.SLIDING and self.window is not None:
            return -(-min(self.window - 1 + in_flight, tokens) // self.block_size) + 1
        if self.kind is AttentionKind.CHUNKED and self.window is not None:
            return -(-min(self.window + in_flight, tokens) // self.block_size)
        return -(-tokens // self.block_size)

    def needed(self, tokens: int, stage: int) -> float:
        """Bytes that the stage's layers of this group need for one sequence, rounded to blocks."""
        if self.kind is AttentionKind.RECURRENT:
            return self.layers[stage] * self.need_bytes
        kept = tokens if self.window is None else min(tokens, self.window)
        return self.layers[stage] * -(-kept // self.block_size) * self.block_size * self.token_bytes


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """The pool of every stage: `block_bytes` a stage is what one block takes of one rank there.

    `batch_factor` x max_num_batched_tokens are in flight. `apart`: every group has a pool of its own, of as many
    blocks. Empty `groups`: the model caches nothing.
    """

    groups: tuple[PageGroup, ...]
    block_bytes: tuple[int, ...]
    printed: Printed
    batch_factor: int
    apart: bool = False

    def sequence_blocks(self, tokens: int, batched_tokens: int) -> int:
        """Blocks of the pool that the engine reserves for one sequence of `tokens`."""
        in_flight = self.batch_factor * batched_tokens
        each = [group.blocks(tokens, in_flight) for group in self.groups]
        return max(each, default=0) if self.apart else sum(each)

    def sequence_bytes(self, tokens: int, batched_tokens: int, stage: int = 0) -> int:
        """Bytes of one rank of a stage that the engine reserves for one sequence of `tokens`."""
        return self.sequence_blocks(tokens, batched_tokens) * self.block_bytes[stage]

    def needed_bytes(self, tokens: int, stage: int = 0) -> int:
        """Bytes of one rank of a stage that the model needs for one sequence: no padding, no batch."""
        return ceil(sum(group.needed(tokens, stage) for group in self.groups))

    def token_bytes(self, stage: int = 0) -> int:
        """Bytes of one rank that every further token of a long sequence needs."""
        kinds = [group for group in self.groups if group.kind in _KEEPS_ALL]
        if not kinds:  # only windows: what a token takes while it is inside
            kinds = [group for group in self.groups if group.kind in _FORGETS]
        return round(sum(group.layers[stage] * group.token_bytes for group in kinds))

    def fixed_bytes(self, max_model_len: int, stage: int = 0) -> int:
        """Bytes of one rank that a long sequence needs whatever its length: windows and states."""
        growing = [group for group in self.groups if group.kind in _KEEPS_ALL]
        if not growing:
            return sum(round(g.needed(1, stage)) for g in self.groups if g.kind is AttentionKind.RECURRENT)
        others = (group for group in self.groups if group.kind not in _KEEPS_ALL)
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


_CACHE: IdentityCache[CacheLayout] = IdentityCache()


def cache_layout(model: ModelSpec, settings: EngineSettings, rules: CacheRules) -> CacheLayout:
    """The layout of a model under resolved settings; kept for the next call with the same objects."""
    key = (
        settings.tensor_parallel_size,
        settings.pipeline_parallel_size,
        settings.block_size,
        settings.kv_cache_dtype,
        settings.dtype,
        _rejectable(settings),
    )
    return _CACHE.get((model, rules), key, lambda: _layout(model, settings, rules))


def _layout(model: ModelSpec, settings: EngineSettings, rules: CacheRules) -> CacheLayout:
    latent = any(group.kind is AttentionKind.LATENT for group in model.layer_groups)
    block = settings.block_size or (rules.latent_block_size if latent else rules.block_size)
    stages = stage_layers(model.num_layers, settings.pipeline_parallel_size, rules.rest_on_last_stage)
    kinds = [_page_group(model, group, settings, block, stages, rules) for group in model.layer_groups]
    groups = [group for group in kinds if group is not None]
    groups += [index for group in model.layer_groups if (index := _index_group(group, block, stages)) is not None]
    if rules.own_pools:
        groups, per_stage = _own_pools(groups, rules, len(stages))
        return CacheLayout(tuple(groups), per_stage, rules.printed, rules.batches_in_flight, apart=True)
    if _shares_one_pool(groups):
        joined, per_stage = _joined(groups, len(stages))
        return CacheLayout(joined, per_stage, rules.printed, rules.batches_in_flight)
    if _is_uniform(groups):
        per_stage = tuple(sum(g.layers[s] * g.page_bytes for g in groups) for s in range(len(stages)))
        return CacheLayout(_one_table(groups), per_stage, rules.printed, rules.batches_in_flight)
    dealt, per_stage = _deal(_unified(groups, rules), rules.padding_ratio, len(stages))
    return CacheLayout(dealt, per_stage, rules.printed, rules.batches_in_flight)


def kv_element_bytes(model: ModelSpec, settings: EngineSettings) -> float:
    """Bytes of one cached element: of the model's dtype unless the cache has a type of its own."""
    if settings.kv_cache_dtype != "auto":
        return element_bytes("fp8" if settings.kv_cache_dtype.startswith("fp8") else settings.kv_cache_dtype)
    size = element_bytes(model.dtype if settings.dtype == "auto" else settings.dtype)
    return size if settings.dtype != "auto" else min(size, 2.0)


def _page_group(
    model: ModelSpec,
    group: LayerGroup,
    settings: EngineSettings,
    block: int,
    stages: tuple[range, ...],
    rules: CacheRules,
) -> PageGroup | None:
    if group.kind is AttentionKind.NONE or not group.layers:
        return None
    layers = _counts(group, stages)
    ranks = settings.tensor_parallel_size
    if group.kind is AttentionKind.RECURRENT:
        state = _state_bytes(group, ranks)
        if not rules.hybrid:
            return None
        blocks = rules.state_blocks + _rejectable(settings)
        return PageGroup(group.kind, layers, block, state, 0.0, need_bytes=state, state_blocks=blocks)
    own = next((size for name, size in rules.packed if name == model.architecture), None)
    token = _token_bytes(group, ranks, kv_element_bytes(model, settings) if own is None else own, rules)
    forgets = _forgets(model, rules) and (rules.own_windows is None or model.architecture in rules.own_windows)
    kind = group.kind if forgets or group.kind in _KEEPS_ALL else AttentionKind.FULL
    window = group.window if kind in _FORGETS else None
    return PageGroup(kind, layers, block, round(block * token), token, window)


def _forgets(model: ModelSpec, rules: CacheRules) -> bool:
    """Whether layers that forget have pages of their own: one kind that may not switches it off for all."""
    chunked = any(group.kind is AttentionKind.CHUNKED for group in model.layer_groups)
    return rules.hybrid and (rules.hybrid_chunks or not chunked)


def _rejectable(settings: EngineSettings) -> int:
    """Tokens of a step that may be rejected: a state is kept for each."""
    return settings.speculation.tokens if settings.speculation else 0


def _index_group(group: LayerGroup, block: int, stages: tuple[range, ...]) -> PageGroup | None:
    """The indexer of sparse attention caches its own keys, in layers of their own."""
    if not group.index_width:
        return None
    return PageGroup(
        AttentionKind.LATENT, _counts(group, stages), block, block * group.index_width, float(group.index_width)
    )


def _counts(group: LayerGroup, stages: tuple[range, ...]) -> tuple[int, ...]:
    if len(stages) == 1:
        return (len(group.layers),)
    return tuple(sum(layer in stage for layer in group.layers) for stage in stages)


def _token_bytes(group: LayerGroup, ranks: int, element: float, rules: CacheRules) -> float:
    """One layer's bytes a token on one rank: heads are split, then replicated; a latent row is whole."""
    if group.kind is AttentionKind.LATENT and rules.latent_heads_width:
        return max(1, group.query_heads // ranks) * 2 * rules.latent_heads_width * element
    if group.kind is AttentionKind.LATENT:
        if group.index_width and element == 1.0:
            return _SPARSE_FP8_BYTES
        return (group.key_width + group.value_width) * group.kv_heads * element
    return max(1, group.kv_heads // ranks) * (group.key_width + group.value_width) * element


def _state_bytes(group: LayerGroup, ranks: int) -> int:
    if group.state is None:
        return 0
    state = group.state
    return ceil((state.conv_elements * 2.0 + state.state_elements * element_bytes(state.state_dtype)) / ranks)


def _is_uniform(groups: list[PageGroup]) -> bool:
    """Whether one block table serves all layers: all keep everything, or all forget alike."""
    if not groups or all(group.kind in _KEEPS_ALL for group in groups):
        return True
    first = groups[0]
    return all(group.kind is first.kind and group.window == first.window for group in groups) and (
        len(groups) == 1 or first.kind is not AttentionKind.RECURRENT
    )


def _shares_one_pool(groups: list[PageGroup]) -> bool:
    """Latent rows beside a window (DeepSeek-V4): pages of every size packed into one block, none padded."""
    kinds = {group.kind for group in groups}
    return kinds == {AttentionKind.LATENT, AttentionKind.SLIDING}


def _joined(groups: list[PageGroup], stages: int) -> tuple[tuple[PageGroup, ...], tuple[int, ...]]:
    """One block is the latent layers' pages of one block; a window counts in such blocks by its bytes."""
    latent = [group for group in groups if group.kind is AttentionKind.LATENT]
    per_stage = tuple(sum(g.layers[s] * g.page_bytes for g in latent) for s in range(stages))
    sized: list[PageGroup] = list(_one_table(latent))
    for group in groups:
        if group.kind is AttentionKind.SLIDING:
            share = max(sum(group.layers) * group.page_bytes, 1)
            block = max(1, round(group.block_size * sum(per_stage) / share))
            sized.append(replace(group, block_size=block))
    return tuple(sized), per_stage


def _own_pools(groups: list[PageGroup], rules: CacheRules, stages: int) -> tuple[list[PageGroup], tuple[int, ...]]:
    """Pools of their own, each cut into as many blocks: one block is a page of the layers that keep everything,
    `window_ratio` as many tokens of every window, and `state_ratio` times the bytes of both for states."""
    whole = _one_table([group for group in groups if group.kind in _KEEPS_ALL])
    windows = [group for group in groups if group.kind in _FORGETS]
    states = [group for group in groups if group.kind is AttentionKind.RECURRENT]
    ratio = rules.window_ratio if whole else 1.0
    tokens = [*whole, *(replace(each, block_size=max(1, round(ratio * each.block_size))) for each in windows)]
    pages = [sum(g.layers[s] * g.page_bytes * (ratio if g in windows else 1) for g in (*whole, *windows))
             for s in range(stages)]  # fmt: skip
    share = rules.state_ratio if states and tokens else 0.0
    found = tokens + [_in_blocks(group, rules, share * sum(pages), alone=not tokens) for group in states]
    if not tokens:
        pages, share = [sum(g.layers[s] * g.page_bytes for g in states) for s in range(stages)], 0.0
    return found, tuple(round(page * (1 + share)) for page in pages)


def _in_blocks(group: PageGroup, rules: CacheRules, block_bytes: float, *, alone: bool) -> PageGroup:
    """A sequence's states in blocks of the pool that they share with nothing."""
    bytes_of_one = rules.state_blocks * sum(group.layers) * group.page_bytes
    return replace(group, state_blocks=rules.state_blocks if alone else ceil(bytes_of_one / max(block_bytes, 1)))


def _one_table(groups: list[PageGroup]) -> tuple[PageGroup, ...]:
    """Groups that share one table merged into one of average width, so that its blocks count once."""
    if len(groups) < 2:
        return tuple(groups)
    first, stages = groups[0], range(len(groups[0].layers))
    layers = tuple(max(group.layers[s] for group in groups) for s in stages)
    most = max(layers) or 1
    where = layers.index(most)
    token = sum(group.layers[where] * group.token_bytes for group in groups) / most
    page = sum(group.layers[where] * group.page_bytes for group in groups) // most
    return (PageGroup(first.kind, layers, first.block_size, page, token, first.window),)


def _unified(groups: list[PageGroup], rules: CacheRules) -> list[PageGroup]:
    """All pages as large as the largest: attention grows its blocks, a state is padded."""
    states = [group.page_bytes for group in groups if group.kind is AttentionKind.RECURRENT]
    tokens = [group for group in groups if group.kind is not AttentionKind.RECURRENT]
    if states and tokens:
        latent = any(group.kind is AttentionKind.LATENT for group in tokens)
        widest = max(group.token_bytes for group in tokens)
        step = max(rules.state_alignment, tokens[0].block_size, 128 if latent else 0)
        block = max(tokens[0].block_size, step * ceil(max(states) / (step * widest)))
        tokens = [_grown(group, block) for group in tokens]
    page = max(
        group.page_bytes for group in (*tokens, *groups) if group.kind is not AttentionKind.RECURRENT or not tokens
    )
    page = max([page, *states])
    return [_padded(group, page) for group in _in_order(groups, tokens)]


def _in_order(groups: list[PageGroup], tokens: list[PageGroup]) -> list[PageGroup]:
    rest = iter(tokens)
    return [group if group.kind is AttentionKind.RECURRENT else next(rest) for group in groups]


def _grown(group: PageGroup, block: int) -> PageGroup:
    return PageGroup(
        group.kind, group.layers, block, round(block * group.token_bytes), group.token_bytes, group.window
    )


def _padded(group: PageGroup, page: int) -> PageGroup:
    block = group.block_size
    if group.kind is not AttentionKind.RECURRENT and page % group.page_bytes == 0:
        block *= page // group.page_bytes
    return replace(group, block_size=block, page_bytes=page)


def _deal(groups: list[PageGroup], ratio: float, stages: int) -> tuple[tuple[PageGroup, ...], tuple[int, ...]]:
    """Split each kind into groups of equal size, as if dealing cards; bytes of one block of every stage."""
    totals = [sum(group.layers) for group in groups]
    size = min(totals)
    if max(totals) < size * ratio:
        size = max(totals)
    dealt: list[PageGroup] = []
    for group, total in zip(groups, totals, strict=True):
        many = -(-total // size)
        for i in range(many):
            layers = tuple((count - i + many - 1) // many for count in group.layers)
            dealt.append(replace(group, layers=layers))
    widest = (max(max(group.layers[s] for group in dealt), size if stages == 1 else 1) for s in range(stages))
    return tuple(dealt), tuple(most * dealt[0].page_bytes for most in widest)


def pool_interval(layout: CacheLayout, available: tuple[Interval, ...], stage: int) -> Interval:
    """What a stage's ranks reserve, in whole blocks, when every stage has so much left."""
    low, value, high = (
        layout.blocks_in(tuple(max(0, getattr(room, side)) for room in available))
        for side in ("low", "value", "high")
    )
    size = layout.block_bytes[stage]
    return Interval(low * size, value * size, high * size)
