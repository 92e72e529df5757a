"""Heads that score or embed, and dense decoders with small turns: published totals where there are any."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.catalogue.models import find_entry
from cotenant.domain.model import AttentionKind
from cotenant.readers.model_config import read_model_config

BERT = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
}  # fmt: skip
QWEN2_7B = {
    "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "tie_word_embeddings": False, "vocab_size": 152064,
}  # fmt: skip
LLAMA_1B = {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True,
}  # fmt: skip
CASES: dict[str, tuple[dict[str, Any], int]] = {
    # bert-base without its pooler (109,482,240 - 590,592) and 128 x 768
    "HF_ColBERT": ({**BERT, "dim": 128}, 108_891_648 + 128 * 768),
    # bert-base-uncased for masked words: 109,514,298 on the hub counts the tied matrix once
    "BertSpladeSparseEmbeddingModel": (BERT, 108_891_648 + 768 * 769 + 2 * 768 + 30522),
    # Qwen2.5-7B's 7,615,616,512 without its head; two layers
    "Qwen2ForRewardModel": (QWEN2_7B, 7_615_616_512 - 152064 * 3584 + 3584 * 3585 + 3585),
    "Qwen2ForSequenceClassification": (QWEN2_7B, 7_615_616_512 - 152064 * 3584 + 2 * 3584),
    "Qwen2ForProcessRewardModel": (QWEN2_7B, 7_615_616_512 - 152064 * 3584 + 3584 * 3585 + 2 * 3585),
    # gpt2: 124,439,808 and two labels
    "GPT2ForSequenceClassification": (
        {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024},
        124_439_808 + 2 * 768,
    ),
    # internlm2-7b's 7,737,708,544 without its head, one value
    "InternLM2ForRewardModel": (
        {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "intermediate_size": 14336, "vocab_size": 92544},
        7_737_708_544 - 92544 * 4096 + 4096,
    ),
    # Llama-3.2-1B's 1,235,814,400: nvidia/llama-3.2-nv-embedqa-1b-v2
    "LlamaBidirectionalModel": (LLAMA_1B, 1_235_814_400),
    "LlamaBidirectionalForSequenceClassification": ({**LLAMA_1B, "num_labels": 1}, 1_235_814_400 + 2048),
    # Qwen3-0.6B's 596,049,920 and two layers down to 512: jina-reranker-v3, "0.6B"
    "JinaForRanking": (
        {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
         "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151936, "embedding_size": 512},
        596_049_920 + 512 * 1024 + 512 * 512,
    ),
    # essential-ai/rnj-1: 8.3B
    "Rnj1ForCausalLM": (
        {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "head_dim": 128, "intermediate_size": 16384, "vocab_size": 128256, "tie_word_embeddings": True},
        8_310_501_376,
    ),
    # openPangu-Embedded-7B: 8.03B; derived
    "PanguEmbeddedForCausalLM": (
        {"hidden_size": 4096, "num_hidden_layers": 34, "num_attention_heads": 32, "num_key_value_heads": 8,
         "intermediate_size": 12800, "vocab_size": 153376, "bias": True, "tie_word_embeddings": False},
        2 * 153376 * 4096 + 4096
        + 34 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 4096 * 12800 + 2 * 4096),
    ),
    # openPangu-Ultra-MoE-718B: the name's 718B; derived, without its draft layers
    "PanguUltraMoEForCausalLM": (
        {"hidden_size": 7680, "num_hidden_layers": 61, "num_attention_heads": 128, "intermediate_size": 18432,
         "vocab_size": 153600, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1,
         "moe_intermediate_size": 2048, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
         "sandwich_norm": True},
        719_093_767_680,
    ),
    # TeleChat2-7B: 7.6B; biases on output and down projections
    "TeleChat2ForCausalLM": (
        {"hidden_size": 4096, "n_layer": 30, "n_head": 32, "num_key_value_heads": 32, "ffn_hidden_size": 12288,
         "vocab_size": 131072, "tie_word_embeddings": False},
        2 * 131072 * 4096 + 4096 + 30 * (4 * 4096 * 4096 + 3 * 4096 * 12288 + 2 * 4096 + 2 * 4096),
    ),
}  # fmt: skip


@pytest.mark.parametrize("architecture", CASES)
def test_totals(architecture: str) -> None:
    config, parameters = CASES[architecture]
    config = {"max_position_embeddings": 4096, **config, "architectures": [architecture]}
    assert read_model_config(config, name="m").num_parameters == parameters


def test_attention_in_both_directions_keeps_no_cache() -> None:
    config = {**LLAMA_1B, "architectures": ["LlamaBidirectionalModel"], "max_position_embeddings": 4096}
    model = read_model_config(config, name="m")
    assert model.encoder_only
    assert not model.has_cache
    reward = read_model_config({**config, **QWEN2_7B, "architectures": ["Qwen2ForProcessRewardModel"]}, name="m")
    assert reward.has_cache


def test_late_interaction_over_images_is_the_vision_model_with_a_projection_for_a_head() -> None:
    entry = find_entry("Qwen/Qwen3-VL-8B-Instruct")
    assert entry is not None
    config = {**entry.config, "architectures": ["ColQwen3"], "embed_dim": 320}
    full = read_model_config(entry.config, name="m").num_parameters
    assert read_model_config(config, name="m").num_parameters == full - 151936 * 4096 + 320 * 4096


def test_plamo_3_slides_in_seven_layers_of_eight() -> None:
    config = {
        "architectures": ["Plamo3ForCausalLM"], "hidden_size": 256, "num_hidden_layers": 16, "vocab_size": 1000,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 512,
        "window_size": 2048, "sliding_window_pattern": 8, "max_position_embeddings": 32768,
    }  # fmt: skip
    groups = {group.kind: group.num_layers for group in read_model_config(config, name="m").layer_groups}
    assert groups == {AttentionKind.SLIDING: 14, AttentionKind.FULL: 2}
