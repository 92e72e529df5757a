"""Hybrids whose attention keeps an indexer's keys beside its own: pages of every size packed into one block.

    block     = the attention layers' pages and their indexers', of as many tokens as make an attention page
                hold a state; states are padded to such a page
    groups    = the attention layers; the keys that no group of tokens holds yet (one block a sequence); the
                states, dealt into groups that a block has room for

Source: vLLM 0.33.0 v1/core/kv_cache_planning.py (_get_packed_kv_cache_groups), for caches that want blocks
outermost (models/qwen4_exp/common/qsa_cache.py, models/glm5next/common/attention.py); platforms/interface.py,
_align_hybrid_block_size.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from cotenant.domain.model import AttentionKind
from cotenant.engines.rules import CacheRules
from cotenant.estimation.compressed_pages import repeats_of
from cotenant.estimation.pages import PageGroup

_STATE = {AttentionKind.RECURRENT}
_LATENT_STEP = 128  # tokens of which sparse MLA's blocks are multiples


def is_packed(groups: list[PageGroup]) -> bool:
    """Whether an indexer's keys and states stand beside attention that keeps everything, in latent rows or not."""
    whole = [group for group in groups if group.kind in (AttentionKind.FULL, AttentionKind.LATENT)]
    kinds = {group.kind for group in groups}
    return len(whole) == 2 and AttentionKind.LATENT in kinds and kinds - {group.kind for group in whole} == _STATE


def packed(
    groups: list[PageGroup], rules: CacheRules, stages: int
) -> tuple[tuple[PageGroup, ...], tuple[int, ...]]:
    """(groups, bytes of one block of each stage)."""
    states = [group for group in groups if group.kind is AttentionKind.RECURRENT]
    full, index = (group for group in groups if group not in states)  # an indexer's pages are the last
    step = max(rules.state_alignment, full.block_size, _LATENT_STEP if full.kind is AttentionKind.LATENT else 0)
    block = step * ceil(max(group.page_bytes for group in states) / (step * full.token_bytes))
    page, token = round(block * full.token_bytes), full.token_bytes + index.token_bytes
    whole = PageGroup(full.kind, full.layers, block, round(block * token), token)
    open_keys = PageGroup(AttentionKind.RECURRENT, full.layers, block, page, 0.0)
    attending = sum(full.layers)
    repeats = repeats_of([attending, attending, *(sum(group.layers) for group in states)], attending)
    room = max(1, attending * whole.page_bytes // page)
    dealt = [whole, open_keys]
    for group in states:
        many = max(-(-sum(group.layers) // size) for size in (repeats, room))
        dealt += _dealt(replace(group, block_size=block, page_bytes=page), many)
    per_stage = tuple(max(full.layers[s] * whole.page_bytes, page) for s in range(stages))
    return tuple(dealt), per_stage


def _dealt(group: PageGroup, many: int) -> list[PageGroup]:
    """The group's layers in `many` groups, as if dealing cards."""
    parts = (tuple((count - i + many - 1) // many for count in group.layers) for i in range(many))
    return [replace(group, layers=part) for part in parts]
