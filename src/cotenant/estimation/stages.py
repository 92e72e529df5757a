"""Which layers a pipeline stage holds, and one rank's share of a tensor."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod

from cotenant.domain.model import ParameterGroup, Split, Stage

VOCAB_PADDING = 64


@lru_cache(maxsize=1024)
def stage_layers(num_layers: int, stages: int, rest_last: bool = False) -> tuple[range, ...]:
    """Layers of each stage. What does not divide goes to the stages before the last, from the back, since the
    last one holds the head already; or all of it to the last (vLLM, distributed/utils.py, get_pp_indices)."""
    sizes = [num_layers // stages] * stages
    rest = num_layers % stages
    if rest_last:
        sizes[-1] += rest
        rest = 0
    for position in range(2, rest + 2):
        sizes[-position % stages] += 1
    ends = [sum(sizes[: i + 1]) for i in range(stages)]
    return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))


def copies_in_stage(group: ParameterGroup, layers: range, stage: int, stages: int) -> int:
    """How many tensors of the group this stage holds. A tied head is a tensor of its own only where the
    embedding lives on another stage; draft layers are loaded for speculative decoding only; tables that are kept
    in host memory are on none."""
    if group.draft or group.host or (group.tied and stages == 1):
        return 0
    if group.layers:
        if layers.stop - layers.start >= len(group.layers) and stages == 1:
            return group.copies * len(group.layers)
        return group.copies * sum(layer in layers for layer in group.layers)
    here = {Stage.FIRST: stage == 0, Stage.LAST: stage == stages - 1, Stage.EVERY: True}[group.stage]
    return group.copies if here else 0


def rank_share(group: ParameterGroup, ranks: int) -> float:
    """The share (0..1, or above where rows are padded or heads replicated) of one tensor that a rank holds."""
    if group.split is Split.NONE:
        return 1.0
    if group.split is Split.EVEN:
        return 1 / ranks
    if group.split is Split.KV:
        heads = group.kv_heads or 1
        return max(1, heads // ranks) / heads
    rows = group.shape[0]
    return ceil(rows / VOCAB_PADDING) * VOCAB_PADDING / ranks / rows


def elements(group: ParameterGroup) -> int:
    """Elements of one tensor of the group."""
    return prod(group.shape)
