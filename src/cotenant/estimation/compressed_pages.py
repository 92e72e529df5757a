"""DeepSeek-V4's cache as vLLM packs it: compressed rows, a window, and what the compressors have not summed yet.

    page        = 256 tokens: 256 / ratio rows of a layer, and the keys of its indexer; 64 tokens of the window;
                  4 or 8 tokens of a compressor's running sums in fp32, whose window is 8 or 128
    block       = the pages of all layers of the compressed rows; the window's layers are dealt into as many groups
                  as fit in such blocks, and each compressor's sums are a group of their own
    sequence    = blocks of every group: the sums cost a whole block for each 4 or 8 tokens in flight, so that
                  max_num_batched_tokens decides what a short sequence takes

Sources: vLLM 0.22.0 v1/core/kv_cache_utils.py (_get_kv_cache_groups_uniform_groups, _approximate_gcd), 0.26.0
(_get_kv_cache_config_packed), 0.33.0 v1/core/kv_cache_planning.py; models/deepseek_v4/{compressor,attention}.py.
"""

from __future__ import annotations

from cotenant.domain.engine import EngineSettings
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec
from cotenant.engines.rules import Packing
from cotenant.estimation.page_groups import one_table
from cotenant.estimation.pages import PageGroup

_BLOCK, _WINDOW_BLOCK = 256, 64
_SUM_BLOCKS = {4: 4, 128: 8}  # tokens of a page of running sums, by the ratio
_OVERLAP = {4: 2, 128: 1}  # rows of ratio 4 see the tokens of two
_SUM_BYTES = 2 * 4  # a sum and a score of each element, in fp32
_ALIGNED = 576  # bytes that FlashMLA's pages are rounded up to
_INDEX_WIDTH = 128  # elements of an indexer's key, with one scale in fp32


def is_compressed(model: ModelSpec, packing: Packing) -> bool:
    """Whether the model keeps compressed rows beside a window, and the engine packs them so."""
    return packing is not Packing.APART and model.architecture == "DeepseekV4ForCausalLM"


def compressed_pages(
    model: ModelSpec, settings: EngineSettings, stages: tuple[range, ...], packing: Packing, row_bytes: float
) -> tuple[tuple[PageGroup, ...], tuple[int, ...]]:
    """(groups, bytes of one block of each stage). `row_bytes`: what one cached element of a row takes."""
    window = next(group for group in model.layer_groups if group.kind is AttentionKind.SLIDING)
    rows = [group for group in model.layer_groups if group.kind is AttentionKind.LATENT]
    block, width = settings.block_size or _BLOCK, window.key_width
    ratios = [round(width / group.key_width) for group in rows]
    counts = [_counts(group, stages) for group in rows]
    pages = [_aligned(block // ratio * width * row_bytes) for ratio in ratios]
    indexed = [bool(group.index_width) for group in rows]
    index = _aligned(block // min(ratios, default=4) * (_INDEX_WIDTH + 4))
    repeats = repeats_of([*(max(count) for count in counts), max(_counts(window, stages))], max(map(max, counts)))
    blocks = []
    for stage in range(len(stages)):
        sizes = [count[stage] * page for count, page in zip(counts, pages, strict=True)]
        keys = sum(count[stage] * index for count, has in zip(counts, indexed, strict=True) if has)
        if packing is Packing.TUPLES:
            blocks.append(repeats * (sum(pages) + (index if any(indexed) else 0)))
        elif packing is Packing.SLOTS:
            blocks.append(sum(sizes) + keys + max(0, repeats - max(c[stage] for c in counts)) * max(pages))
        else:
            blocks.append(max(sum(sizes) + keys, repeats * _aligned(_WINDOW_BLOCK * width * row_bytes)))
    groups = [
        *_row_groups(rows, counts, block, width, ratios, row_bytes),
        *_window_groups(window, stages, repeats, width * row_bytes),
    ]
    groups += [_sums(group, count, ratio, width) for group, count, ratio in zip(rows, counts, ratios, strict=True)]
    return tuple(groups), tuple(blocks)


def _row_groups(
    rows: list[LayerGroup],
    counts: list[tuple[int, ...]],
    block: int,
    width: int,
    ratios: list[int],
    row_bytes: float,
) -> tuple[PageGroup, ...]:
    """All compressed rows and the indexers' keys: one table."""
    found = [
        _page_group(AttentionKind.LATENT, count, block, width * row_bytes / ratio + group.index_width, None)
        for group, count, ratio in zip(rows, counts, ratios, strict=True)
    ]
    return one_table(found)


def _window_groups(
    window: LayerGroup, stages: tuple[range, ...], repeats: int, token_bytes: float
) -> list[PageGroup]:
    layers = _counts(window, stages)
    many = -(-max(layers) // repeats)
    parts = [tuple((count - i + many - 1) // many for count in layers) for i in range(many)]
    return [_page_group(AttentionKind.SLIDING, part, _WINDOW_BLOCK, token_bytes, window.window) for part in parts]


def _sums(group: LayerGroup, count: tuple[int, ...], ratio: int, width: int) -> PageGroup:
    """What a compressor, and the indexer's beside it, keeps of the tokens that no row holds yet."""
    overlap = _OVERLAP[ratio]
    elements = width + (_INDEX_WIDTH if group.index_width else 0)
    return _page_group(
        AttentionKind.SLIDING, count, _SUM_BLOCKS[ratio], overlap * elements * _SUM_BYTES, overlap * ratio
    )


def _page_group(
    kind: AttentionKind, layers: tuple[int, ...], block: int, token_bytes: float, window: int | None
) -> PageGroup:
    return PageGroup(kind, layers, block, round(block * token_bytes), token_bytes, window)


def _counts(group: LayerGroup, stages: tuple[range, ...]) -> tuple[int, ...]:
    return (
        tuple(sum(layer in stage for layer in group.layers) for stage in stages)
        if len(stages) > 1
        else (len(group.layers),)
    )


def _aligned(size: float) -> int:
    return -(-round(size) // _ALIGNED) * _ALIGNED


def repeats_of(counts: list[int], least: int) -> int:
    """Layers of one page size in a block: of all numbers from `least` on the one that pads the fewest layers, the
    largest of equals."""
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))
