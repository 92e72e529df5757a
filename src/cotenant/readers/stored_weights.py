"""What a checkpoint's tensors add up to: bytes as stored, and parameters as the model counts them.

A quantised checkpoint stores fewer, wider elements than the model has parameters, with scales, zeros and
permutations beside them. Each layout is known by its tensors' names:

    GPTQ, AutoRound      qweight I32 (in x bits/32, out), qzeros, scales (groups, out), g_idx (in)
    AWQ                  qweight I32 (in, out x bits/32), qzeros, scales (groups, out)
    compressed-tensors   weight_packed I32 (out, in x bits/32) or, FP4, U8 (out, in/2); weight_scale, ...
    ModelOpt NVFP4       weight U8 (out, in/2), weight_scale, weight_scale_2, input_scale
    gpt-oss MXFP4        *_blocks U8 (..., 16) with two elements a byte, *_scales
    bitsandbytes         weight U8 (n/2, 1), weight.absmax, weight.quant_map, ...; 8 bits: weight I8, SCB
    MLX                  weight U32 (out, in x bits/32), scales, biases
    FP8                  weight F8_*, weight_scale or weight_scale_inv, input_scale
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from cotenant.domain.model import ModelSpec
from cotenant.readers.tensors import TensorInfo

_FLOATS = ("F", "BF", "C")
_COMPANIONS = {
    "scales", "qzeros", "g_idx", "perm", "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_shape",
    "weight_global_scale", "weight_zero_point", "weight_g_idx", "input_scale", "input_global_scale",
    "input_zero_point", "output_scale", "q_scale", "k_scale", "v_scale", "kv_scale", "prob_scale",
    "absmax", "quant_map", "nested_absmax", "nested_quant_map", "SCB", "weight_format",
    "bitsandbytes__nf4", "bitsandbytes__fp4", "inv_freq", "position_ids",
}  # fmt: skip
_COMPANION_ENDINGS = ("_scales", "_scale_inv", "_weight_scale", "_input_scale")


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """A checkpoint as stored. `total_bytes` is what its tensors take; `parameters` counts a packed tensor by the
    elements that it unpacks to, and scales, zeros and index tensors not at all; `by_dtype` maps the stored
    type to bytes, largest first."""

    total_bytes: int
    parameters: int
    by_dtype: Mapping[str, int]


def stored_weights(tensors: Iterable[TensorInfo], *, packed_bits: int = 4) -> StoredWeights:
    """Add up the tensors of all shards. `packed_bits` is the width of packed integers (2, 3, 4, 8) where the
    shapes alone do not tell it: compressed-tensors and MLX."""
    by_name = {tensor.name: tensor for tensor in tensors}
    by_dtype: dict[str, int] = {}
    for tensor in by_name.values():
        by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0) + tensor.bytes
    return StoredWeights(
        total_bytes=sum(by_dtype.values()),
        parameters=sum(_parameters(tensor, by_name, packed_bits) for tensor in by_name.values()),
        by_dtype=MappingProxyType(dict(sorted(by_dtype.items(), key=lambda item: (-item[1], item[0])))),
    )


def _parameters(tensor: TensorInfo, by_name: Mapping[str, TensorInfo], packed_bits: int) -> int:
    """Parameters of the model that this tensor stands for."""
    prefix, _, last = tensor.name.rpartition(".")
    if last == "qweight":
        return _unpacked_qweight(tensor, prefix, by_name, packed_bits)
    if last.endswith("weight_packed"):
        return tensor.elements * (2 if tensor.dtype == "U8" else 32 // packed_bits)
    if last.endswith("_blocks") and tensor.dtype == "U8":
        return tensor.elements * 2
    if last in _COMPANIONS or last.endswith(_COMPANION_ENDINGS):
        return 0
    if last == "biases" and f"{prefix}.scales" in by_name:  # MLX: the zero points of the groups
        return 0
    return _plain(tensor, packed_bits)


def _plain(tensor: TensorInfo, packed_bits: int) -> int:
    if tensor.dtype.startswith(_FLOATS) or tensor.dtype == "I8":
        return tensor.elements
    if tensor.dtype == "U8":  # FP4 or NF4: two a byte
        return tensor.elements * 2
    if tensor.dtype == "U32":
        return tensor.elements * (32 // packed_bits)
    return 0  # index tensors and masks


def _unpacked_qweight(tensor: TensorInfo, prefix: str, by_name: Mapping[str, TensorInfo], packed_bits: int) -> int:
    """Inputs x outputs of a GPTQ or AWQ matrix, from the shapes of its companions."""
    scales = by_name.get(f"{prefix}.scales")
    if scales is None or len(scales.shape) != 2 or len(tensor.shape) != 2:
        return tensor.elements * (32 // packed_bits)
    outputs = scales.shape[1]
    if tensor.shape[1] != outputs:  # AWQ packs along the outputs
        return tensor.shape[0] * outputs
    g_idx = by_name.get(f"{prefix}.g_idx")
    if g_idx is not None and len(g_idx.shape) == 1 and g_idx.shape[0] > 0:
        return g_idx.shape[0] * outputs
    qzeros = by_name.get(f"{prefix}.qzeros")
    width = 32 * qzeros.shape[1] // outputs if qzeros is not None and len(qzeros.shape) == 2 and outputs else 0
    return tensor.elements * 32 // (width or packed_bits)


def packed_bits(config: Mapping[str, object]) -> int:
    """The width of packed integers that a config.json states (GPTQ, AWQ, MLX: bits; compressed-tensors: num_bits
    of its first group of weights); 4 where it states none of 2, 3, 4, 5, 6, 8."""
    section = config.get("quantization_config") or config.get("quantization")
    if not isinstance(section, Mapping):
        return 4
    groups = section.get("config_groups")
    stated = [section.get("bits"), section.get("w_bit")]
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        stated.append(weights.get("num_bits") if isinstance(weights, Mapping) else None)
    return next((bits for bits in stated if type(bits) is int and bits in (2, 3, 4, 5, 6, 8)), 4)


def with_weights(spec: ModelSpec, weights: StoredWeights) -> ModelSpec:
    """`spec` with its exact stored size, and a note where the files hold other parameters than its structure."""
    notes = spec.notes
    if weights.parameters not in _expected(spec):
        notes += (
            f"its files hold {weights.parameters:,} parameters, its structure gives {spec.num_parameters:,}: "
            "the stored bytes are exact, the split by role is computed",
        )
    return replace(spec, stored_bytes=weights.total_bytes, notes=notes)


def _expected(spec: ModelSpec) -> set[int]:
    """Counts that a checkpoint may rightly hold: with or without draft layers, a tied head stored again or not."""
    tied = sum(group.count * prod(group.shape) for group in spec.parameters if group.tied)
    plain, drafts = spec.num_parameters, spec.num_draft_parameters
    return {plain, plain + drafts, plain + tied, plain + drafts + tied}
