"""How pages of several kinds share one pool: one table, pages of one size dealt into groups, or pools apart."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, lcm

from cotenant.domain.model import AttentionKind
from cotenant.engines.rules import CacheRules
from cotenant.estimation.pages import FORGETS, KEEPS_ALL, PageGroup


def is_uniform(groups: list[PageGroup]) -> bool:
    """Whether one block table serves all layers: all keep everything, or all forget alike."""
    if not groups or all(group.kind in KEEPS_ALL for group in groups):
        return True
    first = groups[0]
    return all(group.kind is first.kind and group.window == first.window for group in groups) and (
        len(groups) == 1 or first.kind is not AttentionKind.RECURRENT
    )


def shares_one_pool(groups: list[PageGroup]) -> bool:
    """Latent rows beside a window (DeepSeek-V4): pages of every size packed into one block, none padded."""
    kinds = {group.kind for group in groups}
    return kinds == {AttentionKind.LATENT, AttentionKind.SLIDING}


def joined(groups: list[PageGroup], stages: int) -> tuple[tuple[PageGroup, ...], tuple[int, ...]]:
    """One block is the latent layers' pages of one block; a window counts in such blocks by its bytes."""
    latent = [group for group in groups if group.kind is AttentionKind.LATENT]
    per_stage = tuple(sum(g.layers[s] * g.page_bytes for g in latent) for s in range(stages))
    sized: list[PageGroup] = list(one_table(latent))
    for group in groups:
        if group.kind is AttentionKind.SLIDING:
            share = max(sum(group.layers) * group.page_bytes, 1)
            block = max(1, round(group.block_size * sum(per_stage) / share))
            sized.append(replace(group, block_size=block))
    return tuple(sized), per_stage


def own_pools(groups: list[PageGroup], rules: CacheRules, stages: int) -> tuple[list[PageGroup], tuple[int, ...]]:
    """Pools of their own, each cut into as many blocks: one block is a page of the layers that keep everything,
    `window_ratio` as many tokens of every window, and `state_ratio` times the bytes of both for states."""
    whole = one_table([group for group in groups if group.kind in KEEPS_ALL])
    windows = [group for group in groups if group.kind in FORGETS]
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


def one_table(groups: list[PageGroup]) -> tuple[PageGroup, ...]:
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


def unified(groups: list[PageGroup], rules: CacheRules) -> list[PageGroup]:
    """All pages as large as the largest: attention grows its blocks, a state is padded."""
    kept = [group for group in groups if group.kind is AttentionKind.RECURRENT]
    states = [group.page_bytes for group in kept]
    tokens = [group for group in groups if group.kind is not AttentionKind.RECURRENT]
    if states and tokens:
        latent = any(group.kind is AttentionKind.LATENT for group in tokens)
        widest = max(group.token_bytes for group in tokens)
        step = max(rules.state_alignment, tokens[0].block_size, 128 if latent else 0)
        step = lcm(step, *(group.scan_tokens for group in kept))
        block = max(tokens[0].block_size, step * ceil(max(states) / (step * widest)))
        tokens = [_grown(group, block) for group in tokens]
        groups = [replace(group, block_size=block) if group in kept else group for group in groups]
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


def deal(groups: list[PageGroup], ratio: float, stages: int) -> tuple[tuple[PageGroup, ...], tuple[int, ...]]:
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
