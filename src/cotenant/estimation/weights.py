"""Weights: bytes of every tensor in its format, one rank's share of them, and what loading adds for a moment.

tensor = elements x bits / 8 + scales + zeros (+ a permutation), by the format's own rules
rank   = the tensors of its stage, split as the engine's parallel layers split them,
         query-key-value and gate-up as one tensor each, as the engine allocates them
       + the rotary table of max positions x rotary width (vLLM: layers/rotary_embedding)
       + LoRA slots
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from cotenant.domain.engine import AdapterSlots
from cotenant.domain.estimate import Term
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, ModelSpec, ParameterGroup, Role
from cotenant.domain.quantization import QuantizationFormat
from cotenant.domain.storage import Storage
from cotenant.engines.held import AS_STORED, Loaded
from cotenant.engines.rules import ExpertPadding, TensorBytes
from cotenant.errors import UnsupportedError
from cotenant.estimation.adapters import adapter_bytes
from cotenant.estimation.elements import allocated_bytes, element_bytes, scales_bytes, stored_bytes
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.mixers import follows_exceptions, quantised_mixers, share_quantised
from cotenant.estimation.segments import reserved
from cotenant.estimation.stages import copies_in_stage, rank_share, stage_layers
from cotenant.units import format_count, format_gib

# One allocation of an engine for several checkpoint tensors.
_MERGED = {
    "q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj",
    "gate_proj": "gate_up_proj", "up_proj": "gate_up_proj",
}  # fmt: skip

# Quantisers load a model through classes without its prediction layers, and copy those as they were; formats
# whose makers or loaders take every linear layer do not.
_PREDICTION = "mtp."
_PREDICTING_TOO = ("fp8", "gguf-", "bnb-", "fp32", "int8-by-name")

EXPERTS_ALONE = frozenset({Role.EXPERT})
"""What copies of attention split between them in vLLM: experts, and nothing else."""

# How far the 90 % interval reaches (below, above), as shares: what a format's rules leave open. Plain dtypes
# leave nothing but buffers; kernels pad quantised matrices.
_Spread = tuple[float, float]
_PLAIN: _Spread = (0.004, 0.004)
# Models with encoders register buffers that no tensor of the checkpoint stands for: Qwen3-VL's deepstack inputs,
# Gemma's per-layer inputs, each of a whole batch.
_SEEING: _Spread = (0.004, 0.015)
_STORED: _Spread = (0.006, 0.006)
_QUANTISED: _Spread = (0.02, 0.02)
# Formats whose checkpoints often keep layers in 16 bits (ignore lists, dynamic variants): more, not less. A plain
# bitsandbytes checkpoint keeps none; Unsloth's dynamic ones ("unsloth-bnb-4bit") choose layers by their error:
# "less than 10 %" more, and 1.81 for 1.36 GB of the smallest that is published (unsloth.ai/blog/dynamic-4bit).
_LOOSE_FORMATS = frozenset({"auto-round-int4", "w4a16", "nvfp4", "mixed-fp8-int4", "mixed-nvfp4-fp8"})
_LOOSE: _Spread = (0.02, 0.18)
_DYNAMIC: _Spread = (0.01, 0.33)
_BY_NAME: _Spread = (0.05, 0.05)  # eight bits and nothing more said: zero points and mixers are worth as much
_SPREADS = {"bnb-nf4-dynamic": _DYNAMIC, "int8-by-name": _BY_NAME, **dict.fromkeys(_LOOSE_FORMATS, _LOOSE)}


@dataclass(frozen=True, slots=True)
class StageWeights:
    """One rank's weights of one stage. `largest` is its largest single tensor."""

    bytes: int
    largest: int
    spread: _Spread


_CACHE: IdentityCache[tuple[StageWeights, ...]] = IdentityCache(4096)
_TERMS: IdentityCache[tuple[Term, ...]] = IdentityCache(4096)


def weights_per_rank(
    model: ModelSpec,
    format: QuantizationFormat,  # noqa: A002 - the field's own word
    *,
    tensor_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
    dtype: str = "auto",
    adapters: AdapterSlots | None = None,
    adapters_on_vocabulary: bool = True,
    padding: ExpertPadding | None = None,
    data_parallel_size: int = 1,
    loaded: Loaded = AS_STORED,
    rest_last: bool = False,
    copies_share: frozenset[Role] = EXPERTS_ALONE,
) -> tuple[Term, ...]:
    """One term a rank, stage by stage (ranks of a stage hold alike). Expert parallel moves whole experts to a
    rank instead of a slice of each, which leaves its bytes the same. `copies_share`: what copies of attention
    split between them. Raises UnsupportedError for a format without rules."""
    key = (
        tensor_parallel_size, pipeline_parallel_size, dtype, adapters, adapters_on_vocabulary, padding,
        data_parallel_size, loaded, rest_last, copies_share,
    )  # fmt: skip
    return _TERMS.get((model, format.storage), (format.name, key), lambda: _terms(model, format, *key))


def _terms(
    model: ModelSpec,
    format: QuantizationFormat,  # noqa: A002
    tensor_parallel_size: int,
    pipeline_parallel_size: int,
    dtype: str,
    adapters: AdapterSlots | None,
    adapters_on_vocabulary: bool,
    padding: ExpertPadding | None,
    copies: int,
    loaded: Loaded,
    rest_last: bool,
    copies_share: frozenset[Role],
) -> tuple[Term, ...]:
    stages = stage_weights(
        model, format, tensor_parallel_size, pipeline_parallel_size, dtype, padding, copies, loaded, rest_last,
        copies_share,
    )  # fmt: skip
    mixed = quantised_mixers(model, format)
    smaller = stages if mixed is None else stage_weights(
        model, mixed, tensor_parallel_size, pipeline_parallel_size, dtype, padding, copies, loaded, rest_last,
        copies_share,
    )  # fmt: skip
    between = share_quantised(model, format)
    terms = []
    for number, stage in enumerate(stages):
        extra = 0
        if adapters is not None:
            extra = adapter_bytes(
                model,
                adapters,
                tensor_parallel_size,
                number,
                pipeline_parallel_size,
                adapters_on_vocabulary,
                rest_last,
            )
        size = _interval(stage, extra)
        if mixed is not None:
            size = _between(_interval(smaller[number], extra), size, between)
        term = Term(size, _why(model, format, tensor_parallel_size, stage, extra))
        terms += [term] * tensor_parallel_size
    return tuple(terms)


def stage_weights(
    model: ModelSpec,
    format: QuantizationFormat,  # noqa: A002
    ranks: int,
    stages: int,
    dtype: str,
    padding: ExpertPadding | None = None,
    copies: int = 1,
    loaded: Loaded = AS_STORED,
    rest_last: bool = False,
    copies_share: frozenset[Role] = EXPERTS_ALONE,
) -> tuple[StageWeights, ...]:
    """Bytes of one rank of each stage, without adapters; kept for the next call with the same objects."""
    key = (ranks, stages, dtype, padding, copies, loaded, rest_last, copies_share)
    return _CACHE.get((model, format.storage), (format.name, key), lambda: _stage_weights(model, format, *key))


def checkpoint_bytes(model: ModelSpec, format: QuantizationFormat, dtype: str = "auto") -> int:  # noqa: A002
    """Bytes of all tensors in that format, tied ones once, draft layers apart: what the files hold."""
    if model.stored_bytes is not None and _is_own(model, format):
        return model.stored_bytes
    return round(sum(_group_bytes(model, format, group, dtype) for group in model.parameters))


def tensor_bytes(
    model: ModelSpec,
    format: QuantizationFormat,  # noqa: A002
    dtype: str = "auto",
) -> tuple[TensorBytes, ...]:
    """Bytes of the tensors one by one, a layer's at a time, draft layers left out: for engines that place layers.
    Where the model is stored in that format they are those of its header, or add up to its stored size."""
    scale, _ = _scale(model, format, dtype)
    own_file = _is_own(model, format)
    found = []
    for group in model.parameters:
        if group.draft:
            continue
        own = group.dtype or (model.dtype if dtype == "auto" else dtype)
        size = group.copies * stored_bytes(group.shape, _storage(model, format, group), own) * scale
        if own_file and group.stored_bytes is not None:
            size = group.stored_bytes / (len(group.layers) or 1)
        found.append(TensorBytes(group.role, group.layers, size, group.tied))
    if not found and model.stored_bytes is None:
        raise UnsupportedError(f"nothing says what the weights of {model.name} take")
    return tuple(found)


def _storage(model: ModelSpec, format: QuantizationFormat, group: ParameterGroup) -> Storage | None:  # noqa: A002
    """How the format stores the group's tensors. A GGUF mix gives the embedding the output layer's type where it
    serves as one (llama.cpp, src/llama-quant.cpp)."""
    if group.own_storage is not None:
        if format.name == model.quantization:
            return group.own_storage[0] if group.own_storage else None
        if not group.own_storage and follows_exceptions(model, format):
            return None
    if group.name.startswith(_PREDICTION) and not format.name.startswith(_PREDICTING_TOO):
        return None
    role = group.role
    if role is Role.EMBEDDING and format.name.startswith("gguf-") and _is_tied(model):
        role = Role.HEAD
    return format.storage.get(role)


def _is_tied(model: ModelSpec) -> bool:
    return any(group.tied and group.role is Role.HEAD for group in model.parameters)


def _is_own(model: ModelSpec, format: QuantizationFormat) -> bool:  # noqa: A002
    plain = not format.storage and element_bytes(format.name) == element_bytes(model.dtype)
    return format.name == model.quantization or (plain and not model.quantization)


def _served_dtype(model: ModelSpec, format: QuantizationFormat, dtype: str) -> str:  # noqa: A002
    """What tensors without a format of their own are held in: engines cast 32-bit checkpoints to 16 bits unless
    told otherwise (vLLM: config/model.py, _resolve_auto_dtype)."""
    if dtype != "auto":
        return dtype
    return "bf16" if model.dtype in ("fp32", "float32") and format.name != "fp32" else model.dtype


def _group_bytes(model: ModelSpec, format: QuantizationFormat, group: ParameterGroup, dtype: str) -> float:  # noqa: A002
    if group.tied or group.draft:
        return 0.0
    own = group.dtype or _served_dtype(model, format, dtype)
    return group.count * stored_bytes(group.shape, _storage(model, format, group), own)


def _stage_weights(
    model: ModelSpec,
    format: QuantizationFormat,  # noqa: A002
    ranks: int,
    stages: int,
    dtype: str,
    padding: ExpertPadding | None,
    copies: int,
    loaded: Loaded,
    rest_last: bool,
    copies_share: frozenset[Role],
) -> tuple[StageWeights, ...]:
    if not model.parameters and model.stored_bytes is None:
        raise UnsupportedError(f"nothing says what the weights of {model.name} take")
    scale, spread = _scale(model, format, dtype)
    found = []
    for number, layers in enumerate(stage_layers(model.num_layers, stages, rest_last)):
        sizes: _Sizes = {}
        beside: _Sizes = {}
        rest = 0.0
        for group in model.parameters:
            many = copies_in_stage(group, layers, number, stages)
            if many == 0:
                continue
            own = group.dtype or _served_dtype(model, format, dtype)
            shape = group.shape if padding is None else _padded(group, padding, ranks)
            split = ranks * copies if copies > 1 and group.role in copies_share else ranks
            storage, share = _storage(model, format, group), rank_share(group, split)
            size = stored_bytes(shape, storage, own) * share
            if len(group.shape) < 2:
                rest += many * size * scale
                continue
            tensor = (_merged(group.name), group.layers, many)
            sizes[tensor] = sizes.get(tensor, 0.0) + size * scale
            beside[tensor] = beside.get(tensor, 0.0) + scales_bytes(shape, storage) * share * scale
            rest += many * _absorbed(group, ranks)
        rotary = rotary_bytes(model, loaded.video_positions, loaded.rotary_dtype)
        rotary *= not model.architecture.startswith(loaded.untabled)
        one_each = not format.storage or format.name.startswith("fp8")
        total, least = _allocated(sizes, beside, rest, rotary, loaded, one_each)
        largest = max(sizes.values(), default=total)
        reach = (spread[0] + (total - least) / total if total else spread[0], spread[1])
        found.append(StageWeights(ceil(total), ceil(largest), reach))
    return tuple(found)


_Sizes = dict[tuple[str, tuple[int, ...], int], float]
"""Bytes of a tensor by its name, its layers and how many there are: those that a kernel merges are summed."""


def _allocated(
    sizes: _Sizes, beside: _Sizes, rest: float, rotary: int, loaded: Loaded, whole_tensors: bool
) -> tuple[float, float]:
    """(bytes of a rank's tensors as the engine counts them, the fewest that they could be); `beside` are the bytes
    of `sizes` in tensors of their own, scales and zero points, `rest` those of vectors. `whole_tensors`: a matrix
    is one tensor."""
    held = (
        tensor[2]
        * sum(allocated_bytes(part, unsplit=loaded.unsplit) for part in (size - beside[tensor], beside[tensor]))
        for tensor, size in sizes.items()
    )
    least = rest + rotary + sum(held)
    if not (loaded.segments and whole_tensors):
        return least, least
    once = [size for (_, layers, many), size in sizes.items() if not layers for _ in range(many)]
    layered = [(size, many) for (_, layers, many), size in sizes.items() if layers]
    whole = reserved([*once, *((rotary,) if rotary else ())], layered, rest)
    return (least, least) if whole is None else (max(whole, least), least)


def _scale(model: ModelSpec, format: QuantizationFormat, dtype: str) -> tuple[float, _Spread]:  # noqa: A002
    """(factor that makes our sum the checkpoint's exact size, how far the interval reaches)."""
    spread = _QUANTISED if format.storage else _PLAIN if len(model.modalities) == 1 else _SEEING
    spread = _SPREADS.get(format.name, spread)
    if format.name == model.quantization and any(group.own_storage is not None for group in model.parameters):
        spread = _QUANTISED  # the recipe is known tensor by tensor
    if model.stored_bytes is None or not _is_own(model, format):
        return 1.0, spread
    ours = sum(_group_bytes(model, format, group, dtype) for group in model.parameters)
    return (model.stored_bytes / ours, _STORED) if ours else (1.0, spread)


def _absorbed(group: ParameterGroup, ranks: int) -> float:
    """MLA decodes with the up-projection folded into query and output: a 16-bit copy of it is kept beside
    (vLLM, v1/attention/backends/mla/common.py, process_weights_after_loading)."""
    if group.role is Role.ATTENTION and group.name.endswith("kv_b_proj"):
        return group.shape[0] * group.shape[1] * 2 / ranks
    return 0.0


def _padded(group: ParameterGroup, padding: ExpertPadding, ranks: int) -> tuple[int, ...]:
    """The shape as the kernel holds it; the inner width is padded after it was split over ranks."""
    if group.role is not Role.EXPERT or len(group.shape) < 3:
        return group.shape
    *many, outputs, inputs = group.shape
    down = group.name.endswith("down_proj")
    inner, hidden = (inputs, outputs) if down else (outputs, inputs)
    inner = _up(inner / ranks, max(padding.inner, padding.inputs if down else 1)) * ranks
    hidden = _up(hidden, max(padding.hidden, 1 if down else padding.inputs))
    return (*many, hidden, inner) if down else (*many, inner, hidden)


def _up(size: float, multiple: int) -> int:
    return ceil(size / multiple) * multiple


def _merged(name: str) -> str:
    prefix, _, last = name.rpartition(".")
    return f"{prefix}.{_MERGED.get(last, last)}"


def rotary_bytes(model: ModelSpec, video_positions: int = 1, dtype: str = "bf16") -> int:
    """The tables of cosines and sines, one row a position: one for each width that layers rotate, and for Gemma 3
    and 4 one for each kind of layers, whose bases differ. Where positions count a video's time it may be longer
    (vLLM, layers/rotary_embedding/mrope.py)."""
    rotating = (AttentionKind.FULL, AttentionKind.SLIDING, AttentionKind.CHUNKED, AttentionKind.LATENT)
    apart = model.architecture.startswith(_BASES_BY_KIND)
    tables = {
        (
            64 if group.kind is AttentionKind.LATENT else round(group.key_width * model.rotary_share),
            group.kind if apart else None,
        )
        for group in model.layer_groups
        if group.kind in rotating
    }
    if model.encoder_only or not tables or not model.rotary_share:
        return 0
    factor = video_positions if model.positions_in_time or model.family in _POSITIONS_IN_TIME else 1
    return round(factor * model.max_model_len * sum(width for width, _ in tables) * element_bytes(dtype))


_BASES_BY_KIND = ("Gemma3", "Gemma4")
_POSITIONS_IN_TIME = ("qwen_vl", "qwen_omni", "glm_v")


def _interval(stage: StageWeights, extra: int) -> Interval:
    value = stage.bytes + extra
    below, above = (ceil(stage.bytes * share + extra * 0.25) for share in stage.spread)
    return Interval(value - below, value, value + above)


def _between(least: Interval, most: Interval, share: float) -> Interval:
    """From the one to the other, with the value at that share of the way down."""
    return Interval(least.low, round(least.value * share + most.value * (1 - share)), most.high)


def _why(
    model: ModelSpec,
    format: QuantizationFormat,  # noqa: A002
    ranks: int,
    stage: StageWeights,
    extra: int,
) -> str:
    what = f"{format_count(model.num_parameters)} parameters in {format.name or model.dtype}"
    share = f", one rank of {ranks}" if ranks > 1 else ""
    lora = f", with {format_gib(extra)} of LoRA slots" if extra else ""
    return f"{what}{share}{lora}, and the rotary table"
