"""What one layer keeps for a token or a sequence, and the pages that hold it, before they are grouped.

With decode context parallel a page holds the share of one rank: as many times more tokens of the sequence
in the same bytes (vLLM, v1/kv_cache_interface.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from cotenant.domain.engine import EngineSettings
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec
from cotenant.engines.rules import CacheRules
from cotenant.estimation.elements import element_bytes

KEEPS_ALL = (AttentionKind.FULL, AttentionKind.LATENT, AttentionKind.CROSS)
FORGETS = (AttentionKind.SLIDING, AttentionKind.CHUNKED)
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


def kv_element_bytes(model: ModelSpec, settings: EngineSettings, *, stored: bool = False) -> float:
    """Bytes of one cached element: of the model's dtype unless the cache has a type of its own; `stored`: the
    checkpoint's counts as such."""
    asked = settings.kv_cache_dtype
    if asked == "auto" and stored:
        asked = model.cache_dtype or asked
    if asked != "auto":
        return element_bytes("fp8" if asked.startswith("fp8") else asked)
    size = element_bytes(model.dtype if settings.dtype == "auto" else settings.dtype)
    return size if settings.dtype != "auto" else min(size, 2.0)


def page_group(
    model: ModelSpec,
    group: LayerGroup,
    settings: EngineSettings,
    block: int,
    stages: tuple[range, ...],
    rules: CacheRules,
) -> PageGroup | None:
    """The pages of one group of layers, not yet as large as those of others; None where nothing is kept."""
    if group.kind is AttentionKind.NONE or not group.layers:
        return None
    layers = _counts(group, stages)
    ranks = settings.tensor_parallel_size
    if group.kind is AttentionKind.RECURRENT:
        state = _state_bytes(group, ranks)
        if not rules.hybrid:
            return None
        blocks = rules.state_blocks + rejectable(settings)
        return PageGroup(group.kind, layers, block, state, 0.0, need_bytes=state, state_blocks=blocks)
    own = next((size for name, size in rules.packed if name == model.architecture), None)
    token = _token_bytes(group, ranks, _element(model, settings, rules) if own is None else own, rules)
    forgets = _forgets(model, rules) and (rules.own_windows is None or model.architecture in rules.own_windows)
    kind = group.kind if forgets or group.kind in KEEPS_ALL else AttentionKind.FULL
    window = group.window if kind in FORGETS else None
    shared = settings.decode_context_parallel_size if kind in KEEPS_ALL else 1
    return PageGroup(kind, layers, block * shared, round(block * token), token / shared, window)


def _element(model: ModelSpec, settings: EngineSettings, rules: CacheRules) -> float:
    return kv_element_bytes(model, settings, stored=rules.stored_dtype)


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
