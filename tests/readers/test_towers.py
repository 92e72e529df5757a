"""Models with eyes and ears beside another family's decoder: the published totals, to the last parameter.

A total is of the safetensors on the model's page on the hub unless its line says otherwise. What vLLM leaves out
of a checkpoint is added here by hand, so that the whole is compared. Where no total is public to the parameter,
the sum follows from the model's file in vLLM 0.33: its line says "derived".
"""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.catalogue.models import find_entry
from cotenant.domain.model import Role
from cotenant.errors import FormatError, UnknownArchitectureError
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
    "num_attention_heads": 24, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 200064,
    "tie_word_embeddings": True,
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
                "intermediate_size": 22016, "vocab_size": 100278, "embedding_size": 100352,
                "attention_layer_norm": True,
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


def test_gemma_4_unified_has_no_tower() -> None:
    """Derived: 40 sliding layers of 8 heads of 256, 8 global ones of one of 512 whose values are its keys."""
    hidden, inner, patch = 3840, 15360, 3 * 48 * 48
    config = {
        "architectures": ["Gemma4UnifiedForConditionalGeneration"],
        "text_config": {
            "hidden_size": hidden, "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 8,
            "num_global_key_value_heads": 1, "attention_k_eq_v": True, "head_dim": 256, "global_head_dim": 512,
            "intermediate_size": inner, "vocab_size": 262144, "hidden_size_per_layer_input": 0,
        },
        "vision_config": {"mm_embed_dim": hidden, "mm_posemb_size": 1120, "output_proj_dims": hidden,
                          "patch_size": 16, "pooling_kernel_size": 3},
        "audio_config": {"audio_embed_dim": 640},
    }  # fmt: skip
    text = 262144 * hidden + hidden + 48 * (3 * hidden * inner + 4 * hidden)
    text += 40 * (hidden * (4096 + 2 * 2048 + 4096) + 2 * 256) + 8 * (hidden * (8192 + 512 + 8192) + 2 * 512)
    seen = hidden * patch + hidden + 2 * 1120 * hidden + 2 * (patch + 2 * hidden) + hidden * hidden
    assert count(**config) == text + seen + 640 * hidden


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


QWEN2_7B = {
    "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_8B = {
    "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
    "tie_word_embeddings": False, "max_position_embeddings": 40960,
}  # fmt: skip
CLIP_E = {
    "hidden_size": 1792, "intermediate_size": 15360, "num_hidden_layers": 63, "patch_size": 14,
    "num_positions": 6401,
}  # fmt: skip
TOWERS: dict[str, tuple[dict[str, Any], int]] = {
    "AIDC-AI/Ovis2.5-9B": (  # 9.17B: Qwen3-8B's 8,190,735,360, a tower, a head and a table of 65,536 visual tokens
        {
            "architectures": ["Ovis2_5"], "llm_config": QWEN3_8B, "hidden_size": 4096, "visual_vocab_size": 65536,
            "vit_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                           "patch_size": 16, "image_size": 512, "num_patches": -1, "hidden_stride": 2},
        },
        8_190_735_360 + linear(1152, 768) + 27 * siglip_layer() + 2 * 1152 + 1024 * 1152
        + 65532 * 4608 + 2 * 65532 + 65536 * 4096,
    ),
    "stepfun-ai/step3": (  # 321B on its card, 316B of them text; derived
        {
            "architectures": ["Step3VLForConditionalGeneration"], "hidden_size": 7168,
            "text_config": {"moe_layers_enum": ",".join(map(str, range(4, 60))), "share_q_dim": 2048},
            "vision_config": {"hidden_size": 1792, "intermediate_size": 15360, "num_hidden_layers": 63,
                              "patch_size": 14, "image_size": 728},
        },
        320_969_920_000,
    ),
    "zai-org/glm-4v-9b": (  # 13.9B; derived
        {
            "architectures": ["GLM4VForCausalLM"], "hidden_size": 4096, "num_layers": 40,
            "num_attention_heads": 32, "multi_query_attention": True, "multi_query_group_num": 2,
            "kv_channels": 128, "add_qkv_bias": True,
            "ffn_hidden_size": 13696, "padded_vocab_size": 151552, "seq_length": 8192, "vision_config": CLIP_E,
        },
        13_906_320_896,
    ),
    "openbmb/MiniCPM-o-2_6": (  # derived; the hub's 8.67B hold a speech decoder that is not loaded
        {
            **QWEN2_7B, "architectures": ["MiniCPMO"], "vocab_size": 151700, "version": 2.6, "query_num": 64,
            "vision_config": {"hidden_size": 1152, "image_size": 980, "intermediate_size": 4304,
                              "num_hidden_layers": 27, "patch_size": 14},
            "audio_config": {"d_model": 1024, "encoder_layers": 24, "encoder_ffn_dim": 4096, "num_mel_bins": 80},
        },
        8_423_157_488,
    ),
    "fixie-ai/ultravox-v0_5-llama-3_1-8b": (  # Llama 3.1 8B, Whisper large v3 turbo's encoder, a projector
        {
            "architectures": ["UltravoxModel"], "hidden_size": 4096, "projector_ln_mid": True, "stack_factor": 8,
            "text_model_id": "meta-llama/Llama-3.1-8B-Instruct", "audio_model_id": "openai/whisper-large-v3-turbo",
        },
        8_030_261_248 + 636_968_960 + 10240 + 4096 * 10240 + 2048 + 4096 * 2048,
    ),
    "moonshotai/Kimi-Audio-7B": (  # derived: what vLLM loads of it
        {**QWEN2_7B, "architectures": ["MoonshotKimiaForCausalLM"], "vocab_size": 168448},
        7_615_616_512 + 2 * 3584 * (168448 - 152064) + 636_968_960
        + linear(3584, 5120) + linear(3584, 3584) + 2 * 3584,
    ),
    "ibm-granite/granite-speech-3.3-8b": (  # 8.65B
        {
            "architectures": ["GraniteSpeechForConditionalGeneration"],
            "text_config": {"model_type": "granite", "hidden_size": 4096, "num_hidden_layers": 40,
                            "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 12800,
                            "vocab_size": 49160, "tie_word_embeddings": True},
            "encoder_config": {"hidden_dim": 1024, "num_layers": 16, "dim_head": 128, "num_heads": 8,
                               "feedforward_mult": 4, "conv_expansion_factor": 2, "conv_kernel_size": 15,
                               "max_pos_emb": 512, "output_dim": 348, "input_dim": 160},
            "projector_config": {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2,
                                 "encoder_hidden_size": 1024, "cross_attention_frequency": 1},
        },
        8_648_834_396,
    ),
    "baidu/ERNIE-4.5-VL-28B-A3B-PT": (  # 29.4B; text and images have experts of 1,536 and of 512
        {
            "architectures": ["Ernie4_5_VLMoeForConditionalGeneration"], "hidden_size": 2560,
            "num_hidden_layers": 28, "num_attention_heads": 20, "num_key_value_heads": 4,
            "intermediate_size": 12288, "vocab_size": 103424, "moe_num_experts": [64, 64],
            "moe_intermediate_size": [1536, 512], "moe_layer_start_index": [1, 1], "moe_layer_end_index": [29, 28],
            "moe_num_shared_experts": 2, "moe_k": 6, "tie_word_embeddings": True, "use_bias": False,
            "vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 1280, "mlp_ratio": 4, "num_heads": 16,
                              "patch_size": 14},
        },
        29_399_294_336,
    ),
    "xlangai/OpenCUA-7B": (  # Qwen2.5-VL-7B's
        {
            "architectures": ["OpenCUAForConditionalGeneration"],
            "text_config": {**QWEN2_7B, "vocab_size": 152064},
            "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "patch_size": 14},
        },
        8_292_166_656,
    ),
    "nvidia/audio-flamingo-3-hf": (  # derived: Qwen2.5-7B, Whisper large v3's encoder, a projector
        {
            "architectures": ["AudioFlamingo3ForConditionalGeneration"], "audio_config": {},
            "text_config": {**QWEN2_7B, "vocab_size": 152064},
        },
        7_615_616_512 + 636_968_960 + linear(3584, 1280) + linear(3584, 3584),
    ),
    "allenai/Molmo2-8B": (  # derived: Qwen3-8B, 25 of 27 layers, 577 positions, pooling, a gated projector
        {
            "architectures": ["Molmo2ForConditionalGeneration"],
            "text_config": {**QWEN3_8B, "use_qk_norm": True, "qk_norm_type": "qwen3"},
            "vit_config": {}, "adapter_config": {"intermediate_size": 12288, "vit_layers": [-3, -9]},
        },
        8_190_735_360 + 128 * 4096 + linear(1152, 588) + 25 * siglip_layer() + 577 * 1152
        + 3 * linear(1152, 2304) + linear(1152, 1152) + 2 * 12288 * 1152 + 4096 * 12288,
    ),
    "nvidia/Llama-3.1-Nemotron-Nano-VL-8B-V1": (  # 8.72B; derived
        {
            "architectures": ["Llama_Nemotron_Nano_VL"], "vit_hidden_size": 1280, "projector_hidden_size": 4096,
            "llm_config": {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
                           "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
                           "vocab_size": 128256},
            "vision_config": {"args": {"model": "vit_huge_patch16_224"}}, "downsample_ratio": 0.5,
        },
        8_030_261_248 + 1280 * 768 + 128 * 128 * 1280 + 1280 + 32 * siglip_layer(1280, 5120)
        + 2 * 5120 + linear(4096, 5120) + linear(4096, 4096),
    ),
    "deepseek-ai/DeepSeek-OCR-2": (
        {
            "architectures": ["DeepseekOCR2ForCausalLM"], "language_config": DEEPSEEK_3B,
            "projector_config": {"input_dim": 896, "n_embed": 1280, "projector_type": "linear"},
        },
        3_389_119_360,
    ),
    "stepfun-ai/Step3-VL-10B": (  # derived: Qwen3-8B, 47 layers of 1,536 with layer scale, two convolutions
        {
            "architectures": ["StepVLForConditionalGeneration"], "text_config": QWEN3_8B, "projector_bias": False,
            "vision_config": {"width": 1536, "layers": 47, "heads": 16, "mlp_ratio": 8960 / 1536,
                              "image_size": 728, "patch_size": 14, "ls_init_value": 0.1, "use_ln_post": False},
        },
        8_190_735_360 + 1536 * 588 + 47 * (siglip_layer(1536, 8960) + 2 * 1536) + 2 * 1536 + 52 * 52 * 1536
        + linear(3072, 9 * 1536) + linear(6144, 9 * 3072) + 4096 * 6144,
    ),
    "mistralai/Mistral-Small-3.1-24B, params.json": (
        {
            "dim": 5120, "n_layers": 40, "head_dim": 128, "hidden_dim": 32768, "n_heads": 32, "n_kv_heads": 8,
            "norm_eps": 1e-5, "rope_theta": 1e9, "vocab_size": 131072,
            "vision_encoder": {"hidden_size": 1024, "num_channels": 3, "image_size": 1540, "patch_size": 14,
                               "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
                               "spatial_merge_size": 2, "mm_projector_id": "patch_merge", "adapter_bias": False,
                               "add_pre_mm_projector_layer_norm": True},
        },
        24_011_361_280,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOWERS)
def test_totals(name: str) -> None:
    config, parameters = TOWERS[name]
    assert count(**config) == parameters


def test_nemotron_nano_vl_is_its_text_model_behind_radio() -> None:
    """Derived: 32 layers of 1,280, 128 x 128 positions, 8 class tokens of 3 teachers, a projector of 5,120."""
    entry = find_entry("nvidia/NVIDIA-Nemotron-Nano-12B-v2")
    assert entry is not None
    text = read_model_config(entry.config, name="text")
    config = {
        "architectures": ["NemotronH_Nano_VL_V2"], "llm_config": entry.config, "projector_hidden_size": 20480,
        "vit_hidden_size": 1280, "downsample_ratio": 0.5,
        "vision_config": {"patch_size": 16, "args": {
            "model": "vit_huge_patch16_224", "cpe_max_size": 2048, "register_multiple": 8,
            "teachers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}},
    }  # fmt: skip
    tower = 1280 * 768 + 128 * 128 * 1280 + 8 * 1280 + 32 * siglip_layer(1280, 5120)
    projector = 5120 + 20480 * 5120 + text.hidden_size * 20480
    assert count(**config) == text.num_parameters + tower + projector
    with pytest.raises(FormatError, match="Parakeet"):
        count(**config, sound_config={"hidden_size": 1})


def test_exaone_4_5_has_fewer_key_value_heads_in_its_tower() -> None:
    vision = {"depth": 28, "hidden_size": 2048, "num_heads": 32, "intermediate_size": 5120, "patch_size": 14}
    text = {
        "model_type": "exaone4", "hidden_size": 5120, "num_hidden_layers": 4, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 27392, "vocab_size": 1000,
    }  # fmt: skip
    base = {"architectures": ["Exaone4_5_ForConditionalGeneration"], "text_config": text}
    full = count(**base, vision_config=vision)
    fewer = count(**base, vision_config={**vision, "num_key_value_heads": 8})
    assert full - fewer == 28 * 2 * (2048 - 8 * 64) * 2049


def test_params_json_with_experts_is_refused_by_name() -> None:
    with pytest.raises(UnknownArchitectureError, match=r"params\.json with moe"):
        count(dim=4096, n_layers=32, hidden_dim=14336, n_heads=32, vocab_size=32000, moe={"num_experts": 8})
