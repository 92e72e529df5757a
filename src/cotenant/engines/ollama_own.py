"""Compute buffers of Ollama's own engine (Go, 0.6 to 0.24), as its "compute graph" lines count them.

graph   the worst batch's, by ggml's allocator, in llama.cpp's order (model/models/*; checked against printed
        sizes of qwen3, qwen3moe and gemma3, equal to a digit); on the host without the program's inputs
pool    what kernels take beside it on CUDA and HIP                     (ollama_pool)
image   models that see: one picture of 2,048 x 2,048 through their encoder, before the text
                                                                        (reserveWorstCaseGraph)
"""

from __future__ import annotations

from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.engines.llama_cpp.buffers import compute_interval, host_interval
from cotenant.engines.llama_cpp.builds import BuildRules
from cotenant.engines.llama_cpp.placement import HOST, Placement
from cotenant.engines.llama_cpp.reserve import reservation
from cotenant.engines.llama_cpp.shape import graph_shape
from cotenant.engines.ollama_pool import Release, pool_bytes
from cotenant.units import MIB

_FUSED_VISION: Release = (
    0,
    13,
    2,
)  # encoders through fused attention ("Enable flash attention for vision encoders")
# Gemma 3's encoder: 4,096 patches of 1,152 in 16 heads, 4,304 wide inside; scores are f32.
_PATCHES, _WIDTH, _HEADS, _INNER = 4096, 1152, 16, 4304
_KINDS = (AttentionKind.RECURRENT, AttentionKind.LATENT)
_HALF = 1.9  # bytes an element from which matrices are not quantised


def own_compute(
    model: ModelSpec,
    options: LlamaCppOptions,
    release: Release,
    build: BuildRules,
    placement: Placement,
    gpu: int,
    *,
    head_bytes: int,
    weight_bytes: float,
    vendor: str,
    gfx: str | None = None,
) -> Interval:
    """One GPU's "compute graph" with its 90 % interval; `build` is `own_build`'s, `weight_bytes` those of an
    element of the layers' matrices (0: quantised)."""
    graph = compute_interval(model, options, build, placement, gpu, head_bytes, weight_bytes)
    if not graph.value:
        return graph
    graph = _with_image(_doubted(graph, model), model, options, release)
    shape, reserve = graph_shape(model), reservation(model, options, build)
    pool = pool_bytes(
        shape, [shape.layers[number] for number in placement.on(gpu)], options, release,
        tokens=reserve.tokens, cells=reserve.cells, vendor=vendor, gfx=gfx,
        quantised=weight_bytes < _HALF and not reserve.joined,  # gpt-oss quantises its experts alone
    )  # fmt: skip
    return graph + pool


def own_host(
    model: ModelSpec, options: LlamaCppOptions, release: Release, build: BuildRules, placement: Placement
) -> Interval:
    """The host's "compute graph"."""
    size = _doubted(host_interval(model, options, build, placement), model)
    return _with_image(size, model, options, release) if placement.output == HOST else size


def own_vendor(gpu: GpuSpec) -> tuple[str, str | None]:
    """How `pool_bytes` is told the card."""
    return gpu.vendor.lower(), gpu.gfx


def _doubted(size: Interval, model: ModelSpec) -> Interval:
    """Recurrent layers and MLA are written apart there (model/models/qwen3next, deepseek2): known only roughly.
    Elsewhere the order of a family's own joined or split matrices is what is open."""
    if not any(group.kind in _KINDS for group in model.layer_groups):
        return Interval(size.low * 92 // 100, size.value, size.high)
    return Interval(size.low * 7 // 10, size.value, size.high * 4)


def _with_image(size: Interval, model: ModelSpec, options: LlamaCppOptions, release: Release) -> Interval:
    if not set(model.modalities) - {"text"}:
        return size
    if "gemma3" not in "".join(filter(str.isalnum, f"{model.family}{model.architecture}".lower())):
        return Interval(size.low, size.value, size.high + 2048 * MIB)
    rows = _PATCHES * _WIDTH * 4
    fused = release >= _FUSED_VISION and bool(options.flash_attn)
    inside = 3 * rows + _PATCHES * _INNER * 4 if fused else 6 * rows + _HEADS * _PATCHES**2 * 4
    return Interval(max(size.low, inside * 9 // 10), max(size.value, inside), max(size.high, inside * 115 // 100))
