"""Which format a config.json says its checkpoint is stored in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue.quantization import all_formats
from cotenant.readers.config_quantization import stored_cache_dtype, stored_format


def group(bits: int, kind: str, inputs: int | None = None, **weights: Any) -> dict[str, Any]:
    activations = None if inputs is None else {"num_bits": inputs}
    return {"weights": {"num_bits": bits, "type": kind, **weights}, "input_activations": activations}


def compressed(*groups: dict[str, Any]) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {f"group_{n}": g for n, g in enumerate(groups)}}


CASES = [
    (None, ""),
    ({}, ""),
    ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8"),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
    ({"quant_method": "fbgemm_fp8"}, "fp8"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq-int4"),
    ({"quant_method": "awq", "bits": 3}, "unknown:awq"),
    ({"quant_method": "gptq", "bits": 4}, "gptq-int4"),
    ({"quant_method": "gptq", "bits": 8}, "gptq-int8"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bnb-nf4"),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb-int8"),
    ({"quant_method": "mxfp4"}, "mxfp4"),
    ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    ({"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4"}}, "nvfp4"),
    (
        {
            "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {"a.q_proj": {"quant_algo": "FP8"}, "b.up_proj": {"quant_algo": "W4A16_NVFP4"}},
        },
        "mixed-nvfp4-fp8",
    ),
    (
        {
            "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {"a.q_proj": {"quant_algo": "MXFP8"}, "b.w1": {"quant_algo": "NVFP4"}},
        },
        "mixed-nvfp4-fp8",
    ),
    (
        {
            "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {"a.q_proj": {"quant_algo": "INT3_NEW"}, "b.w1": {"quant_algo": "NVFP4"}},
        },
        "unknown:modelopt",
    ),
    ({"quant_algo": "NVFP4"}, "nvfp4"),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, "fp8"),
    ({"quant_method": "quark", "global_quant_config": {"weight": [{"dtype": "fp4", "group_size": 32}]}}, "mxfp4"),
    ({"quant_method": "quark", "global_quant_config": None}, "unknown:quark"),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}, "gptq-int4"),
    (compressed(group(4, "int", group_size=32), group(8, "float", 8)), "mixed-fp8-int4"),
    (compressed(group(8, "int", group_size=128)), "gptq-int8"),
    (compressed(group(4, "int", group_size=128)), "w4a16"),
    (compressed(group(8, "int", 8)), "int8"),
    (compressed(group(8, "float", 8)), "fp8"),
    (compressed(group(8, "float", 8, strategy="block", block_structure=[128, 128])), "fp8-block"),
    (compressed(group(4, "float", 4, group_size=16)), "nvfp4"),
    (compressed(group(4, "float", group_size=32)), "mxfp4"),
    (compressed(group(4, "int"), group(6, "float", 8)), "unknown:compressed-tensors"),
    ({"quant_method": "quip#"}, "unknown:quip#"),
    ({"bits": 4}, "unknown:unnamed"),
    ("awq", "unknown:unreadable"),
    ([4], "unknown:unreadable"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "name"), CASES)
def test_the_format_of_a_section(section: object, name: str) -> None:
    assert stored_format({"quantization_config": section}) == name
    assert stored_format({"text_config": {"quantization_config": section}}) == name


def test_every_name_is_one_of_ours() -> None:
    ours = {known.name for known in all_formats()}
    assert {name for _, name in CASES if name and not name.startswith("unknown:")} <= ours


def test_deepseek_v4_packs_its_experts_apart() -> None:
    section = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    assert stored_format({"quantization_config": section, "expert_dtype": "fp4"}) == "fp8-fp4-experts"


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=10), inner, max_size=4)),
    max_leaves=10,
)
METHODS = st.sampled_from(["fp8", "gptq", "awq", "bitsandbytes", "compressed-tensors", "modelopt", "mxfp4"])
KEYS = st.sampled_from(["bits", "config_groups", "quant_algo", "quantization", "quantized_layers", "load_in_4bit"])


@given(METHODS, st.dictionaries(KEYS, JSON, max_size=4))
def test_nothing_breaks_it(method: str, section: dict[str, Any]) -> None:
    assert isinstance(stored_format({"quantization_config": {**section, "quant_method": method}}), str)


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        (
            {"quant_method": "modelopt", "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}},
            "fp8",
        ),
        (
            {"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}},
            "fp8",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": None}, ""),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 4, "type": "float"}}, "nvfp4"),
        ({"quant_method": "fp8", "kv_cache_scheme": {"num_bits": True, "type": "float"}}, ""),
        ({"quant_method": "awq", "kv_cache_scheme": ["float"]}, ""),
        (None, ""),
    ],
)
def test_what_a_checkpoint_wants_its_cache_kept_in(section, wanted):
    assert stored_cache_dtype({} if section is None else {"quantization_config": section}) == wanted
