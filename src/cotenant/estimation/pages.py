"""What one layer keeps for a token or a sequence, and the pages that hold it, before they are grouped.

With decode context parallel a page holds the share of one rank: as many times more tokens of the sequence
in the same bytes (vLLM, v1/kv_cache_interface.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from cotenant.domain.engine import EngineSettings
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec
from cotenant.engines.rules import CacheRules
from cotenant.estimation.elements import cached_bytes, element_bytes, keeps_ends_plain

KEEPS_ALL = (AttentionKind.FULL, AttentionKind.LATENT, AttentionKind.CROSS)
FORGETS = (AttentionKind.SLIDING, AttentionKind.CHUNKED)
# Sparse MLA in fp8_ds_mla: 512 values, 4 scales in fp32 and 64 rotary elements in bf16 a token.
_SPARSE_FP8_BYTES = 656
# Sparse MLA in NVFP4: 256 B of values, 32 of scales and 64 rotary elements in fp8 (vLLM, mla_attention.py).
_SPARSE_FP4_BYTES = 352
_PLAIN_ENDS = 2  # layers at each end whose cache TurboQuant leaves alone


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Layers that share one block table. `layers` counts those of each stage; bytes are of one rank.

    `token_bytes` is what one layer needs for a token (0 for a state), `need_bytes` for a state. `every_block`: the
    state behind every block of `scan_tokens` or more is kept, not only the last.
    """

    kind: AttentionKind
    layers: tuple[int, ...]
    block_size: int
    page_bytes: int
    token_bytes: float
    window: int | None = None
    need_bytes: int = 0
    state_blocks: int = 1
    every_block: bool = False
    scan_tokens: int = 1

    def blocks(self, tokens: int, in_flight: int) -> int:
        """Blocks that one sequence of `tokens` may hold while `in_flight` tokens are being computed."""
        if self.kind is AttentionKind.RECURRENT:
            return self.state_blocks + (-(-tokens // self.block_size) - 1 if self.every_block else 0)
        if self.kind is AttentionKind.SLIDING and self.window is not None:
            return -(-min(self.window - 1 + in_flight, tokens) // self.block_size) + 1
        if self.kind is AttentionKind.CHUNKED and self.window is not None:
            return -(-min(self.window + in_flight, tokens) // self.block_size)
        return -(-tokens // self.block_size)

    def blocks_of(self, lengths: Sequence[int], in_flight: int) -> list[int]:
        """The same for many sequences."""
        if self.kind in KEEPS_ALL:
            return [-(-tokens // self.block_size) for tokens in lengths]
        return [self.blocks(tokens, in_flight) for tokens in lengths]

    def needed(self, tokens: int, stage: int) -> float:
        """Bytes that the stage's layers of this group need for one sequence, rounded to blocks."""
        if self.kind is AttentionKind.RECURRENT:
            return self.layers[stage] * self.need_bytes
        kept = tokens if self.window is None else min(tokens, self.window)
        return self.layers[stage] * -(-kept // self.block_size) * self.block_size * self.token_bytes


def cache_type(model: ModelSpec, settings: EngineSettings, *, stored: bool = False) -> str:
    """What cached elements are kept in: the model's dtype unless the cache has a type of its own; `stored`: the
    checkpoint's counts as such."""
    asked = settings.kv_cache_dtype
    if asked == "auto" and stored:
        asked = model.cache_dtype or asked
    if asked != "auto":
        return asked
    own = model.dtype if settings.dtype == "auto" else settings.dtype
    return own if settings.dtype != "auto" or element_bytes(own) <= 2.0 else "bf16"


def page_group(
    model: ModelSpec,
    group: LayerGroup,
    settings: EngineSettings,
    block: int,
    stages: tuple[range, ...],
    rules: CacheRules,
    dtype: str = "",
) -> PageGroup | None:
    """The pages of one group of layers, not yet as large as those of others; None where nothing is kept. `dtype`:
    what these layers cache in, where that is not what the others do."""
    if group.kind is AttentionKind.NONE or not group.layers:
        return None
    layers = _counts(group, stages)
    ranks = settings.tensor_parallel_size
    if group.kind is AttentionKind.RECURRENT:
        return _state_group(model, group, settings, layers, block, rules) if rules.hybrid else None
    own = next((size for name, size in rules.packed if name == model.architecture), None)
    if own is not None:
        token = _width(group, ranks) * own
    else:
        kept = dtype or cache_type(model, settings, stored=rules.stored_dtype)
        token = _sparse_bytes(model, group, kept, rules) or _token_bytes(group, ranks, kept, rules)
    forgets = _forgets(model, rules) and (rules.own_windows is None or model.architecture in rules.own_windows)
    kind = group.kind if forgets or group.kind in KEEPS_ALL else AttentionKind.FULL
    window = group.window if kind in FORGETS else None
    shared = settings.decode_context_parallel_size if kind in KEEPS_ALL else 1
    return PageGroup(kind, layers, block * shared, round(block * token), token / shared, window)


def _state_group(
    model: ModelSpec,
    group: LayerGroup,
    settings: EngineSettings,
    layers: tuple[int, ...],
    block: int,
    rules: CacheRules,
) -> PageGroup:
    """A state for a sequence, more where a draft's tokens may be taken back or where prefixes are cached."""
    size = _state_bytes(group, settings.tensor_parallel_size)
    asked = settings.enable_prefix_caching
    cached = rules.caches_states if asked is None else asked
    every = cached and model.architecture in rules.every_state
    blocks = rules.state_blocks + (rejectable(settings) if rules.draft_states else 0)
    blocks += rules.cached_states if cached and not every else 0
    scan = group.state.chunk_tokens if every and group.state is not None else 1
    return PageGroup(
        group.kind, layers, block, size, 0.0, need_bytes=size, state_blocks=blocks, every_block=every,
        scan_tokens=scan,
    )  # fmt: skip


def _forgets(model: ModelSpec, rules: CacheRules) -> bool:
    """Whether layers that forget have pages of their own: one kind that may not switches it off for all."""
    chunked = any(group.kind is AttentionKind.CHUNKED for group in model.layer_groups)
    return rules.hybrid and (rules.hybrid_chunks or not chunked)


def rejectable(settings: EngineSettings) -> int:
    """Tokens of a step that may be rejected: a state is kept for each."""
    return settings.speculation.tokens if settings.speculation else 0


def index_group(
    group: LayerGroup, settings: EngineSettings, block: int, stages: tuple[range, ...]
) -> PageGroup | None:
    """The indexer of sparse attention caches its own keys, in layers of their own."""
    if not group.index_width:
        return None
    shared, width = settings.decode_context_parallel_size, group.index_width
    return PageGroup(AttentionKind.LATENT, _counts(group, stages), block * shared, block * width, width / shared)


def page_groups(
    model: ModelSpec, settings: EngineSettings, block: int, stages: tuple[range, ...], rules: CacheRules
) -> list[PageGroup]:
    """The pages of every group of layers that keeps anything, those of an indexer last."""
    found = [
        page_group(model, part, settings, block, stages, rules, dtype)
        for group in model.layer_groups
        for part, dtype in _by_type(model, group, settings, rules)
    ]
    found += [index_group(group, settings, block, stages) for group in model.layer_groups]
    return [group for group in found if group is not None]


def _by_type(
    model: ModelSpec, group: LayerGroup, settings: EngineSettings, rules: CacheRules
) -> tuple[tuple[LayerGroup, str], ...]:
    """A group's layers apart where the first and last ones keep a plain cache."""
    asked = cache_type(model, settings, stored=rules.stored_dtype)
    stateful = any(one.kind is AttentionKind.RECURRENT for one in model.layer_groups)
    ends = {*range(_PLAIN_ENDS), *range(model.num_layers - _PLAIN_ENDS, model.num_layers)}
    plain = tuple(layer for layer in group.layers if layer in ends)
    if stateful or not plain or not keeps_ends_plain(asked):
        return ((group, ""),)
    rest = tuple(layer for layer in group.layers if layer not in ends)
    own = cache_type(model, replace(settings, kv_cache_dtype="auto"))
    return (replace(group, layers=plain), own), (replace(group, layers=rest), "")


def _counts(group: LayerGroup, stages: tuple[range, ...]) -> tuple[int, ...]:
    if len(stages) == 1:
        return (len(group.layers),)
    return tuple(sum(layer in stage for layer in group.layers) for stage in stages)


def _sparse_bytes(model: ModelSpec, group: LayerGroup, dtype: str, rules: CacheRules) -> int:
    """A row of sparse MLA with scales of its own, in the layers that reuse another's indexer too; 0: none."""
    if group.kind is not AttentionKind.LATENT or not any(one.index_width for one in model.layer_groups):
        return 0
    if dtype == "nvfp4_ds_mla":
        return _SPARSE_FP4_BYTES
    if dtype == "fp8_ds_mla":
        return _SPARSE_FP8_BYTES
    return rules.sparse_fp8_bytes if dtype.startswith("fp8") else 0


def _token_bytes(group: LayerGroup, ranks: int, dtype: str, rules: CacheRules) -> float:
    """One layer's bytes a token on one rank: heads are split, then replicated; a latent row is whole."""
    latent = group.kind is AttentionKind.LATENT
    if latent and rules.latent_heads_width:
        width = rules.latent_heads_width
        return max(1, group.query_heads // ranks) * cached_bytes(dtype, width, width)
    heads = group.kv_heads if latent else max(1, group.kv_heads // ranks)
    return heads * cached_bytes(dtype, group.key_width, group.value_width)


def _width(group: LayerGroup, ranks: int) -> int:
    heads = group.kv_heads if group.kind is AttentionKind.LATENT else max(1, group.kv_heads // ranks)
    return heads * (group.key_width + group.value_width)


def _state_bytes(group: LayerGroup, ranks: int) -> int:
    if group.state is None:
        return 0
    state = group.state
    return ceil((state.conv_elements * 2.0 + state.state_elements * element_bytes(state.state_dtype)) / ranks)
