"""The KV cache and the recurrent state as llama.cpp reserves them: whole, at start, layer by layer.

cells  n_ctx is the total; unified, one stream of n_ctx cells that all slots share, else n_ctx / slots a slot
full   cells x streams x heads x width, K and V each in its own type               (llama-kv-cache.cpp)
window min(cells, n_swa x (slots if unified else 1) + n_ubatch), in steps of 256   (llama-kv-cache-iswa.cpp)
MLA    full heads, then compressed keys and values, then compressed keys alone, by build
state  f32: (kernel - 1) x channels + state, a slot, times 1 + the states kept to roll back
                                                                                   (llama-memory-recurrent.cpp)
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec
from cotenant.engines.llama_cpp.builds import BuildRules
from cotenant.engines.llama_cpp.windows import as_run
from cotenant.errors import InputError

# ggml's types that a cache may have: (bytes, elements) of a block (ggml/src/ggml.c, type_traits).
TYPES = {
    "f32": (4, 1), "f16": (2, 1), "bf16": (2, 1), "q8_0": (34, 32), "q5_1": (24, 32), "q5_0": (22, 32),
    "q4_1": (20, 32), "q4_0": (18, 32), "iq4_nl": (18, 32),
}  # fmt: skip
_WINDOWED = (AttentionKind.SLIDING, AttentionKind.CHUNKED)
_FLOAT = 4


@dataclass(frozen=True, slots=True)
class Cells:
    """How many cells the caches have: `full` and `window` a stream, in `streams` streams."""

    full: int
    window: int
    streams: int


def cells(model: ModelSpec, options: LlamaCppOptions, build: BuildRules) -> Cells:
    """Cells of resolved options."""
    model = as_run(model)
    slots = options.n_parallel or 1
    pad = build.pad_flash if options.flash_attn else build.pad_plain
    total = options.n_ctx or model.max_model_len
    unified = bool(options.kv_unified) or not build.streams
    streams = 1 if unified else slots
    if build.window_pad_256:
        total = _padded(total, pad)
    full = _padded(total // streams if build.window_pad_256 else -(-total // streams), pad)
    windows = [group.window for group in model.layer_groups if group.kind in _WINDOWED and group.window]
    window = full
    if windows and build.windows and not options.swa_full:
        wanted = max(*windows, options.window_memory) * (slots if unified else 1) + (options.n_ubatch or 1)
        window = _padded(min(full, wanted), 256) if build.window_pad_256 else min(full, _padded(wanted, pad))
    return Cells(full, window, streams)


def layer_bytes(model: ModelSpec, options: LlamaCppOptions, build: BuildRules) -> tuple[int, ...]:
    """Bytes of every layer's keys and values, by layer number."""
    model, found = as_run(model), [0] * model.num_layers
    size = cells(model, options, build)
    padded = _padded_values(model, options, build)
    for group in model.layer_groups:
        if group.kind in (AttentionKind.NONE, AttentionKind.RECURRENT, AttentionKind.CROSS):
            continue
        count = (size.window if group.kind in _WINDOWED else size.full) * size.streams
        keys, values = _widths(group, build)
        values = max(values, padded)
        each = count * (row_bytes(options.type_k, keys) + row_bytes(options.type_v, values))
        each += count * _index_bytes(model, group, options, build)
        for layer in group.layers:
            found[layer] += each
    return tuple(found)


_PADDED_SINCE = 6600  # pull 16148 (September 2025): layers whose values differ in width
_INDEX_WIDTH = 128  # keys of an indexer
_POOLED = (("qwen4", 2), ("glm5next", 3))  # keys, pooled keys, gates: parts of a row where keys are pooled


def _index_bytes(model: ModelSpec, group: LayerGroup, options: LlamaCppOptions, build: BuildRules) -> int:
    """The indexer's cache beside a layer's own: keys alone, pooled or not (llama-kv-cache-dsa.cpp,
    llama-memory-hybrid-idx.cpp), for MiniMax M3 also a head of values (llama-kv-cache-msa.cpp)."""
    if not group.index_width or not build.latent:
        return 0
    letters = "".join(filter(str.isalnum, f"{model.family}{model.architecture}".lower()))
    parts = next((parts for mark, parts in _POOLED if mark in letters), 1)
    if parts > 1 or group.kind is AttentionKind.LATENT:
        return row_bytes(options.type_k, parts * _INDEX_WIDTH)
    return row_bytes(options.type_k, group.index_width // 2) + row_bytes(options.type_v, group.value_width)


def state_bytes(model: ModelSpec, options: LlamaCppOptions) -> tuple[int, ...]:
    """Bytes of every layer's recurrent state, by layer number."""
    found = [0] * model.num_layers
    copies = (options.n_parallel or 1) * (1 + options.n_rs_seq)
    for group in model.layer_groups:
        if group.kind is AttentionKind.RECURRENT and group.state is not None:
            for layer in group.layers:
                found[layer] += copies * _FLOAT * (group.state.conv_elements + group.state.state_elements)
    return tuple(found)


def token_bytes(model: ModelSpec, options: LlamaCppOptions, build: BuildRules) -> float:
    """Bytes that one more cell of context costs, layers that forget apart."""
    model, found = as_run(model), 0.0
    for group in model.layer_groups:
        forgets = group.kind in _WINDOWED and build.windows and not options.swa_full
        if forgets or group.kind in (AttentionKind.NONE, AttentionKind.RECURRENT, AttentionKind.CROSS):
            continue
        keys, values = _widths(group, build)
        found += group.num_layers * (_row(options.type_k, keys) + _row(options.type_v, values))
        found += group.num_layers * _index_bytes(model, group, options, build)
    return found


def _padded_values(model: ModelSpec, options: LlamaCppOptions, build: BuildRules) -> int:
    """Without fused attention values lie transposed, and every layer's row is as wide as the widest."""
    if options.flash_attn or build.number < _PADDED_SINCE:
        return 0
    groups = [group for group in model.layer_groups if group.kind is AttentionKind.FULL or group.kind in _WINDOWED]
    return max((group.kv_heads * group.value_width for group in groups), default=0)


def _widths(group: LayerGroup, build: BuildRules) -> tuple[int, int]:
    """Elements of keys and of values that one cell of one layer holds."""
    if group.kind is not AttentionKind.LATENT:
        return group.kv_heads * group.key_width, group.kv_heads * group.value_width
    if not build.latent:
        return group.query_heads * _MHA_KEY, group.query_heads * _MHA_VALUE
    return group.key_width, (group.key_width - _ROTARY if build.latent_values else 0)


# DeepSeek's widths: a head's key is 128 + 64 rotary, its value 128; the compressed row ends in the rotary part.
_MHA_KEY, _MHA_VALUE, _ROTARY = 192, 128, 64


def row_bytes(type_name: str, width: int) -> int:
    """Bytes of a row of `width` elements. Raises InputError for a type that no cache has, or a width that its
    blocks do not divide."""
    if type_name not in TYPES:
        raise InputError(f"no cache has the type {type_name[:40]!r}", hint=f"one of {', '.join(TYPES)}")
    size, block = TYPES[type_name]
    if width % block:
        raise InputError(f"a cache row of {width} elements does not divide into blocks of {block} ({type_name})")
    return width // block * size


def _row(type_name: str, width: int) -> float:
    size, block = TYPES[type_name]
    return width * size / block


def _padded(count: int, step: int) -> int:
    return -(-count // step) * step
