"""Compute buffers by device for resolved options: what is reserved for, and who computes which part."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.engines.llama_cpp.builds import CONVERTS, ENCODERS_APART, JOINED_VIEWS, VULKAN_SORTS, BuildRules
from cotenant.engines.llama_cpp.cache import cells, row_bytes
from cotenant.engines.llama_cpp.compute import compute_bytes, host_bytes
from cotenant.engines.llama_cpp.placement import HOST, Placement
from cotenant.engines.llama_cpp.shape import LayerShape, graph_shape
from cotenant.engines.llama_cpp.windows import as_run
from cotenant.engines.llama_cpp.worst_case import Part, Reserve

PIPELINE_COPIES = 4  # GGML_SCHED_MAX_COPIES
_OFFLOAD_ROWS = 32  # from so many rows on, an operation on host weights is computed by the GPU


def reservation(model: ModelSpec, options: LlamaCppOptions, build: BuildRules) -> Reserve:
    """The worst case that a build reserves for. Embedding servers take a row of output a token."""
    model = as_run(model)
    size = cells(model, options, build)
    slots = options.n_parallel or 1
    micro = min(options.n_ubatch or build.micro_batch, options.n_batch or 2048)
    tokens = min(size.full * size.streams, micro)
    tokens = -(-tokens // slots) * slots
    kept = max(options.n_rs_seq, options.draft_tokens)  # what is proposed is verified at once
    outputs = min(tokens, slots * (1 + kept)) if build.capped_outputs else tokens
    flash = bool(options.flash_attn)
    converts = flash and build.cuda and build.number >= CONVERTS
    recurrent = any(group.kind is AttentionKind.RECURRENT for group in model.layer_groups)
    return Reserve(
        tokens=tokens,
        outputs=tokens if model.encoder_only else outputs,
        sequences=slots,
        streams=size.streams,
        cells=size.full,
        window_cells=size.window,
        flash=flash,
        mask_bytes=2 if flash and build.half_mask else 4,
        vectors=build.vectors,
        row_stores=build.row_stores,
        fused_recurrence=build.fused_recurrence,
        glu=build.glu,
        values_first=build.values_first and not any(group.window for group in model.layer_groups),
        late_outputs=build.late_outputs and recurrent,
        rotary_first=build.latent_values,
        values_across=build.number < ENCODERS_APART,
        copies_joined=build.number < JOINED_VIEWS,
        converts_keys=converts and options.type_k != "f16",
        converts_values=converts and options.type_v != "f16",
        joined=build.own_engine and "gptoss" in "".join(filter(str.isalnum, model.family.lower())),
    )


def gpu_compute(
    model: ModelSpec,
    options: LlamaCppOptions,
    build: BuildRules,
    placement: Placement,
    gpu: int,
    *,
    head_bytes: int,
    weight_bytes: float = 0.0,
    expert_bytes: float = 0.0,
) -> int:
    """One GPU's compute buffer. Where layers, or experts of any GPU's layers, stay with the host, the first GPU
    computes large batches for them too, on copies of their weights, of `weight_bytes` an element, experts'
    `expert_bytes` (0: the same); `head_bytes` are those of an output layer that stayed there."""
    each = (weight_bytes, expert_bytes or weight_bytes)
    shape, reserve = graph_shape(model), reservation(model, options, build)
    own = placement.on(gpu)
    if gpu == 0 and build.offloads:
        own = tuple(sorted((*placement.on(HOST), *own)))
    if not own and placement.output != gpu:
        return 0
    head_moves = placement.output == HOST and gpu == 0 and reserve.outputs >= _OFFLOAD_ROWS
    part = Part(
        tuple(
            _elsewhere(shape.layers[n], n, options, reserve)
            if gpu
            else _held(shape.layers[n], n, options, placement, reserve, each)
            for n in own
        ),
        first=not own or own[0] == 0,
        last=placement.output == gpu or head_moves,
        head_copy_bytes=head_bytes if head_moves else 0,
        reordered=build.vulkan and build.number >= VULKAN_SORTS,
    )
    return compute_bytes(shape, reserve, part, copies=copies(placement, options, build))


def _held(
    layer: LayerShape, number: int, options: LlamaCppOptions, placement: Placement, reserve: Reserve,
    each: tuple[float, float],
) -> LayerShape:  # fmt: skip
    """The layer with what is copied over for it: all its matrices, its experts, or nothing."""
    weights, experts = each
    if reserve.tokens < _OFFLOAD_ROWS:
        return layer
    if placement.layers[number] == HOST:
        keys, values = _cache_sizes(layer, options, reserve)
        return replace(layer, copied=weights, copied_experts=experts, copied_keys=keys, copied_values=values)
    return replace(layer, copied_experts=experts) if number < options.n_cpu_moe else layer


def _elsewhere(layer: LayerShape, number: int, options: LlamaCppOptions, reserve: Reserve) -> LayerShape:
    """The layer on a GPU behind the first, which leaves experts on the host to the first: the scheduler gives an
    operation on host weights to the first backend that takes it (ggml/src/ggml-backend.cpp,
    ggml_backend_sched_backend_id_from_cur)."""
    if number >= options.n_cpu_moe or reserve.tokens < _OFFLOAD_ROWS:
        return layer
    return replace(layer, forward=replace(layer.forward, experts=0, used=0, expert_inner=0, apart=False))


def _cache_sizes(layer: LayerShape, options: LlamaCppOptions, reserve: Reserve) -> tuple[int, int]:
    """Bytes of a host layer's keys and values, which attention on the GPU reads whole."""
    mixer = layer.mixer
    if mixer.kind not in (AttentionKind.FULL, AttentionKind.SLIDING, AttentionKind.CHUNKED):
        return 0, 0
    cells = reserve.cells if mixer.kind is AttentionKind.FULL else reserve.window_cells
    rows = cells * reserve.streams
    keys = row_bytes(options.type_k, mixer.kv_heads * mixer.key_width)
    return rows * keys, rows * row_bytes(options.type_v, mixer.kv_heads * mixer.value_width)


def host_compute(model: ModelSpec, options: LlamaCppOptions, build: BuildRules, placement: Placement) -> int:
    """The host's compute buffer: of the whole graph without GPUs, else of what stays there."""
    shape, reserve = graph_shape(model), reservation(model, options, replace(build, cuda=False))
    stay = placement.on(HOST)
    apart = build.own_engine
    if len(stay) == len(placement.layers) or (stay and not build.offloads):
        whole = Part(
            tuple(shape.layers[n] for n in stay), True, placement.output == HOST, host=True, inputs_apart=apart
        )
        return compute_bytes(shape, reserve, whole, alignment=32)
    alone = placement.output == HOST and reserve.outputs < _OFFLOAD_ROWS
    times = copies(placement, options, build)
    return host_bytes(shape, reserve, copies=times, output_on_host=alone, inputs_apart=apart)


def output_bytes(model: ModelSpec, options: LlamaCppOptions) -> int:
    """The output buffer: a row of logits a slot, in host memory, and its ids."""
    return (options.n_parallel or 1) * model.vocab_size * 4


def copies(placement: Placement, options: LlamaCppOptions, build: BuildRules) -> int:
    """Copies of every input: several GPUs work as a pipeline when nothing stayed with the host, neither a layer
    nor experts nor the cache, and the backend has events (src/llama-context.cpp, `pipeline_parallel`)."""
    several = placement.whole and placement.pipeline and build.pipelines
    several = several and options.kv_offload and not options.n_cpu_moe
    return PIPELINE_COPIES if several and len({*placement.layers, placement.output}) > 1 else 1
