"""Which of our formats a checkpoint says that it is stored in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MODELOPT = {
    "FP8": "fp8", "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A16_AWQ": "w4a16", "FP8_PB_WO": "fp8-block",
    "FP8_BLOCK": "fp8-block", "FP8_PB_REAL": "fp8-block", "INT4_AWQ": "w4a16", "W4A16_NVFP4": "nvfp4",
    "MXFP8": "mxfp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "W4A8_NVFP4_FP8": "nvfp4",
}  # fmt: skip


def stored_format(config: Mapping[str, Any]) -> str:
    """Our name of the format in `quantization_config` ("" = unquantised).

    A method that we have no format for comes back as "unknown:METHOD": its structure can still be shown, its
    bytes are refused later. Never raises.
    """
    found = quantization_section(config)
    if found is None:
        return ""
    method = _text(found.get("quant_method")).lower()
    reader = _READERS.get(method)
    name = reader(found) if reader is not None else ""
    if name == "mxfp8":  # FP8 in blocks of 1 x 32; what its tensors take is read apart (config_recipe)
        name = "fp8-block"
    if name == "fp8-block" and _text(config.get("expert_dtype") or found.get("expert_dtype")).lower() == "fp4":
        name = "fp8-fp4-experts"  # DeepSeek-V4: experts packed apart from the section's scheme
    return name or f"unknown:{method or 'unnamed'}"


def stored_cache_dtype(config: Mapping[str, Any]) -> str:
    """What the checkpoint wants its KV cache kept in ("" = nothing said): ModelOpt's `kv_cache_quant_algo`, or
    compressed-tensors' `kv_cache_scheme`. Never raises."""
    found = quantization_section(config)
    if found is None:
        return ""
    inner = found.get("quantization")
    places = [found, inner] if isinstance(inner, Mapping) else [found]
    for place in places:
        scheme = place.get("kv_cache_scheme") or place.get("kv_cache_quant_algo")
        if isinstance(scheme, Mapping) and _text(scheme.get("type")) == "float":
            return {8: "fp8", 4: "nvfp4"}.get(_whole(scheme.get("num_bits")), "")
        if _text(scheme).upper() in ("FP8", "NVFP4"):
            return _text(scheme).lower()
    return ""


def quantization_section(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The quantisation section: at the top, or beside the language model's sizes."""
    places = [config, *(config.get(key) for key in ("text_config", "llm_config", "language_config"))]
    for place in places:
        if isinstance(place, Mapping):
            for key in ("quantization_config", "compression_config", "quantization"):
                section = place.get(key)
                if isinstance(section, Mapping) and section:
                    return section
                if section and not isinstance(section, Mapping):
                    return {"quant_method": "unreadable"}
    return None


def _text(value: object) -> str:
    return value[:60] if isinstance(value, str) else ""


def _bits(section: Mapping[str, Any]) -> object:
    return section.get("bits", section.get("w_bit", 4))


def _fp8(section: Mapping[str, Any]) -> str:
    return "fp8-block" if section.get("weight_block_size") else "fp8"


def _gptq(section: Mapping[str, Any]) -> str:
    return {4: "gptq-int4", 8: "gptq-int8"}.get(_whole(_bits(section)), "")


def _awq(section: Mapping[str, Any]) -> str:
    return "awq-int4" if _whole(_bits(section)) == 4 else ""


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _bitsandbytes(section: Mapping[str, Any]) -> str:
    if section.get("load_in_4bit"):
        return "bnb-nf4" if _text(section.get("bnb_4bit_quant_type")) in ("nf4", "") else ""
    return "bnb-int8" if section.get("load_in_8bit") else ""


def _modelopt(section: Mapping[str, Any]) -> str:
    algorithm = section.get("quant_algo")
    inner = section.get("quantization")
    if algorithm is None and isinstance(inner, Mapping):
        algorithm = inner.get("quant_algo")
    name = _text(algorithm).upper()
    if name == "MIXED_PRECISION":
        return _mixed(inner if isinstance(inner, Mapping) else section)
    return _MODELOPT.get(name, "") or _compressed(section)


def _mixed(section: Mapping[str, Any]) -> str:
    """Layer by layer: FP8 beside NVFP4 has a name here, anything else has not."""
    layers = section.get("quantized_layers")
    if not isinstance(layers, Mapping):
        return ""
    used = {_text(layer.get("quant_algo")).upper() for layer in layers.values() if isinstance(layer, Mapping)}
    found = {_MODELOPT.get(name, "") for name in used}
    return "" if "" in found else _together(found)


def _together(found: set[str]) -> str:
    """One name for a checkpoint of several formats: each tensor's own is read apart (config_recipe)."""
    if len(found) == 1:
        return found.pop()
    eights = found & {"fp8", "fp8-block", "int8", "mxfp8"}
    rest = found - eights
    if len(rest) != 1 or not eights:
        return ""
    return {"nvfp4": "mixed-nvfp4-fp8", "w4a16": "mixed-fp8-int4", "mxfp4": "mxfp4"}.get(rest.pop(), "")


def _compressed(section: Mapping[str, Any]) -> str:
    """compressed-tensors: the first group's weights and activations decide."""
    groups = section.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        return {"nvfp4-pack-quantized": "nvfp4", "mxfp4-pack-quantized": "mxfp4"}.get(
            _text(section.get("format")), ""
        )
    formats = {_group_format(group) for group in groups.values() if isinstance(group, Mapping)}
    return "" if "" in formats else _together(formats)


def _group_format(group: Mapping[str, Any]) -> str:
    weights, inputs = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, Mapping):
        return ""
    bits, kind = _whole(weights.get("num_bits")), _text(weights.get("type"))
    input_bits = _whole(inputs.get("num_bits")) if isinstance(inputs, Mapping) else 16
    if kind == "float":
        if bits == 8 and _whole(weights.get("group_size")) == 32:
            return "mxfp8"
        if bits == 8:
            return "fp8-block" if weights.get("block_structure") or weights.get("strategy") == "block" else "fp8"
        size = _whole(weights.get("group_size"))
        return {(4, 16): "nvfp4", (4, 32): "mxfp4"}.get((bits, size), "")
    return {(4, 16): "w4a16", (4, 8): "w4a16", (8, 8): "int8", (8, 16): "gptq-int8"}.get((bits, input_bits), "")


def _mxfp4(_section: Mapping[str, Any]) -> str:
    return "mxfp4"


def _quark(section: Mapping[str, Any]) -> str:
    """AMD Quark: by the weight's type; what single layers are stored in is read apart (config_recipe)."""
    scheme = section.get("global_quant_config")
    weight = scheme.get("weight") if isinstance(scheme, Mapping) else None
    if isinstance(weight, list):
        weight = weight[-1] if weight else None
    kind = _text(weight.get("dtype")).lower() if isinstance(weight, Mapping) else ""
    if kind.startswith("fp8"):
        return "fp8"
    return {"fp4": "mxfp4", "int4": "w4a16", "uint4": "w4a16", "int8": "int8"}.get(kind, "")


def _fbgemm(_section: Mapping[str, Any]) -> str:
    return "fp8"


_READERS = {
    "fp8": _fp8, "fbgemm_fp8": _fbgemm, "bitsandbytes": _bitsandbytes, "mxfp4": _mxfp4, "quark": _quark,
    "compressed-tensors": _compressed, "modelopt": _modelopt, "modelopt_fp4": _modelopt, "": _modelopt,
    "modelopt_mixed": _modelopt, "gptq": _gptq, "gptqmodel": _gptq, "gptq_marlin": _gptq, "auto-round": _gptq,
    "auto_round": _gptq, "autoround": _gptq, "intel/auto-round": _gptq, "awq": _awq, "awq_marlin": _awq,
}  # fmt: skip
