"""Families under names of their own, held to published totals; their configs' sizes are quoted from memory."""

from __future__ import annotations

from math import prod

import pytest

from cotenant.domain.engine import EngineSettings
from cotenant.engines.rules import CacheRules
from cotenant.estimation.kv_cache import cache_layout
from cotenant.readers.model_config import read_model_config

QWEN3_8B = {
    "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
}  # fmt: skip
MODELS = {
    "grok-2": (  # 269.5 B on the hub
        {
            "architectures": ["Grok1ForCausalLM"], "hidden_size": 8192, "num_hidden_layers": 64,
            "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 32768,
            "moe_intermediate_size": 16384, "num_local_experts": 8, "residual_moe": True, "vocab_size": 131072,
        },
        269.5e9,
    ),
    "arctic": (  # "480B"
        {
            "architectures": ["ArcticForCausalLM"], "hidden_size": 7168, "num_hidden_layers": 35,
            "num_attention_heads": 56, "num_key_value_heads": 8, "intermediate_size": 4864,
            "num_local_experts": 128, "moe_layer_frequency": 1, "use_residual": True, "vocab_size": 32000,
        },
        479e9,
    ),
    "Ouro-1.4B": (
        {
            "architectures": ["OuroForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 24,
            "num_attention_heads": 16, "intermediate_size": 5632, "vocab_size": 49152, "total_ut_steps": 4,
        },
        1.43e9,
    ),
    "Keye-VL-8B": (
        {
            "architectures": ["KeyeForConditionalGeneration"], **QWEN3_8B,
            "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                              "patch_size": 14, "image_size": 384},
        },
        8.7e9,
    ),
    "Keye-VL-1.5-8B": (
        {
            "architectures": ["KeyeVL1_5ForConditionalGeneration"], **QWEN3_8B,
            "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                              "patch_size": 14, "image_size": 384},
        },
        8.7e9,
    ),
    "NVLM-D-72B": (  # 79.4 B on the hub
        {
            "architectures": ["NVLM_D"],
            "llm_config": {
                "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 8192,
                "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
                "intermediate_size": 29568, "vocab_size": 152064,
            },
            "vision_config": {"hidden_size": 3200, "intermediate_size": 12800, "num_hidden_layers": 45,
                              "patch_size": 14, "image_size": 448, "qkv_bias": False, "qk_normalization": True,
                              "norm_type": "rms_norm"},
        },
        79.4e9,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_parameters_come_to_the_published_total(name: str) -> None:
    config, published = MODELS[name]
    model = read_model_config(config, name=name)
    total = sum(group.count * prod(group.shape) for group in model.parameters if not group.tied)
    assert total == pytest.approx(published, rel=0.015)


def test_a_looped_model_caches_every_loop() -> None:
    model = read_model_config(MODELS["Ouro-1.4B"][0], name="Ouro-1.4B")
    assert cache_layout(model, EngineSettings(), CacheRules()).token_bytes() == 4 * 24 * 2 * 16 * 128 * 2


def test_ring_25_keeps_latent_rows_and_states() -> None:
    """Ring-2.5's layout in small: three lightning layers of four, whose states stay in the model's precision."""
    config = {
        "architectures": ["BailingMoeV2_5ForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 8,
        "num_attention_heads": 16, "head_dim": 128, "intermediate_size": 5120, "vocab_size": 157184,
        "layer_group_size": 4, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_experts": 64,
        "num_experts_per_tok": 4, "moe_intermediate_size": 512, "num_shared_experts": 1,
        "first_k_dense_replace": 1,
    }  # fmt: skip
    layout = cache_layout(read_model_config(config, name="ring"), EngineSettings(), CacheRules())
    assert layout.token_bytes() == 2 * 576 * 2
    assert layout.fixed_bytes(1000) == 6 * 16 * 128 * 128 * 2
