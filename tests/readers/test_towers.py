"""Models with eyes and ears beside another family's decoder: the published totals, to the last parameter.

A total is of the safetensors on the model's page on the hub unless its line says otherwise. What vLLM leaves out
of a checkpoint is added here by hand, so that the whole is compared. Where no total is public to the parameter,
the sum follows from the model's file in vLLM 0.33: its line says "derived".
"""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.domain.model import Role
from cotenant.readers.model_config import read_model_config


def linear(outputs: int, inputs: int) -> int:
    """Weights and bias."""
    return outputs * inputs + outputs


def siglip_layer(width: int = 1152, inner: int = 4304) -> int:
    return 4 * linear(width, width) + linear(inner, width) + linear(width, inner) + 4 * width


def siglip_pool(width: int = 1152, inner: int = 4304) -> int:
    """A query, attention, a norm and an MLP: stored with many towers, loaded by few engines."""
    return width + 4 * linear(width, width) + 2 * width + linear(inner, width) + linear(width, inner)


def count(**config: Any) -> int:
    return read_model_config({"max_position_embeddings": 4096, **config}, name="m").num_parameters


PHI_4_MM = {
    "architectures": ["Phi4MMForCausalLM"], "hidden_size": 3072, "num_hidden_layers": 32,
    "num_attention_heads": 24, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 200064, "tie_word_embeddings": True,
    "audio_processor": {"name": "cascades", "config": {
        "attention_dim": 1024, "attention_heads": 16, "num_blocks": 24, "linear_units": 1536, "kernel_size": 3,
        "ext_pw_out_channel": 1024, "ext_pw_kernel_size": 1, "depthwise_seperable_out_channel": 1024,
        "input_size": 80, "time_reduction": 8, "nemo_conv_settings": {"conv_channels": 1024},
        "relative_attention_bias_args": {"t5_bias_max_distance": 500, "type": "t5"}}},
}  # fmt: skip


def test_phi_4_multimodal_without_its_adapters_and_the_towers_last_layer() -> None:
    """5,574,460,384 with two LoRAs (ranks 256 and 320 on four projections), SigLIP's last layer, norm, pool."""
    widths = (3072 + 5120) + (3072 + 3072) + (3072 + 16384) + (8192 + 3072)
    adapters = 32 * (256 + 320) * widths
    assert count(**PHI_4_MM) + adapters + siglip_layer() + 2 * 1152 + siglip_pool() == 5_574_460_384


DEEPSEEK_3B = {
    "hidden_size": 1280, "num_hidden_layers": 12, "num_attention_heads": 10, "num_key_value_heads": 10,
    "intermediate_size": 6848, "moe_intermediate_size": 896, "n_routed_experts": 64, "n_shared_experts": 2,
    "first_k_dense_replace": 1, "num_experts_per_tok": 6, "vocab_size": 129280, "use_mla": False,
    "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0, "kv_lora_rank": None, "q_lora_rank": None,
    "topk_method": "greedy", "max_position_embeddings": 8192,
}  # fmt: skip
DEEPSEEK_V2_LITE = {
    "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
    "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
    "first_k_dense_replace": 1, "num_experts_per_tok": 6, "vocab_size": 102400, "q_lora_rank": None,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "max_position_embeddings": 4096,
}  # fmt: skip


def test_deepseek_ocr_has_two_encoders_and_no_latent_attention() -> None:
    config = {
        "architectures": ["DeepseekOCRForCausalLM"], "language_config": DEEPSEEK_3B, "vision_config": {},
        "projector_config": {"input_dim": 2048, "n_embed": 1280, "projector_type": "linear"},
    }  # fmt: skip
    model = read_model_config(config, name="m")
    assert model.num_parameters == 3_336_106_240
    assert sum(group.elements_per_token for group in model.layer_groups) == 12 * 2 * 1280
    assert model.max_model_len == 8192


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        (DEEPSEEK_3B, 3_370_501_440),  # VL2-tiny: 3.37B
        (DEEPSEEK_V2_LITE, 16_148_349_504),  # VL2-small: 16.1B
        (
            {
                **DEEPSEEK_V2_LITE, "hidden_size": 2560, "num_hidden_layers": 30, "num_attention_heads": 32,
                "num_key_value_heads": 32, "intermediate_size": 12288, "moe_intermediate_size": 1536,
                "n_routed_experts": 72, "vocab_size": 129280, "topk_method": "noaux_tc",
            },
            27_480_134_248,  # VL2: 27.5B
        ),
    ],
)  # fmt: skip
def test_deepseek_vl2(text: dict[str, Any], parameters: int) -> None:
    width = text["hidden_size"]
    config = {"language_config": text, "projector_config": {"n_embed": width}, "vision_config": {}}
    assert count(architectures=["DeepseekVLV2ForCausalLM"], **config) == parameters


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (  # allenai/Molmo-7B-D-0924
            {
                "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
                "intermediate_size": 37888, "vocab_size": 152064, "embedding_size": 152064, "qkv_bias": True,
            },
            8_021_025_280,
        ),
        (  # allenai/Molmo-72B-0924: 73.3B
            {
                "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
                "intermediate_size": 59136, "vocab_size": 152064, "embedding_size": 152064, "qkv_bias": True,
            },
            73_308_285_952,
        ),
        (  # allenai/Molmo-7B-O-0924: 7.67B; norms on whole queries and keys
            {
                "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                "intermediate_size": 22016, "vocab_size": 100278, "embedding_size": 100352, "attention_layer_norm": True,
            },
            7_665_032_192,
        ),
    ],
)  # fmt: skip
def test_molmo(config: dict[str, Any], parameters: int) -> None:
    assert count(architectures=["MolmoForCausalLM"], **config) == parameters


def test_dots_ocr() -> None:
    config = {
        "architectures": ["DotsOCRForCausalLM"], "hidden_size": 1536, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "intermediate_size": 8960, "vocab_size": 151936,
        "attention_bias": True, "tie_word_embeddings": False,
        "vision_config": {"embed_dim": 1536, "hidden_size": 1536, "intermediate_size": 4224,
                          "num_hidden_layers": 42, "patch_size": 14, "post_norm": True, "use_bias": False},
    }  # fmt: skip
    assert count(**config) == 3_039_179_264


def test_paddleocr_vl() -> None:
    """958,588,736 with the pooling head and 32,768 packed positions that vLLM leaves out ("0.9B")."""
    config = {
        "architectures": ["PaddleOCRVLForConditionalGeneration"], "hidden_size": 1024, "num_hidden_layers": 18,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 3072,
        "vocab_size": 103424, "use_bias": False, "tie_word_embeddings": False,
        "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                          "patch_size": 14, "image_size": 384},
    }  # fmt: skip
    assert count(**config) + siglip_pool() + 32768 * 1152 == 958_588_736


def test_glm_ocr() -> None:
    """Derived: 0.9B of decoder and tower, and one draft layer that shares embedding and head."""
    config = {
        "architectures": ["GlmOcrForConditionalGeneration"],
        "text_config": {"hidden_size": 1536, "num_hidden_layers": 16, "num_attention_heads": 16,
                        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 4608, "vocab_size": 59392,
                        "num_nextn_predict_layers": 1, "tie_word_embeddings": False,
                        "max_position_embeddings": 131072},
        "vision_config": {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16,
                          "out_hidden_size": 1536, "patch_size": 14},
    }  # fmt: skip
    model = read_model_config(config, name="m")
    layer = 2 * 1536 * 2048 + 2 * 1536 * 1024 + 3 * 1536 * 4608 + 4 * 1536
    text = 2 * 59392 * 1536 + 16 * layer + 1536
    block = 4 * linear(1024, 1024) + 2 * linear(4096, 1024) + linear(1024, 4096) + 2 * 1024 + 2 * 64
    tower = linear(1024, 3 * 2 * 14 * 14) + 24 * block + 1024 + linear(1536, 4 * 1024)
    merger = 1536 * 1536 + 2 * 1536 + 3 * 1536 * 4608
    assert model.num_parameters == text + tower + merger == 1_107_405_824
    assert model.num_draft_parameters == layer + 3 * 1536 + 2 * 1536 * 1536
    assert sum(g.elements for g in model.parameters if g.role is Role.VISION) == tower + merger
