"""Newer architectures and parallel layers from their GGUF headers to buffers, as build 11434 printed them.

Files of zeros of a few layers at real widths, a vocabulary of 4,096, 8,192 tokens of context, on a processor.
"""

from __future__ import annotations

import pytest

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import ModelSpec
from cotenant.engines.llama_cpp.buffers import host_interval
from cotenant.engines.llama_cpp.builds import build_rules
from cotenant.engines.llama_cpp.cache import layer_bytes, state_bytes
from cotenant.engines.llama_cpp.engine import resolved
from cotenant.engines.llama_cpp.placement import place
from cotenant.engines.llama_cpp.reserve import host_compute
from cotenant.readers.gguf_model import gguf_model
from cotenant.units import MIB
from tests.readers.test_gguf_model import attention, blocks, ends, experts, header, mlp, sizes, tensor

BUILD = build_rules(Version((11434,)))
WINDOW = {"attention__key_length": 128, "attention__value_length": 128, "rope__dimension_count": 128}
EXPERTS = {"expert_used_count": 8, "expert_shared_count": 1, "leading_dense_block_count": 1}


def command(arch: str, kv: int, **more: int) -> ModelSpec:
    """Attention and the dense part side by side behind one norm."""
    parts = [part for part in attention(4096, 32, kv, 128) + mlp(4096, 14336) if part[0] != "ffn_norm.weight"]
    told = sizes(3, 4096, 14336, 32, kv, context=262144, **WINDOW, **more)
    return gguf_model(header(arch, told, ends(4096, 4096, tied=True) + blocks(3, *parts)), arch)


def mixture(layer: int, hidden: int, inner: int, count: int, wide: int) -> list:
    if layer == 0:
        return mlp(hidden, inner)
    shared = [("ffn_gate_shexp.weight", wide, hidden), ("ffn_up_shexp.weight", wide, hidden)]
    return [*experts(hidden, wide, count), *shared, ("ffn_down_shexp.weight", hidden, wide)]


def named(layer: int, parts: list) -> list:
    return [tensor(f"blk.{layer}.{name}", *shape) for name, *shape in parts]


def exaone_moe() -> ModelSpec:
    tensors = ends(4096, 6144)
    for layer in range(5):
        tensors += named(layer, attention(6144, 64, 8, 128) + mixture(layer, 6144, 18432, 32, 2048))
    told = sizes(
        5, 6144, 18432, 64, 8, context=262144, **WINDOW, **EXPERTS, attention__sliding_window=128,
        expert_count=32, expert_feed_forward_length=2048,
    )  # fmt: skip
    return gguf_model(header("exaone-moe", told, tensors), "exaone-moe")


def laguna() -> ModelSpec:
    tensors, heads = ends(4096, 2048), tuple(64 if layer % 4 else 48 for layer in range(5))
    for layer in range(5):
        gate = [("attn_gate.weight", heads[layer], 2048)]
        tensors += named(layer, attention(2048, heads[layer], 8, 128) + gate)
        tensors += named(layer, mixture(layer, 2048, 8192, 64, 512))
    told = sizes(
        5, 2048, 8192, heads, (8,) * 5, context=262144, **WINDOW, **EXPERTS, attention__sliding_window=512,
        expert_count=64, expert_feed_forward_length=512,
    )  # fmt: skip
    return gguf_model(header("laguna", told, tensors), "laguna")


def kimi_linear() -> ModelSpec:
    wide, hidden = 32 * 128, 2304
    delta = [
        ("attn_norm.weight", hidden), *((f"attn_{name}.weight", wide, hidden) for name in "qkv"),
        *((f"ssm_conv1d_{name}.weight", wide, 1, 4) for name in "qkv"), ("ssm_beta.weight", 32, hidden),
        *((f"ssm_{name}_a.weight", 128, hidden) for name in "fg"),
        *((f"ssm_{name}_b.weight", wide, 128) for name in "fg"), ("attn_output.weight", hidden, wide),
    ]  # fmt: skip
    latent = [
        ("attn_norm.weight", hidden), ("attn_kv_a_mqa.weight", 576, hidden), ("attn_k_b.weight", 32, 512, 128),
        ("attn_v_b.weight", 32, 128, 512), ("attn_q.weight", 32 * 192, hidden),
        ("attn_output.weight", hidden, wide),
    ]  # fmt: skip
    tensors = ends(4096, hidden)
    for layer in range(4):
        tensors += named(layer, (latent if layer == 3 else delta) + mixture(layer, hidden, 9216, 64, 1024))
    told = sizes(
        4, hidden, 9216, 32, (0, 0, 0, 1), context=1048576, **EXPERTS, expert_count=64, kda__head_dim=128,
        expert_feed_forward_length=1024, attention__key_length=576, attention__kv_lora_rank=512,
        attention__key_length_mla=192, attention__value_length_mla=128, rope__dimension_count=64,
        ssm__conv_kernel=4,
    )  # fmt: skip
    return gguf_model(header("kimi-linear", told, tensors), "kimi-linear")


@pytest.mark.parametrize(
    ("model", "slots", "flash", "cache", "state", "compute"),
    [
        (command("cohere2", 8, attention__sliding_window=4096), 1, True, 54.00, 0, 128.52),
        (command("cohere2", 8, attention__sliding_window=4096), 2, True, 96.00, 0, 128.02),
        (command("cohere2", 8, attention__sliding_window=4096), 1, False, 54.00, 0, 349.01),
        (command("command-r", 32), 1, True, 384.00, 0, 132.02),
        (command("command-r", 32), 1, False, 384.00, 0, 592.01),
        (exaone_moe(), 1, True, 44.00, 0, 260.78),
        (exaone_moe(), 2, True, 56.00, 0, 256.78),
        (exaone_moe(), 1, False, 44.00, 0, 1141.52),
        (laguna(), 1, True, 76.00, 0, 85.03),
        (laguna(), 2, True, 88.00, 0, 81.03),
        (kimi_linear(), 1, True, 9.00, 6.42, 114.51),
        (kimi_linear(), 2, True, 9.00, 12.84, 110.51),
    ],
)
def test_what_a_build_prints(
    model: ModelSpec, slots: int, flash: bool, cache: float, state: float, compute: float
) -> None:
    asked = LlamaCppOptions(n_ctx=8192, n_parallel=slots, flash_attn=flash)
    options = resolved(model, EngineSettings(llama_cpp=asked), BUILD).llama_cpp
    assert options is not None
    assert sum(layer_bytes(model, options, BUILD)) / MIB == pytest.approx(cache, abs=0.01)
    assert sum(state_bytes(model, options)) / MIB == pytest.approx(state, abs=0.01)
    assert host_compute(model, options, BUILD, place(model.num_layers, 0, 1)) / MIB == pytest.approx(
        compute, abs=0.03
    )


def test_a_mixer_that_is_not_followed_is_told_widely() -> None:
    """RWKV-7: its graph was printed at 80.51 MiB, 3.5 times what its layers' other half takes."""
    names = ("time_mix_key", "time_mix_value", "time_mix_receptance", "time_mix_output")
    mixer = [
        ("attn_norm.weight", 2048),
        ("attn_norm_2.weight", 2048),
        *((f"{n}.weight", 2048, 2048) for n in names),
    ]
    channel = [("channel_mix_key.weight", 8192, 2048), ("channel_mix_value.weight", 2048, 8192)]
    told = sizes(3, 2048, 8192, 0, 0, context=8192, wkv__head_size=64)
    model = gguf_model(header("rwkv7", told, ends(4096, 2048) + blocks(3, *mixer, *channel)), "rwkv7")
    asked = EngineSettings(llama_cpp=LlamaCppOptions(n_ctx=8192, n_parallel=1, flash_attn=True))
    options = resolved(model, asked, BUILD).llama_cpp
    assert options is not None
    found = host_interval(model, options, BUILD, place(3, 0, 1))
    assert found.low / MIB < 80.51 < found.high / MIB
