"""What one scheme of a quantisation recipe stores for a matrix: bits, scales, zero points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.domain.storage import Storage

_NVFP4 = Storage(4, group_size=16, scale_bits=8, tensor_bits=64)
_MXFP4 = Storage(4, group_size=32, scale_bits=8)
_MXFP8 = Storage(8, group_size=32, scale_bits=8)
_FP8 = Storage(8, group_size=0, scale_bits=16)
_FP8_BLOCK = Storage(8, scale_bits=32, block=(128, 128))
# bitsandbytes: blocks of 64 with a scale in fp32, which double quantisation keeps in 8 bits, 256 of them together.
_NF4, _NF4_DOUBLE = Storage(4, group_size=64, scale_bits=32), Storage(4.126953125, tensor_bits=8736)
_LLM_INT8 = Storage(8, group_size=0, scale_bits=32)
_ALGORITHMS = {
    "NVFP4": _NVFP4, "NVFP4_AWQ": _NVFP4, "W4A16_NVFP4": _NVFP4, "NVFP4_SVDQUANT": _NVFP4,
    "W4A8_NVFP4_FP8": _NVFP4, "FP8": _FP8, "FP8_PER_CHANNEL_PER_TOKEN": _FP8, "FP8_PB_WO": _FP8_BLOCK,
    "FP8_PB_REAL": _FP8_BLOCK, "MXFP8": _MXFP8, "MXFP4": _MXFP4, "W4A8_MXFP4_FP8": _MXFP4,
    "W4A16_AWQ": Storage(4, group_size=128, scale_bits=16), "INT4_AWQ": Storage(4, group_size=128, scale_bits=16),
    "W4A8_AWQ": Storage(4, group_size=128, scale_bits=16), "W8A8_SQ_PER_CHANNEL": _FP8,
}  # fmt: skip
_DEFAULT_GROUP = 128


def algorithm_storage(name: object) -> Storage | None:
    """ModelOpt's name of an algorithm."""
    return _ALGORITHMS.get(name.upper()) if isinstance(name, str) else None


def group_storage(group: Mapping[str, Any]) -> Storage | None:
    """A group of compressed-tensors: its weights' bits, type, strategy and group size."""
    weights = group.get("weights")
    if not isinstance(weights, Mapping):
        return None
    bits, size = _whole(weights.get("num_bits")), _whole(weights.get("group_size"))
    kind, strategy = weights.get("type"), weights.get("strategy")
    if kind == "float":
        if bits == 8:
            if size == 32:
                return _MXFP8
            block = weights.get("block_structure")
            return _blocked(block) if block or strategy == "block" else _FP8
        return {(4, 16): _NVFP4, (4, 32): _MXFP4}.get((bits, size))
    if kind not in ("int", None) or bits not in (2, 3, 4, 8):
        return None
    zeros = 0 if weights.get("symmetric", True) else bits
    if strategy in ("channel", "tensor") or size <= 0:
        return Storage(bits, group_size=0, scale_bits=16, zero_bits=zeros)
    return Storage(bits, group_size=size, scale_bits=16, zero_bits=zeros, tensor_bits=128)


def plain_storage(section: Mapping[str, Any], config: Mapping[str, Any]) -> Storage | None:
    """One scheme for every linear layer, as its method states it; None where the method has no rule here, or
    where roles differ (MXFP4 of experts alone, DeepSeek-V4's packed experts)."""
    method = str(section.get("quant_method") or "").lower()
    if method in ("fp8", "fbgemm_fp8"):
        if str(
            config.get("expert_dtype") or section.get("expert_dtype") or ""
        ).lower() == "fp4" and not section.get("quantized_layers"):
            return None
        return _blocked(section["weight_block_size"]) if section.get("weight_block_size") else _FP8
    if method in ("modelopt", "modelopt_fp4", "modelopt_mixed", ""):
        return algorithm_storage(section.get("quant_algo"))
    if method in ("gptq", "gptqmodel", "gptq_marlin", "auto-round", "auto_round", "autoround", "intel/auto-round"):
        return _grouped(section, inputs=32 if section.get("desc_act") else 0)
    if method in ("awq", "awq_marlin"):
        return _grouped(section)
    if method == "bitsandbytes":
        return _bitsandbytes(section)
    if method == "quark":
        return quark_storage(section.get("global_quant_config"))
    return None


def _bitsandbytes(section: Mapping[str, Any]) -> Storage | None:
    if section.get("load_in_8bit"):
        return _LLM_INT8
    if not section.get("load_in_4bit"):
        return None
    return _NF4_DOUBLE if section.get("bnb_4bit_use_double_quant", True) else _NF4


def quark_storage(config: object) -> Storage | None:
    """AMD Quark's scheme of a layer: its weight's dtype, scheme and group size."""
    weight = config.get("weight") if isinstance(config, Mapping) else None
    if isinstance(weight, list):  # more than one step of quantisation: the last is what is stored
        weight = weight[-1] if weight else None
    if not isinstance(weight, Mapping):
        return None
    kind, size = str(weight.get("dtype") or "").lower(), _whole(weight.get("group_size"))
    if kind.startswith("fp8"):
        return _MXFP8 if size == 32 else _FP8
    if kind == "fp4":
        return _MXFP4 if size in (0, 32) else _NVFP4
    bits = {"int4": 4, "uint4": 4, "int8": 8, "uint8": 8}.get(kind)
    return None if bits is None else Storage(bits, group_size=max(size, 0), scale_bits=16)


def _grouped(section: Mapping[str, Any], inputs: int = 0) -> Storage | None:
    """GPTQ, AWQ and AutoRound: packed integers, a 16-bit scale and a packed zero point a group."""
    bits = _whole(section.get("bits", section.get("w_bit", 4)))
    size = _whole(section.get("group_size", section.get("q_group_size", _DEFAULT_GROUP)))
    if bits not in (2, 3, 4, 8):
        return None
    return Storage(bits, group_size=max(size, 0), scale_bits=16, zero_bits=bits, input_bits=inputs)


def _blocked(block: object) -> Storage:
    """FP8 with a scale in fp32 for each block of rows x columns."""
    if isinstance(block, list) and len(block) == 2 and all(0 < _whole(side) <= 2**20 for side in block):
        return Storage(8, scale_bits=32, block=(_whole(block[0]), _whole(block[1])))
    return _FP8_BLOCK


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
