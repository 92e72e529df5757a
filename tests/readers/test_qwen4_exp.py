"""Qwen4-Exp, Ling 3 and models kindred to others, held to published totals and to what vLLM prints."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import EngineSettings, Speculation
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.engines import find_engine
from cotenant.errors import CotenantError
from cotenant.estimation.kv_cache import CacheLayout, cache_layout
from cotenant.estimation.speculation import served_model
from cotenant.estimation.weights import weights_per_rank
from cotenant.readers.model_config import read_model_config

FLASH_NEXT: dict[str, Any] = {
    "architectures": ["Qwen4ExpForConditionalGeneration"],
    "text_config": {
        "hidden_size": 2560, "num_hidden_layers": 48,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 12,
        "num_attention_heads": 24, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 512,
        "num_experts_per_tok": 10, "moe_intermediate_size": 640, "shared_expert_intermediate_size": 640,
        "linear_num_key_heads": 16, "linear_num_value_heads": 48, "hc_count": 4, "hc_lowrank": 320,
        "ple_layer_ids": [2], "ple_embed_dim": 2560, "ngram_size": 3, "heads_per_ngram": 8,
        "ngram_vocab_size_base": 20_000_000, "indexer_n_heads": 24, "indexer_head_dim": 128, "indexer_kv_heads": 1,
        "indexer_compress_ratio": 4, "mtp_num_hidden_layers": 1, "vocab_size": 248320,
        "max_position_embeddings": 262144, "mamba_ssm_dtype": "float32",
    },
    "vision_config": {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "out_hidden_size": 2560,
                      "patch_size": 16, "num_position_embeddings": 2304},
}  # fmt: skip
LING3 = {
    "architectures": ["BailingMoeV3ForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 10,
    "layer_group_size": 4, "num_attention_heads": 16, "head_dim": 128,
    "q_lora_rank": 1024, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 512, "num_shared_experts": 1,
    "first_k_dense_replace": 1, "intermediate_size": 5120, "vocab_size": 157184, "max_position_embeddings": 131072,
    "gated_attention_proj_granularity_type": "head_wise",
}  # fmt: skip
KINDRED = {
    "IQuest-Coder-V1-40B-Loop": (
        {
            "architectures": ["IQuestLoopCoderForCausalLM"], "hidden_size": 5120, "num_hidden_layers": 80,
            "num_attention_heads": 40, "num_key_value_heads": 8, "intermediate_size": 27648, "vocab_size": 76800,
            "loop_num": 2, "loop_window_size": 64,
        },
        39.8e9,
    ),
    "Eagle2.5-8B": (
        {
            "architectures": ["Eagle2_5_VLForConditionalGeneration"],
            "text_config": {"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
                            "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
                            "vocab_size": 152064},
            "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304,
                              "patch_size": 14},
        },
        8.07e9,
    ),
}  # fmt: skip


def _read(config: dict[str, Any]) -> ModelSpec:
    return read_model_config({"max_position_embeddings": 4096, **config}, name="x")


def _layout(model: ModelSpec, settings: EngineSettings, version: str) -> CacheLayout:
    engine, release = find_engine(f"vllm@{version}")
    return cache_layout(served_model(model, settings), settings, engine.rules(release).cache)


def test_flash_next_has_the_published_size_and_keeps_its_n_grams_in_host_memory() -> None:
    model = _read(FLASH_NEXT)
    assert sum(group.elements for group in model.parameters) * 2 == pytest.approx(360e9, rel=0.005)  # BF16 files
    on_cards = sum(group.elements for group in model.parameters if not group.host and not group.draft)
    assert on_cards == pytest.approx(126.3e9, rel=0.002)
    (term,) = weights_per_rank(model, find_format("bf16"))
    assert term.bytes.value == pytest.approx(2 * on_cards, rel=0.002)


def test_a_sequence_of_flash_next_takes_what_vllm_asks_for() -> None:
    """7.17 GiB for 262,144 tokens with one proposed token, in a build shortly before 0.33."""
    settings = EngineSettings(max_num_batched_tokens=2048, speculation=Speculation("mtp", 1))
    layout = _layout(_read(FLASH_NEXT), settings, "0.33.0")
    assert layout.groups[0].block_size == 1584
    assert layout.groups[0].layers == (13,)
    assert layout.sequence_bytes(262144, 2048) == pytest.approx(7.17 * 2**30, rel=0.02)


def test_ling_3_keeps_states_beside_latent_rows() -> None:
    model = _read(LING3)
    kinds = {group.kind: group.layers for group in model.layer_groups}
    assert kinds[AttentionKind.LATENT] == (3, 7, 8, 9)  # layers past the last whole group too
    assert kinds[AttentionKind.RECURRENT] == (0, 1, 2, 4, 5, 6)
    names = {group.name for group in model.parameters}
    assert {"kda.f_proj", "self_attn.g_proj"} <= names


@pytest.mark.parametrize("name", sorted(KINDRED))
def test_kindred_models_have_their_published_sizes(name: str) -> None:
    config, total = KINDRED[name]
    assert sum(group.elements for group in _read(config).parameters) == pytest.approx(total, rel=0.01)


def test_loops_after_the_first_cache_behind_a_window() -> None:
    full, looped = _read(KINDRED["IQuest-Coder-V1-40B-Loop"][0]).layer_groups
    assert (full.kind, looped.kind, looped.window) == (AttentionKind.FULL, AttentionKind.SLIDING, 64)


def test_a_memory_beyond_the_layers_is_refused() -> None:
    text = {**FLASH_NEXT["text_config"], "ple_layer_ids": [99]}
    with pytest.raises(CotenantError, match="ple_layer_ids"):
        _read({**FLASH_NEXT, "text_config": text})
