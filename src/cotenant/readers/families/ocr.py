"""Small readers of documents: dots.ocr, PaddleOCR-VL and GLM-OCR."""

from __future__ import annotations

from cotenant.domain.model import Role, Split
from cotenant.readers.blocks import Structure, attention, draft, gated_mlp, linear, norm
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, read_sizes
from cotenant.readers.families.glm_v import _glm5_tower
from cotenant.readers.families.llama import _ernie
from cotenant.readers.families.qwen import _qwen2
from cotenant.readers.vision import MOST, layer_norm, matrix, patches, siglip_layers, tower_sizes, vit_layers


def _dots_ocr(config: ConfigView) -> Structure:
    """Qwen2 behind a gated tower without biases; patches merged 2 x 2 (vLLM, models/dots_ocr.py)."""
    text = _qwen2(config)
    vision = config.section("vision_config").with_defaults(embed_dim=1536)
    width = vision.integer("embed_dim", most=MOST)
    _, inner, depth, patch = tower_sizes(
        vision, hidden_size=1536, intermediate_size=4224, num_hidden_layers=42, patch_size=14
    )
    bias = vision.flag("use_bias")
    groups = patches(width, patch) + layer_norm("vision.patch_norm", width, bias=False)
    groups += vit_layers(
        width, inner, depth, qkv_bias=bias, out_bias=bias, mlp_bias=bias, gated=True, norm_bias=False
    )
    groups += layer_norm("vision.post_norm", width, bias=False) if vision.flag("post_norm", default=True) else ()
    merged = width * vision.integer("spatial_merge_size", default=2, most=16) ** 2
    groups += layer_norm("merger.norm", width) + matrix("merger.fc1", merged, merged)
    out = vision.integer("hidden_size", default=text.hidden_size, most=MOST)
    return text.extended(*groups, *matrix("merger.fc2", out, merged, row=True), modalities=("text", "image"))


def _paddle_ocr(config: ConfigView) -> Structure:
    """ERNIE 4.5 behind SigLIP; patches merged 2 x 2 (vLLM, models/paddleocr_vl.py, which leaves out the pooling
    head and the packed positions of the checkpoint)."""
    text_config = config.text_section()
    tied = config.raw("tie_word_embeddings")
    text = _ernie(text_config if tied is None else text_config.replaced(tie_word_embeddings=tied))
    vision = config.section("vision_config")
    sizes = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14}
    width = vision.integer("hidden_size", default=1152, most=MOST)
    groups = siglip_layers(vision, image=384, **sizes) + layer_norm("projector.norm", width)
    groups += matrix("projector.linear_1", 4 * width, 4 * width)
    groups += matrix("projector.linear_2", text.hidden_size, 4 * width, row=True)
    return text.extended(*groups, modalities=("text", "image"))


def _glm_ocr(config: ConfigView) -> Structure:
    """GLM-4's layer behind GLM-5's tower; one draft layer (vLLM, models/glm_ocr.py, glm_ocr_mtp.py)."""
    text_config = config.text_section()
    sizes = read_sizes(text_config)
    bias = text_config.flag("attention_bias")
    text = dense(text_config, sizes=sizes, qkv_bias=bias, norms=4)
    vision = config.section("vision_config")
    vision = vision.with_defaults(projection_intermediate_size=sizes.inner, out_hidden_size=sizes.hidden)
    groups = _glm5_tower(vision)
    count = text_config.integer("num_nextn_predict_layers", default=0, least=0, most=64)
    if count:
        layer = attention((0,), sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=bias)
        layer += gated_mlp((0,), sizes.hidden, sizes.inner)
        layer += norm("layernorm", sizes.hidden, layers=(0,), copies=4)
        layer += norm("enorm", sizes.hidden, copies=3)
        layer += linear("eh_proj", sizes.hidden, 2 * sizes.hidden, role=Role.OTHER, split=Split.NONE)
        groups += draft(layer * count)
    return text.extended(*groups, modalities=("text", "image", "video"))


BUILDERS: dict[str, Builder] = {
    "DotsOCRForCausalLM": _dots_ocr,
    "dots_ocr": _dots_ocr,
    "PaddleOCRVLForConditionalGeneration": _paddle_ocr,
    "paddleocr_vl": _paddle_ocr,
    "GlmOcrForConditionalGeneration": _glm_ocr,
    "glm_ocr": _glm_ocr,
}
