"""Models from their published configs, and cards by hand: what the estimates are tested on."""

from dataclasses import replace

import pytest

from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, RecurrentState, Role
from cotenant.domain.quantization import QuantizationFormat
from cotenant.domain.storage import Storage
from cotenant.readers.model_config import read_model_config
from cotenant.units import GIB

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
LLAMA_70B = {
    **LLAMA_8B, "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
    "num_hidden_layers": 80,
}  # fmt: skip
QWEN3_32B = {
    "architectures": ["Qwen3ForCausalLM"], "hidden_size": 5120, "intermediate_size": 25600, "head_dim": 128,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 64, "vocab_size": 151936,
    "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def card(name: str, cuda_gib: float, driver_gib: float, capability: tuple[int, int]) -> GpuSpec:
    return GpuSpec(
        name=name, vendor="NVIDIA", architecture="", driver_bytes=Interval.exact(round(driver_gib * GIB)),
        cuda_bytes=Interval.exact(round(cuda_gib * GIB)), cuda_measured=True, memory_bandwidth=2e12,
        peak_flops={"bf16": 3e14}, compute_capability=capability, gfx=None,
        link_bandwidth=None, host_bandwidth=None,
    )  # fmt: skip


@pytest.fixture(scope="session")
def llama_8b() -> ModelSpec:
    return read_model_config(LLAMA_8B, name="Llama-3.1-8B", source="test")


@pytest.fixture(scope="session")
def llama_70b() -> ModelSpec:
    return read_model_config(LLAMA_70B, name="Llama-3.1-70B", source="test")


@pytest.fixture(scope="session")
def qwen3_32b() -> ModelSpec:
    return read_model_config(QWEN3_32B, name="Qwen3-32B", source="test")


@pytest.fixture(scope="session")
def deepseek_v3(llama_8b: ModelSpec) -> ModelSpec:
    """Only what its cache needs: 61 layers that keep 512 + 64 elements a token."""
    group = LayerGroup(AttentionKind.LATENT, tuple(range(61)), 128, 1, 576, 0)
    return replace(llama_8b, layer_groups=(group,), num_layers=61, max_model_len=163840)


@pytest.fixture(scope="session")
def gemma_3_27b(llama_8b: ModelSpec) -> ModelSpec:
    """62 layers, every sixth full, the others with a window of 1,024; 16 key-value heads of 128."""
    full = tuple(range(5, 62, 6))
    rest = tuple(n for n in range(62) if n not in full)
    groups = (
        LayerGroup(AttentionKind.SLIDING, rest, 32, 16, 128, 128, 1024),
        LayerGroup(AttentionKind.FULL, full, 32, 16, 128, 128),
    )
    return replace(llama_8b, layer_groups=groups, num_layers=62, max_model_len=131072)


@pytest.fixture(scope="session")
def hybrid(llama_8b: ModelSpec) -> ModelSpec:
    """24 full layers and 72 with a state: 4 heads of 256, a conv state in bf16 and a state in fp32."""
    full = tuple(range(3, 96, 4))
    rest = tuple(n for n in range(96) if n not in full)
    groups = (
        LayerGroup(AttentionKind.RECURRENT, rest, state=RecurrentState(30720, 786432, "fp32")),
        LayerGroup(AttentionKind.FULL, full, 24, 4, 256, 256),
    )
    return replace(llama_8b, layer_groups=groups, num_layers=96, max_model_len=131072)


@pytest.fixture(scope="session")
def a100() -> GpuSpec:
    return card("A100-80GB-SXM", 79.25, 80.0, (8, 0))


@pytest.fixture(scope="session")
def h100() -> GpuSpec:
    return card("H100-80GB-SXM", 79.19, 79.65, (9, 0))


@pytest.fixture(scope="session")
def l4() -> GpuSpec:
    return card("L4", 22.16, 22.49, (8, 9))


@pytest.fixture(scope="session")
def bf16() -> QuantizationFormat:
    return QuantizationFormat("bf16", "BF16", {}, "bf16")


@pytest.fixture(scope="session")
def awq() -> QuantizationFormat:
    storage = Storage(4, group_size=128, scale_bits=16, zero_bits=4)
    return QuantizationFormat("awq-int4", "AWQ", {Role.ATTENTION: storage, Role.MLP: storage}, "bf16")


@pytest.fixture(scope="session")
def fp8() -> QuantizationFormat:
    storage = Storage(8, group_size=0, scale_bits=16)
    return QuantizationFormat("fp8", "FP8", {Role.ATTENTION: storage, Role.MLP: storage}, "fp8")
