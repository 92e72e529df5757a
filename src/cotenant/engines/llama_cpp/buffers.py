"""From a model's tensors and resolved options to every buffer that llama.cpp allocates, by device.

weights  by layer (placement.py); the embedding with the host, a tied output layer on a GPU once more
cache    by layer; --no-kv-offload keeps it with the host; recurrent states likewise
compute  graph by graph (reserve.py); the output buffer lies in host memory
runtime  what no buffer line shows: the device's context and the backend's libraries
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import HostMemory, Term
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, ModelSpec, Role
from cotenant.engines.llama_cpp.builds import BuildRules
from cotenant.engines.llama_cpp.cache import cells, layer_bytes, state_bytes, token_bytes
from cotenant.engines.llama_cpp.placement import HOST, Placement, place
from cotenant.engines.llama_cpp.process import process_bytes
from cotenant.engines.llama_cpp.reserve import copies, gpu_compute, host_compute, output_bytes, reservation
from cotenant.engines.llama_cpp.shape import Recurrence, graph_shape
from cotenant.engines.rules import Allocation, DeviceBuffers, TensorBytes
from cotenant.units import MIB

# CUDA context, cuBLAS and kernel images: "unaccounted" in the memory breakdown that llama.cpp prints at exit,
# 250 to 750 MiB a device over cards and driver versions.
_UNACCOUNTED = Interval(250 * MIB, 450 * MIB, 750 * MIB)
# A projector's graph for one image: a log says 248 MiB; where attention is not fused, 16 heads x 4,096 positions
# of Gemma 3's 896 x 896 pixels take 1,024 MiB for their scores alone (tools/mtmd/clip.cpp, warmup).
_PROJECTOR = Interval(60 * MIB, 300 * MIB, 1200 * MIB)
_MATRICES = (Role.EMBEDDING, Role.HEAD)


def allocation(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    tensors: Sequence[TensorBytes],
    *,
    build: BuildRules,
) -> Allocation:
    """Every buffer of one server, from resolved settings."""
    options, build = settings.llama_cpp or LlamaCppOptions(), _on_card(build, gpu)
    placement, gpus = placed(model, settings, build), _gpus(settings)
    weights = _weights(model, options, placement, tensors)
    caches = _caches(model, options, build, placement)
    head = round(_head_bytes(tensors))
    copied = (element_bytes(model, tensors), expert_bytes(model, tensors))
    devices = tuple(
        DeviceBuffers(
            weights=Term(_about(weights.get(n, 0), model), _weights_why(placement, n, model)),
            kv_cache=Term(Interval.exact(caches.get(n, 0)), _cache_why(model, options, build, placement, n)),
            compute=_compute(model, options, build, placement, n, head, copied),
            runtime=_runtime(options, n),
        )
        for n in range(gpus)
    )
    host = HostMemory(
        weights=weights.get(HOST, 0),
        kv_cache=caches.get(HOST, 0),
        compute=host_compute(model, options, build, placement) + output_bytes(model, options),
        runtime=process_bytes(model, options),
        computed=host_interval(model, options, build, placement).shifted(output_bytes(model, options)),
    )
    slots = options.n_parallel or 1
    each = token_bytes(model, options, build)
    size = cells(model, options, build)
    total = size.full * size.streams
    fixed = (sum(layer_bytes(model, options, build)) - each * total) / slots + sum(
        state_bytes(model, options)
    ) / slots
    longest = total if options.kv_unified else size.full
    return Allocation(
        devices, host, round(each), round(fixed), round(each * longest + fixed), total,
        _notes(model, options, build, placement),
    )  # fmt: skip


def placed(model: ModelSpec, settings: EngineSettings, build: BuildRules) -> Placement:
    """Where the layers of resolved settings lie."""
    options = settings.llama_cpp or LlamaCppOptions()
    return place(
        model.num_layers, options.n_gpu_layers or 0, _gpus(settings), options.tensor_split,
        output_first=build.output_first,
    )  # fmt: skip


def _on_card(build: BuildRules, gpu: GpuSpec) -> BuildRules:
    """The build as it is used on the card: CUDA and HIP, or Vulkan where the vendor has none."""
    vendor = gpu.vendor.lower()
    return replace(build, cuda=vendor in ("nvidia", "amd"), vulkan=vendor == "intel")


def _gpus(settings: EngineSettings) -> int:
    return settings.pipeline_parallel_size * settings.tensor_parallel_size  # layers are split either way


def _weights(
    model: ModelSpec, options: LlamaCppOptions, placement: Placement, tensors: Sequence[TensorBytes]
) -> dict[int, int]:
    found: dict[int, float] = {}
    embedding = sum(part.bytes for part in tensors if part.role is Role.EMBEDDING and not part.tied)
    for part in tensors:
        if part.role is Role.VISION:  # in a file of its own, the projector
            continue
        if part.layers:
            for layer in part.layers:
                stays = part.role is Role.EXPERT and layer < options.n_cpu_moe
                where = HOST if stays else placement.layers[layer]
                found[where] = found.get(where, 0.0) + part.bytes
        elif part.role is Role.EMBEDDING:
            found[HOST] = found.get(HOST, 0.0) + part.bytes
        elif part.tied and part.role is Role.HEAD:
            if placement.output != HOST:  # a second copy; on the host it is the embedding itself
                found[placement.output] = found.get(placement.output, 0.0) + embedding
        else:
            found[placement.output] = found.get(placement.output, 0.0) + part.bytes
    if options.mmproj_bytes or options.draft_bytes:
        first = 0 if placement.output != HOST or any(layer != HOST for layer in placement.layers) else HOST
        found[first] = found.get(first, 0.0) + options.mmproj_bytes + options.draft_bytes
    return {device: round(size) for device, size in found.items()}


def _head_bytes(tensors: Sequence[TensorBytes]) -> float:
    own = sum(part.bytes for part in tensors if part.role is Role.HEAD and not part.tied)
    return own or sum(part.bytes for part in tensors if part.role is Role.EMBEDDING)


def _caches(model: ModelSpec, options: LlamaCppOptions, build: BuildRules, placement: Placement) -> dict[int, int]:
    found: dict[int, int] = {}
    per_layer = zip(layer_bytes(model, options, build), state_bytes(model, options), strict=True)
    for layer, (cache, state) in enumerate(per_layer):
        where = placement.layers[layer] if options.kv_offload else HOST
        found[where] = found.get(where, 0) + cache + state
    return found


def element_bytes(model: ModelSpec, tensors: Sequence[TensorBytes]) -> float:
    """Bytes of an element of the layers' tensors on average."""
    elements = sum(part.elements for part in model.parameters if part.layers and not part.draft)
    return sum(part.bytes * len(part.layers) for part in tensors) / elements if elements else 0.0


def expert_bytes(model: ModelSpec, tensors: Sequence[TensorBytes]) -> float:
    """Bytes of an element of the experts' largest tensor: a mix may give those that lead back more."""
    parts = [part for part in model.parameters if not part.draft]
    return max(
        (
            sized.bytes * len(part.layers) / part.elements
            for part, sized in zip(parts, tensors, strict=False)
            if part.role is Role.EXPERT and part.elements and not part.name.endswith(("bias", "scale"))
        ),
        default=0.0,
    )


def _compute(
    model: ModelSpec, options: LlamaCppOptions, build: BuildRules, placement: Placement, gpu: int, head: int,
    each: tuple[float, float],
) -> Term:  # fmt: skip
    size = compute_interval(model, options, build, placement, gpu, head, *each)
    reserve = reservation(model, options, build)
    why = f"graph of {reserve.tokens:,} tokens over {reserve.cells:,} cells, {reserve.outputs:,} rows of logits"
    if (times := copies(placement, options, build)) > 1:
        why += f", inputs {times} times"
    return Term(size, why)


def compute_interval(
    model: ModelSpec, options: LlamaCppOptions, build: BuildRules, placement: Placement, gpu: int, head: int,
    each: float = 0.0, experts: float = 0.0,
) -> Interval:  # fmt: skip
    """One GPU's compute buffer with its 90 % interval. Graphs are replayed exactly; what is open is how Metal
    reorders them and what fused operations keep alive (a few buffers of one row a token more), and for layers left
    with the host, experts likewise where no header tells their types, recurrent layers before their operation was
    fused and MLA with an indexer, what is copied (`each` bytes an element, `experts` of theirs). Recurrent layers
    that the graph here does not follow are widest."""
    size = gpu_compute(
        model, options, build, placement, gpu, head_bytes=head, weight_bytes=each, expert_bytes=experts
    )
    unseen = not gpu and options.n_cpu_moe > 0 and model.stored_bytes is None
    loose = _is_loose(model, build) or unseen or HOST in placement.layers
    return _doubted(size, loose, unknown=_is_unknown(model))


def host_interval(model: ModelSpec, options: LlamaCppOptions, build: BuildRules, placement: Placement) -> Interval:
    """The host's compute buffer with its 90 % interval."""
    split = not placement.whole and any(layer != HOST for layer in placement.layers)
    size = host_compute(model, options, build, placement)
    return _doubted(size, _is_loose(model, build) or split, unknown=_is_unknown(model))


def _is_loose(model: ModelSpec, build: BuildRules) -> bool:
    unfused = not build.fused_recurrence
    return any(
        group.index_width or (unfused and group.kind is AttentionKind.RECURRENT) for group in model.layer_groups
    )


def _is_unknown(model: ModelSpec) -> bool:
    """Whether recurrent layers work in a way that the graph here does not follow (RWKV, Lightning Attention)."""
    return any(
        layer.mixer.kind is AttentionKind.RECURRENT and layer.mixer.recurrence is Recurrence.OTHER
        for layer in graph_shape(model).layers
    )


def _doubted(size: int, loosely: bool, *, unknown: bool = False) -> Interval:
    """The interval of a size: half to four times of what is not followed (a RWKV-7 file printed 3.5 times)."""
    below, above = (50, 400) if unknown else (75, 140) if loosely else (97, 118)
    return Interval(size * below // 100, size, size * above // 100 + MIB)


def _about(size: int, model: ModelSpec) -> Interval:
    """Exact where the file's header was read; else a mix's averages, to about 2 %."""
    share = 2 if model.stored_bytes is not None else 20
    return Interval(size - size * share // 1000, size, size + size * share // 1000)


def _weights_why(placement: Placement, gpu: int, model: ModelSpec) -> str:
    layers = len(placement.on(gpu))
    output = " and the output layer" if placement.output == gpu else ""
    return f"{layers} of {model.num_layers} layers{output}"


def _cache_why(
    model: ModelSpec, options: LlamaCppOptions, build: BuildRules, placement: Placement, gpu: int
) -> str:
    if not options.kv_offload:
        return "kept in host memory"
    size = cells(model, options, build)
    types = options.type_k if options.type_k == options.type_v else f"K {options.type_k}, V {options.type_v}"
    window = f", {size.window:,} in sliding layers" if size.window != size.full else ""
    shared = "shared by" if options.kv_unified else "for each of"
    slots = f" {shared} {options.n_parallel} slots" if options.n_parallel != 1 else ""
    return f"{size.full:,} cells{slots}{window}, {types}"


def _runtime(options: LlamaCppOptions, gpu: int) -> Term:
    """What no buffer line of the model shows; the first GPU also computes the projector."""
    if gpu or not options.mmproj_bytes:
        return Term(_UNACCOUNTED, "device context, libraries")
    return Term(_UNACCOUNTED + _PROJECTOR, "device context, libraries, the projector's graph")


def _notes(model: ModelSpec, options: LlamaCppOptions, build: BuildRules, placement: Placement) -> tuple[str, ...]:
    found = list(build.notes)
    kept = len(placement.on(HOST))
    if kept:
        found.append(f"{kept} of {model.num_layers} layers are computed from host memory: slower than the GPU")
    if options.swa_full and any(group.window for group in model.layer_groups):
        found.append("sliding layers keep the whole context (full-size sliding caches)")
    if set(model.modalities) - {"text"} and not options.mmproj_bytes:
        found.append("text only: the projector (mmproj) that sees or hears is a file of its own, not counted")
    if options.draft_bytes:
        found.append(
            "the draft's weights are counted, its own cache and graph are not: --model-draft MODEL counts them"
        )
    if options.n_cpu_moe and not model.num_experts:
        found.append("this model has no experts: what says where they stay (n_cpu_moe) changes nothing")
    elif options.n_cpu_moe:
        found.append("experts in host memory: what no buffer line shows has run up to 2.4 GiB a device")
    return tuple(found)
