"""DeepSeek with eyes: VL2 (SigLIP) and OCR (SAM's encoder before CLIP's), behind a DeepSeek decoder."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import Role
from cotenant.readers.blocks import Groups, Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense
from cotenant.readers.families.deepseek import _deepseek_v1, latent_model
from cotenant.readers.vision import clip_layers, layer_norm, matrix, patches, siglip_layers, vit_layers, whole

# The towers are named in vLLM's code, not in the config (models/deepseek_vl2.py, deepseek_ocr.py, deepencoder.py).
_SIGLIP = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14, "image_size": 384,
}  # fmt: skip
_CLIP = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 14, "image_size": 224,
}  # fmt: skip
_READER = {
    "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
    "num_key_value_heads": 2,
}  # fmt: skip
_READER_QUERIES = (144, 256)  # of a tile of 768 pixels, of 1,024
_SAM_WIDTH, _SAM_DEPTH, _SAM_GLOBAL, _SAM_HEAD, _SAM_PATCHES, _SAM_WINDOW = 768, 12, 4, 64, 64, 14


def _text(config: ConfigView) -> Structure:
    """Without latent attention where all of its widths are 0 (`use_mla` false): DeepSeek-MoE's plain layer."""
    text = config.section("language_config", "text_config")
    widths = [text.integer(f"qk_{name}_head_dim", default=0, least=0) for name in ("nope", "rope")]
    if any(widths):
        return latent_model(text.with_defaults(topk_method="greedy", vocab_size=config.raw("vocab_size")))
    return _deepseek_v1(text.replaced(head_dim=None))


def _projector(config: ConfigView, hidden: int) -> Groups:
    section = config.section("projector_config")
    inputs = section.integer("input_dim", default=1152, most=2**20)
    out = section.integer("n_embed", default=hidden, most=2**20)
    groups = whole("image_newline", out) + whole("view_separator", out)
    if section.text("projector_type", default="downsample_mlp_gelu") == "linear":
        return groups + matrix("projector", out, inputs)
    middle = out * section.integer("mlp_ratio", default=1, most=64)
    merged = inputs * section.integer("downsample_ratio", default=2, most=16) ** 2
    groups += matrix("projector.linear_1", middle, merged)
    between = section.integer("depth", default=2, least=2, most=64) - 2
    groups += matrix("projector.linear_between", middle, middle, copies=between) if between else ()
    return groups + matrix("projector.linear_2", out, middle, row=True)


def _vl2(config: ConfigView) -> Structure:
    """timm's SigLIP, with the attention pool that it makes and nobody calls."""
    text = _text(config)
    width, inner = _SIGLIP["hidden_size"], _SIGLIP["intermediate_size"]
    groups = siglip_layers(ConfigView(_SIGLIP)) + whole("vision.pool.query", width)
    groups += matrix("vision.pool.q", width, width) + matrix("vision.pool.kv", 2 * width, width)
    groups += matrix("vision.pool.out", width, width) + layer_norm("vision.pool.norm", width)
    groups += matrix("vision.pool.fc1", inner, width) + matrix("vision.pool.fc2", width, inner)
    return text.extended(*groups, *_projector(config, text.hidden_size), modalities=("text", "image"))


def _sam(out: int = 1024) -> Groups:
    """SAM ViT-B at 1,024 pixels: relative positions by window or over the image, a neck, convolutions to `out`."""
    width, side = _SAM_WIDTH, _SAM_PATCHES
    groups = patches(width, 16, name="sam") + whole("sam.positions", side * side, width)
    groups += vit_layers(width, 4 * width, _SAM_DEPTH, name="sam")
    groups += whole("sam.window_positions", 2 * _SAM_WINDOW - 1, _SAM_HEAD, copies=2 * (_SAM_DEPTH - _SAM_GLOBAL))
    groups += whole("sam.global_positions", 2 * side - 1, _SAM_HEAD, copies=2 * _SAM_GLOBAL)
    groups += whole("sam.neck.conv1", 256, width) + whole("sam.neck.conv2", 256, 256 * 9)
    groups += layer_norm("sam.neck.norms", 256, copies=2)
    return groups + whole("sam.net_2", 512, 256 * 9) + whole("sam.net_3", out, 512 * 9)


def _clip() -> Groups:
    """CLIP ViT-L/14 without the norm behind its last layer."""
    width = _CLIP["hidden_size"]
    return tuple(
        group if group.name != "vision.outer_norms" else layer_norm("vision.pre_norm", width)[0]
        for group in clip_layers(ConfigView(_CLIP))
    )


def _ocr(config: ConfigView) -> Structure:
    text = _text(config)
    return text.extended(*_sam(), *_clip(), *_projector(config, text.hidden_size), modalities=("text", "image"))


def _ocr2(config: ConfigView) -> Structure:
    """Qwen2's layers over SAM's patches and as many learned queries (vLLM, models/deepseek_ocr2.py)."""
    text = _text(config)
    section = config.section("projector_config")
    encoder = dense(ConfigView({**_READER, "vocab_size": 1}), qkv_bias=True).parameters
    width = _READER["hidden_size"]
    groups = _sam(width) + whole("vision.queries", sum(_READER_QUERIES), width)
    for group in encoder:
        if group.name not in ("embed_tokens", "lm_head"):
            copies = group.copies * max(1, len(group.layers))
            groups += (replace(group, name=f"vision.{group.name}", role=Role.VISION, copies=copies, layers=()),)
    inputs = section.integer("input_dim", default=width, most=2**20)
    out = section.integer("n_embed", default=text.hidden_size, most=2**20)
    groups += matrix("projector", out, inputs) + whole("view_separator", out)
    return text.extended(*groups, modalities=("text", "image"))


BUILDERS: dict[str, Builder] = {
    "DeepseekVLV2ForCausalLM": _vl2,
    "deepseek_vl_v2": _vl2,
    "DeepseekOCRForCausalLM": _ocr,
    "UnlimitedOCRForCausalLM": _ocr,
    "deepseek_ocr": _ocr,
    "DeepseekOCR2ForCausalLM": _ocr2,
    "deepseek_ocr2": _ocr2,
}
