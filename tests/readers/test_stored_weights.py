"""Bytes and parameters of checkpoints, quantised ones counted by what they unpack to."""

from __future__ import annotations

import pytest

from cotenant.readers.safetensors import DTYPE_BITS
from cotenant.readers.stored_weights import stored_weights
from cotenant.readers.tensors import TensorInfo


def tensor(name: str, dtype: str, *shape: int) -> TensorInfo:
    info = TensorInfo(name, dtype, shape, 0)
    return TensorInfo(name, dtype, shape, info.elements * DTYPE_BITS[dtype] // 8)


OUT, IN, GROUPS = 14336, 4096, 32  # gate_proj of Llama-3.1-8B, groups of 128
LAYOUTS = {
    "gptq": [
        tensor("m.qweight", "I32", IN // 8, OUT),
        tensor("m.qzeros", "I32", GROUPS, OUT // 8),
        tensor("m.scales", "F16", GROUPS, OUT),
        tensor("m.g_idx", "I32", IN),
    ],
    "gptq 8 bits, no g_idx": [
        tensor("m.qweight", "I32", IN // 4, OUT),
        tensor("m.qzeros", "I32", GROUPS, OUT // 4),
        tensor("m.scales", "F16", GROUPS, OUT),
    ],
    "gptq 3 bits": [
        tensor("m.qweight", "I32", IN * 3 // 32, OUT),
        tensor("m.qzeros", "I32", GROUPS, OUT * 3 // 32),
        tensor("m.scales", "F16", GROUPS, OUT),
        tensor("m.g_idx", "I32", IN),
    ],
    "awq": [
        tensor("m.qweight", "I32", IN, OUT // 8),
        tensor("m.qzeros", "I32", GROUPS, OUT // 8),
        tensor("m.scales", "F16", GROUPS, OUT),
    ],
    "compressed-tensors int4": [
        tensor("m.weight_packed", "I32", OUT, IN // 8),
        tensor("m.weight_scale", "BF16", OUT, GROUPS),
        tensor("m.weight_shape", "I64", 2),
    ],
    "compressed-tensors nvfp4": [
        tensor("m.weight_packed", "U8", OUT, IN // 2),
        tensor("m.weight_scale", "F8_E4M3", OUT, IN // 16),
        tensor("m.weight_global_scale", "F32", 1),
        tensor("m.input_global_scale", "F32", 1),
    ],
    "modelopt nvfp4": [
        tensor("m.weight", "U8", OUT, IN // 2),
        tensor("m.weight_scale", "F8_E4M3", OUT, IN // 16),
        tensor("m.weight_scale_2", "F32"),
        tensor("m.input_scale", "F32"),
    ],
    "bitsandbytes nf4": [
        tensor("m.weight", "U8", OUT * IN // 2, 1),
        tensor("m.weight.absmax", "U8", OUT * IN // 64),
        tensor("m.weight.quant_map", "F32", 16),
        tensor("m.weight.nested_absmax", "F32", OUT * IN // 64 // 256),
        tensor("m.weight.nested_quant_map", "F32", 256),
        tensor("m.weight.quant_state.bitsandbytes__nf4", "U8", 80),
    ],
    "bitsandbytes int8": [
        tensor("m.weight", "I8", OUT, IN),
        tensor("m.SCB", "F32", OUT),
        tensor("m.weight_format", "U8", 1),
    ],
    "fp8 blocks": [
        tensor("m.weight", "F8_E4M3", OUT, IN),
        tensor("m.weight_scale_inv", "F32", OUT // 128, IN // 128),
    ],
    "fp8 tensor": [
        tensor("m.weight", "F8_E4M3", OUT, IN),
        tensor("m.weight_scale", "F32", 1),
        tensor("m.input_scale", "F32", 1),
        tensor("m.k_scale", "F32", 1),
    ],
    "mlx": [
        tensor("m.weight", "U32", OUT, IN // 8),
        tensor("m.scales", "F16", OUT, IN // 64),
        tensor("m.biases", "F16", OUT, IN // 64),
    ],
    "bf16": [tensor("m.weight", "BF16", OUT, IN)],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_counts_the_same_matrix(layout):
    assert stored_weights(LAYOUTS[layout]).parameters == OUT * IN == 58_720_256


def test_awq_bytes_are_the_stored_ones():
    found = stored_weights(LAYOUTS["awq"])
    assert found.total_bytes == OUT * IN // 2 + GROUPS * OUT // 2 + GROUPS * OUT * 2
    assert found.by_dtype == {"I32": 29_589_504, "F16": 917_504}
    assert list(found.by_dtype) == ["I32", "F16"]


def test_gpt_oss_experts_unpack_two_a_byte():
    """gpt-oss-20b: 32 experts, hidden 2880, gate and up 5760 rows of 90 blocks of 32."""
    parts = [
        tensor("e.gate_up_proj_blocks", "U8", 32, 5760, 90, 16),
        tensor("e.gate_up_proj_scales", "U8", 32, 5760, 90),
        tensor("e.gate_up_proj_bias", "BF16", 32, 5760),
    ]
    assert stored_weights(parts).parameters == 32 * 5760 * 2880 + 32 * 5760


def test_packed_bits_say_how_wide_packed_integers_are():
    packed = [tensor("m.weight_packed", "I32", OUT, IN // 4), tensor("m.weight_scale", "BF16", OUT, 1)]
    assert stored_weights(packed, packed_bits=8).parameters == OUT * IN


def test_buffers_are_stored_but_are_no_parameters():
    parts = [
        tensor("bert.embeddings.position_ids", "I64", 1, 512),
        tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 64),
        tensor("mask", "BOOL", 4, 4),
        tensor("norm.weight", "F32", 8),
    ]
    found = stored_weights(parts)
    assert (found.parameters, found.total_bytes) == (8, 4096 + 256 + 16 + 32)


def test_a_tensor_listed_by_two_shards_counts_once():
    shared = tensor("lm_head.weight", "BF16", 10, 10)
    assert stored_weights([shared, shared]).total_bytes == 200


def test_odd_companions_do_not_break_the_count():
    lonely = [tensor("m.qweight", "I32", 8, 8), tensor("n.qweight", "I32", 8), tensor("n.scales", "F16", 2, 0)]
    assert stored_weights(lonely).parameters == 64 * 8 + 8 * 8
