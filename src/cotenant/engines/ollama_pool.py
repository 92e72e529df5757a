"""What Ollama's own engine counts into a "compute graph" on CUDA and HIP beside the graph: ggml-cuda's pool.

Its patched scheduler runs the reserved graph once with kernels left out and adds what the backend's pool then
holds (llama/patches, "No-alloc mode": ggml_backend_cuda_graph_reserve, pool_get_alloc_size). Each product takes
from it and gives back; routed experts are left out, since they cannot be captured. By kernel (ggml-cuda.cu,
mmq.cu, fattn-common.cuh):

    quantised, MMQ      rows of activations in q8_1, and on NVIDIA partial tiles of every multiprocessor
    quantised, cuBLAS   the matrix in f16, activations in f16, the result in f16
    half precision      activations and the result in half precision
    fused attention     NVIDIA: partial results of the blocks that run at once; a quantised cache in f16

NVIDIA's pool grows by 2 MiB at its end; HIP's keeps separate buffers, each a twentieth larger than asked, and
takes the smallest that is large enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cotenant.domain.interval import Interval
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.engines.llama_cpp.shape import GraphShape, LayerShape
from cotenant.units import MIB

Release = tuple[int, ...]

_WMMA_MMQ: Release = (0, 13, 2)  # ggml b7108: quantised kernels for RDNA3 and 4 (amd_wmma_available)
_GROW = 2 * MIB
_TILE = 128 * 128 * 4  # f32 of one multiprocessor's partial tile
_Q8_1_TAIL = 128 * 144  # columns beyond the last tile
_COLUMNS = 64  # queries x heads that a block of fused attention works on
_META = 32  # fattn-common.cuh asks for sizeof(float) times too many elements of 8 bytes
# Multiprocessors of a card and blocks of fused attention on each: of small cards, usual ones, the largest.
_BLOCKS = (20, 108, 340)
_CUBLAS = ("gfx11", "gfx12", "gfx9")  # RDNA3, RDNA4, CDNA: quantised products of large batches through cuBLAS


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix of `rows` x `width` times a batch."""

    rows: int
    width: int


def pool_bytes(
    shape: GraphShape,
    layers: Sequence[LayerShape],
    options: LlamaCppOptions,
    release: Release,
    *,
    tokens: int,
    cells: int,
    quantised: bool,
    vendor: str,
    gfx: str | None = None,
) -> Interval:
    """Bytes of the pool on a card of `vendor` ("nvidia", "amd"; others have none) for a batch of `tokens` over
    `cells`; `quantised` says how matrices outside the experts are stored."""
    products = [product for layer in layers[:2] for product in _products(shape, layer)]
    if vendor == "amd":
        return _hip(products, tokens, quantised=quantised, cublas=_through_cublas(gfx, release))
    return _cuda(products, layers, options, tokens, cells, quantised=quantised) if vendor == "nvidia" else _NONE


_NONE = Interval.exact(0)


def _products(shape: GraphShape, layer: LayerShape) -> Iterator[Product]:
    """Products of one layer in their order, experts left out."""
    mixer, hidden = layer.mixer, shape.hidden
    if mixer.heads:
        yield Product(mixer.queries, hidden)
        if mixer.kv_heads:
            yield Product(mixer.kv_heads * mixer.key_width, hidden)
            yield Product(mixer.kv_heads * mixer.value_width, hidden)
        yield Product(hidden, mixer.heads * (mixer.up_width or mixer.value_width))
    elif mixer.inner:
        yield Product(mixer.channels, hidden)
        yield Product(hidden, mixer.inner)
    if layer.forward.inner:
        yield Product(layer.forward.inner, hidden)
        yield Product(hidden, layer.forward.inner)


def _through_cublas(gfx: str | None, release: Release) -> bool | None:
    """Whether HIP dequantises for large batches; None where the card is not known."""
    if release >= _WMMA_MMQ:
        return bool(gfx and gfx.startswith("gfx9"))
    return None if gfx is None else gfx.startswith(_CUBLAS)


def _hip(products: Sequence[Product], tokens: int, *, quantised: bool, cublas: bool | None) -> Interval:
    half = _legacy(_half(product, tokens, matrix=False) for product in products)
    if not quantised:
        return Interval.exact(half)
    integers = _legacy((_q8_1(product, tokens),) for product in products)
    copied = _legacy(_half(product, tokens, matrix=True) for product in products)
    if cublas is None:  # most cards that it runs on are RDNA3
        return Interval(min(integers, copied), copied, max(integers, copied))
    return Interval.exact(copied if cublas else integers)


def _half(product: Product, tokens: int, *, matrix: bool) -> tuple[int, ...]:
    around = (product.width * tokens * 2, product.rows * tokens * 2)
    return (product.rows * product.width * 2, *around) if matrix else around


def _q8_1(product: Product, tokens: int) -> int:
    return -(-product.width // 512) * 512 * tokens * 36 // 32 + _Q8_1_TAIL


def _legacy(asked: Iterator[tuple[int, ...]]) -> int:
    """HIP's pool after products that ask for these sizes at once: buffers stay, the smallest that is enough is
    taken (ggml_cuda_pool_leg)."""
    kept: list[int] = []
    for sizes in asked:
        taken = []
        for size in sizes:
            fitting = [buffer for buffer in kept if buffer >= size]
            buffer = min(fitting) if fitting else -(-size * 105 // 100 // 256) * 256
            if fitting:
                kept.remove(buffer)
            taken.append(buffer)
        kept += taken
    return sum(kept)


def _cuda(
    products: Sequence[Product], layers: Sequence[LayerShape], options: LlamaCppOptions, tokens: int, cells: int,
    *, quantised: bool,
) -> Interval:  # fmt: skip
    found = [_stacked(products, layers, options, tokens, cells, blocks, quantised) for blocks in _BLOCKS]
    return Interval(*found)


def _stacked(
    products: Sequence[Product], layers: Sequence[LayerShape], options: LlamaCppOptions, tokens: int, cells: int,
    blocks: int, quantised: bool,
) -> int:  # fmt: skip
    """NVIDIA's pool: the most that one operation asks for, in steps of 2 MiB (ggml_cuda_pool_vmm)."""
    if quantised:
        asked = [_q8_1(product, tokens) + blocks * _TILE for product in products]
    else:
        asked = [sum(_half(product, tokens, matrix=False)) for product in products]
    if options.flash_attn:
        asked += [_attention(layer, options, cells, blocks) for layer in layers if layer.mixer.heads]
    return -(-max(asked, default=0) // _GROW) * _GROW


def _attention(layer: LayerShape, options: LlamaCppOptions, cells: int, blocks: int) -> int:
    mixer = layer.mixer
    partial = blocks * _COLUMNS * (4 + mixer.value_width) * _META
    if options.type_k in ("f16", "f32", "bf16"):
        return partial
    return partial + cells * mixer.kv_heads * (mixer.key_width + mixer.value_width) * 2
