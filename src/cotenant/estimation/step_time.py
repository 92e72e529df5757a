"""Seconds of a prefill, a decode step and a load, from the structure of the model and the card's data sheet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from math import log2, prod, sqrt

from cotenant.domain.engine import Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import AttentionKind, ModelSpec, ParameterGroup, Role
from cotenant.domain.quantization import KernelSupport, QuantizationFormat, Speed
from cotenant.domain.step_time import Row, StepQuestion, StepTimes, Times
from cotenant.errors import UnsupportedError
from cotenant.estimation import step_constants as constants
from cotenant.estimation.anchor import anchored
from cotenant.estimation.calibrated import profile_for
from cotenant.estimation.elements import cached_bytes, element_bytes, stored_bytes
from cotenant.estimation.paths import HOST_BANDWIDTH
from cotenant.estimation.pieces import row
from cotenant.estimation.roofline import CacheRead, Roofline
from cotenant.estimation.second_source import combined, second_source_in_force
from cotenant.estimation.step_constants import FITTED, Fitted

_IDLE = (Role.EMBEDDING, Role.VISION)  # a decode step looks up one row, and sees no image
_FLOAT4 = ("mxfp4", "nvfp4")
_FLOAT8 = ("fp8", "fp8-block")
_SIXTEEN = ("bf16", "fp16")
_MOST_COUNTED = 4096  # sequences with a row of their own: more than engines are run with
_REREAD = (AttentionKind.FULL, AttentionKind.SLIDING, AttentionKind.CHUNKED, AttentionKind.LATENT)


def roofline(
    model: ModelSpec,
    gpu: GpuSpec,
    *,
    engine: str,
    version: Version | None = None,
    format: QuantizationFormat | None = None,  # noqa: A002 - the word of the field
    tensor_parallel_size: int = 1,
    kv_cache_dtype: str = "auto",
    kernel: KernelSupport | None = None,
    fused_experts: bool | None = None,
    fitted: Fitted = FITTED,
) -> Roofline:
    """The exact roofline of one replica (formulas in `roofline.py`, constants in `step_constants.py`).

    `format` None is the model's own precision; `kernel` is what the engine multiplies it with on this card.
    `version` says how old an engine's overhead is, where that was measured (vLLM); the interval covers the rest.
    `fused_experts`: whether a mixture runs in one call, where a launch says so (None: as the engine chooses).
    `fitted` are other constants than the package's. A measurement in force anchors it; without one, a second
    source that is asked (`second_source`) is combined with it. Raises UnsupportedError where the card's peak in
    that precision is unknown.
    """
    ranks = tensor_parallel_size
    dense, expert = _weight_bytes(model, format)
    decoding, reading, windowed = _attention_widths(model)
    low, high = _interval(engine, gpu, kernel)
    fused = _is_fused(engine, gpu, format) if fused_experts is None else fused_experts
    bandwidth = gpu.memory_bandwidth
    exact = Roofline(
        weights_bytes=dense / ranks,
        expert_bytes=expert / ranks,
        num_experts=model.num_experts,
        experts_per_token=model.experts_per_token,
        flops_per_token=2 * _active_parameters(model) / ranks,
        attention_flops=2 * decoding / ranks,
        prefill_attention_flops=2 * reading / ranks,
        windowed_flops_per_token=2 * windowed / ranks,
        cache=_cache(model, ranks, kv_cache_dtype),
        state_bytes=_state_bytes(model) / ranks,
        weight_rate=bandwidth * _weight_share(model, gpu, format, fitted),
        cache_rate=bandwidth * fitted.kv_bandwidth,
        compute_rate=_compute_rate(model, gpu, format, fitted, fused=fused or engine == "tensorrt-llm"),
        attention_rate=gpu.peak_flops[_precision(gpu, None)] * fitted.compute_16,
        matmul_factor=_matmul_factor(kernel),
        overhead_s=_overhead_s(model, engine, ranks, fitted, fused=fused) * _age(engine, version, fitted),
        all_reduce_s_per_token=_all_reduce_s_per_token(model, gpu, ranks, fitted),
        sequence_s=fitted.sequence_s,
        launch_s=fitted.eager_layer_s * model.num_layers,
        first_token_s=fitted.first_token_s,
        low=low,
        high=high,
        why=f"roofline of {gpu.name} x{ranks}, {format.name if format else model.dtype}, {engine}",
        decode_factor=_pace(gpu, fitted),
        prefill_factor=_pace(gpu, fitted),
    )

    measured = None if version is None else profile_for(engine, str(version), gpu.name, model.family)
    if measured is not None:  # nobody knows better than who measured
        return anchored(exact, measured)
    asked = second_source_in_force()
    name = format.name if format is not None else ""
    other = asked and asked(StepQuestion(model, gpu.name, engine, name, ranks, kv_cache_dtype))
    return combined(exact, other, gpu.cuda_bytes.value) if other else exact


def step_times(
    model: ModelSpec,
    gpu: GpuSpec,
    *,
    engine: str,
    version: Version | None = None,
    format: QuantizationFormat | None = None,  # noqa: A002
    tensor_parallel_size: int = 1,
    kv_cache_dtype: str = "auto",
    kernel: KernelSupport | None = None,
    most_sequences: int = 32,
    longest_tokens: int = 8192,
    prompt_tokens: int = 8192,
    held_tokens: int | None = None,
) -> StepTimes:
    """Straight lines through the roofline, wherever a replica of these limits may come: see `linear`.

    At most `most_sequences` at once, each of up to `longest_tokens`, all of them of up to `held_tokens` together
    (None: as many as that makes), steps that read up to `prompt_tokens`.
    """
    exact = roofline(
        model, gpu, engine=engine, version=version, format=format, tensor_parallel_size=tensor_parallel_size,
        kv_cache_dtype=kv_cache_dtype, kernel=kernel,
    )  # fmt: skip
    return linear(exact, (1, most_sequences), (1, max(2, longest_tokens)), (1, max(2, prompt_tokens)), held_tokens)


@lru_cache(maxsize=64)
def linear(
    exact: Roofline, batch_range: tuple[int, int], context_range: tuple[int, int], prefill_range: tuple[int, int],
    held_tokens: int | None = None,
) -> StepTimes:  # fmt: skip
    """Lines that err by 0.5 % at most within a (batch, context a sequence) range and a range of prefills.

    Each number of sequences has a row of its own, since those of a mixture each reach other experts: there a step
    depends on the total context alone. It bends where reading turns to multiplying, and where windows are full; a
    prefill bends where launches, weights and products take turns to be the longest. So few lines follow each
    other as keep the bound (`pieces.row`); their ends lie on the roofline. No row goes beyond `held_tokens` in all
    (None: no such limit). Sequences beyond 4,096 have the last row.
    """
    (few, many), (short, long), (start, end) = batch_range, context_range, prefill_range
    if not (0 < few <= many and 0 <= short < long and 0 < start < end):
        raise ValueError(f"ranges must widen: {batch_range}, {context_range}, {prefill_range}")
    beside = (exact.all_reduce_s_per_token + exact.sequence_s) * exact.decode_factor
    doublings = [1 << power for power in range(end.bit_length())]  # the experts' share bends the other way
    windows = sorted({layer.window for layer in exact.cache if layer.window is not None})
    rows: list[Row] = []
    ends: Sequence[float] = ()
    for batch in range(1, min(many, _MOST_COUNTED) + 1):
        first, last = batch * short, batch * long if held_tokens is None else min(batch * long, held_tokens)
        bends, like = [batch * window for window in windows], [batch * each for each in ends]
        found = row(partial(exact.decode_step_s, batch), first, max(first + 1, last), bends, like)
        ends = [line.until / batch for line in found[:-1]]
        rows.append(tuple(line._replace(base_s=line.base_s - beside * batch) for line in found))
    return StepTimes(
        decode=tuple(rows),
        per_sequence_s=beside,
        prefill=row(lambda tokens: exact.prefill_s(tokens, 0.0), start, end, doublings),
        per_square_s=exact.prefill_attention_flops / 2 / exact.attention_rate * exact.prefill_factor,
        first_token_s=exact.first_token_s,
        low=exact.low,
        high=exact.high,
        batch_range=batch_range,
        context_range=context_range,
        prefill_range=prefill_range,
        why=exact.why,
    )


def decode_step_s(times: Times, batch: float, mean_context: float) -> tuple[float, float, float]:
    """One decode step of `batch` sequences of `mean_context` tokens: (low, value, high) seconds."""
    value = times.decode_step_s(batch, batch * mean_context)
    return value * times.low, value, value * times.high


def _working(model: ModelSpec) -> Iterator[ParameterGroup]:
    """Tensors that a decode step multiplies with: no tables, towers or draft layers, but a tied head as itself."""
    headless = not any(group.role is Role.HEAD for group in model.parameters)
    for group in model.parameters:
        if not group.draft and (group.role not in _IDLE or (headless and group.role is Role.EMBEDDING)):
            yield group


def _served_dtype(model: ModelSpec, format: QuantizationFormat | None) -> str:  # noqa: A002
    """Engines serve a checkpoint that is stored in 32 bits in 16 (dtype auto), unless it is asked for as FP32."""
    wide = model.dtype in ("fp32", "float32") and (format is None or format.name != "fp32")
    return "bf16" if wide else model.dtype


def _weight_bytes(model: ModelSpec, format: QuantizationFormat | None) -> tuple[float, float]:  # noqa: A002
    """Bytes that a step may read: (of dense tensors, of all routed experts), over all ranks."""
    dense = expert = 0.0
    dtype = _served_dtype(model, format)
    for group in _working(model):
        storage = format.storage.get(group.role) if format is not None else None
        size = group.count * stored_bytes(group.shape, storage, group.dtype or dtype)
        if group.role is Role.EXPERT:
            expert += size
        else:
            dense += size
    return dense, expert


def _active_parameters(model: ModelSpec) -> float:
    """Matrix elements that one token is multiplied with; of the routed experts its own k of E."""
    share = model.experts_per_token / model.num_experts if model.num_experts else 1.0
    return sum(
        group.count * prod(group.shape) * (share if group.role is Role.EXPERT else 1.0)
        for group in _working(model)
        if len(group.shape) > 1
    )


def _attention_widths(model: ModelSpec) -> tuple[int, int, int]:
    """Elements multiplied per pair of tokens: (decoding, reading a prompt), and per token in windows.

    Each query head multiplies a key and a value. Decoding MLA works on the latent row itself: both products run
    over about its width.
    """
    decoding = reading = windowed = 0
    for group in model.layer_groups:
        if group.kind not in _REREAD:
            continue
        heads = group.num_layers * group.query_heads
        width = group.key_width + (group.value_width or group.key_width)
        if group.window:
            windowed += heads * width * group.window
            continue
        decoding += heads * width
        reading += heads * (constants.MLA_PREFILL_WIDTH if group.kind is AttentionKind.LATENT else width)
    return decoding, reading, windowed


def _cache(model: ModelSpec, ranks: int, kv_cache_dtype: str) -> tuple[CacheRead, ...]:
    """What one rank reads of the past: heads split over ranks, at least one each; MLA is whole on every rank."""
    plain = model.dtype if element_bytes(model.dtype) <= 2.0 else "bf16"
    dtype = plain if kv_cache_dtype == "auto" else kv_cache_dtype
    return tuple(
        CacheRead(
            group.num_layers
            * max(1, group.kv_heads // ranks)
            * cached_bytes(dtype, group.key_width, group.value_width),
            group.window,
        )
        for group in model.layer_groups
        if group.kind in _REREAD
    )


def _state_bytes(model: ModelSpec) -> float:
    total = 0.0
    for group in model.layer_groups:
        if group.state is not None:
            conv = group.state.conv_elements * element_bytes(model.dtype)
            state = group.state.state_elements * element_bytes(group.state.state_dtype or model.dtype)
            total += group.num_layers * (conv + state)
    return total


def _precision(gpu: GpuSpec, format: QuantizationFormat | None) -> str:  # noqa: A002
    """The precision that matrices are multiplied in.

    The format's activation precision where the card has it natively; otherwise the weights are widened on the
    way (weight-only kernels, FP8 on Ampere) and the 16-bit peak holds.
    """
    wanted = format.activation if format is not None else "bf16"
    for precision in (wanted, "bf16", "fp16"):
        if gpu.has_native(precision):
            return precision
    raise UnsupportedError(
        f"no 16-bit peak is known for {gpu.name}", hint="add its bf16 or fp16 FLOP/s to your catalogue of cards"
    )


def _compute_rate(
    model: ModelSpec,
    gpu: GpuSpec,
    format: QuantizationFormat | None,  # noqa: A002
    fitted: Fitted,
    *,
    fused: bool,
) -> float:
    """FLOP/s that matrix products reach: a share of the peak of the precision at work."""
    precision = _precision(gpu, format)
    share = fitted.compute_16 if precision in _SIXTEEN else fitted.compute_8
    if model.num_experts:
        share *= fitted.fused_compute_moe if fused else fitted.compute_moe
    peak = gpu.peak_flops[precision]
    if _is_widened(gpu, format) and _is_data_centre_blackwell(gpu):
        peak = min(peak, constants.MMA_SYNC_FLOPS)
    return peak * share


def _weight_share(model: ModelSpec, gpu: GpuSpec, format: QuantizationFormat | None, fitted: Fitted) -> float:  # noqa: A002
    """Share of the bandwidth that weights are read at."""
    if not model.num_experts:
        return fitted.dense_bandwidth
    return fitted.moe_bandwidth * (fitted.weight_only_moe if _is_widened(gpu, format) else 1.0)


def _is_widened(gpu: GpuSpec, format: QuantizationFormat | None) -> bool:  # noqa: A002
    """Whether experts stand in fewer bits than they are multiplied in; cards with FP4 units take MXFP4 as is."""
    stored = format.storage.get(Role.EXPERT) if format is not None else None
    if format is None or stored is None or stored.bits >= 16 or _precision(gpu, format) not in _SIXTEEN:
        return False
    return not (format.name in _FLOAT4 and gpu.has_native("fp4"))


def _matmul_factor(kernel: KernelSupport | None) -> float:
    """How much longer matrix products take than the roofline: 1 unless the kernel is known to be slow."""
    if kernel is None or kernel.speed is not Speed.SLOW:
        return 1.0
    return constants.SLOW_KERNELS.get(kernel.kernel, constants.SLOW_KERNEL_ELSEWHERE)


def _overhead_s(model: ModelSpec, engine: str, ranks: int, fitted: Fitted, *, fused: bool = False) -> float:
    """Launches by the layer; routing by the layer that routes; all-reduces.

    An all-reduce of a decode step is a few hundred KB: ranks write to each other and wait, so it grows more slowly
    than the logarithm of their number. `fused`: routing, permuting and both products are one call.
    """
    layer = {"tensorrt-llm": fitted.tensorrt_llm_layer_s, "sglang": fitted.sglang_layer_s}.get(
        engine, fitted.vllm_layer_s
    )
    reduce_s = fitted.fused_all_reduce_s if engine == "tensorrt-llm" else fitted.all_reduce_s
    count = constants.ALL_REDUCES_A_LAYER * model.num_layers + _wide_norms(model)
    reduces = count * reduce_s * sqrt(log2(ranks))
    routing = fitted.fused_moe_layer_s if fused else fitted.moe_layer_s
    if engine == "tensorrt-llm":  # its kernel routes and multiplies in one
        routing = 0.0
    return model.num_layers * layer + reduces + _routing_layers(model) * routing


def _pace(gpu: GpuSpec, fitted: Fitted) -> float:
    return fitted.cdna_pace if gpu.architecture.startswith("CDNA") else 1.0


def _wide_norms(model: ModelSpec) -> int:
    """Layers whose queries and keys are normed over all heads together (MiniMax-M2, OLMo 2): a rank that holds
    some of the heads must ask the others for their sums of squares. Both norms go in one all-reduce (vLLM's pull
    request 31493, SGLang's 14416)."""
    heads = max((group.key_width for group in model.layer_groups), default=0)
    return sum(
        group.count for group in model.parameters if group.name == "self_attn.q_norm" and group.shape[0] > heads
    )


def _is_fused(engine: str, gpu: GpuSpec, format: QuantizationFormat | None) -> bool:  # noqa: A002
    """Whether a mixture runs in one call: routing, both products and the sum.

    Such kernels exist for 4-bit floats on cards that multiply them, and for 8-bit ones on data centre Blackwell,
    where vLLM takes them before all others (fused_moe/oracle/fp8.py; on Hopper it takes Triton's).
    """
    if format is None or not gpu.has_native("fp4"):
        return False
    if format.name in _FLOAT4:
        return True
    return engine == "vllm" and _is_data_centre_blackwell(gpu) and format.name in _FLOAT8


def _is_data_centre_blackwell(gpu: GpuSpec) -> bool:
    return gpu.compute_capability is not None and gpu.compute_capability[0] == 10


def _age(engine: str, version: Version | None, fitted: Fitted) -> float:
    """How much more overhead an older release has; known of vLLM alone, for so many releases back."""
    if engine != "vllm" or version is None or version.parts[0] > 0 or len(version.parts) < 2:
        return 1.0
    back = constants.VLLM_RELEASE - version.parts[1]
    return float(fitted.vllm_release ** min(max(back, 0), constants.MOST_RELEASES_BACK))


def _routing_layers(model: ModelSpec) -> int:
    layers = {layer for group in model.parameters if group.role is Role.EXPERT for layer in group.layers}
    return len(layers) or (model.num_layers if model.num_experts else 0)


def _all_reduce_s_per_token(model: ModelSpec, gpu: GpuSpec, ranks: int, fitted: Fitted) -> float:
    """Link time of one token's activations: a ring moves 2 (t-1)/t of the bytes each way, in 16 bits."""
    if ranks == 1:
        return 0.0
    link = gpu.link_bandwidth / 2 if gpu.link_bandwidth else gpu.host_bandwidth or HOST_BANDWIDTH
    moved = constants.ALL_REDUCES_A_LAYER * model.num_layers * model.hidden_size * 2 * 2 * (ranks - 1) / ranks
    return moved / (link * fitted.link)


def _interval(engine: str, gpu: GpuSpec, kernel: KernelSupport | None) -> tuple[float, float]:
    """The 90 % interval as factors, wider by each thing at work that was never measured."""
    low, high = constants.INTERVAL
    unmeasured = (
        (engine not in constants.MEASURED_ENGINES)
        + (not gpu.architecture.startswith(constants.MEASURED_ARCHITECTURES))
        + (kernel is not None and kernel.speed is not Speed.FAST)
    )
    return low / constants.UNMEASURED**unmeasured, high * constants.UNMEASURED**unmeasured
