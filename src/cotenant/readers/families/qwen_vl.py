"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: Qwen's decoder behind a tower of its own; OpenCUA, EXAONE 4.5 too."""

from __future__ import annotations

from dataclasses import replace

from cotenant.readers.blocks import Groups, Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families.multimodal import text_structure
from cotenant.readers.vision import MOST, layer_norm, matrix, patches, vit_layers, whole

_MODALITIES = ("text", "image", "video")


def _text(config: ConfigView, kind: str) -> Structure:
    """The decoder's keys stand at the top in older files, in text_config in newer ones."""
    holder = config if "text_config" in config else config.replaced(text_config=dict(config.items()))
    tied = config.raw("tie_word_embeddings")
    section = dict(holder.section("text_config").items())
    section.update({"model_type": kind, "architectures": None})
    section.setdefault("tie_word_embeddings", tied)
    if section["tie_word_embeddings"] is None or "text_config" in config:
        section["tie_word_embeddings"] = tied if tied is not None else section["tie_word_embeddings"]
    return text_structure(holder.replaced(text_config=section), default=kind)


def _merger(
    width: int, out: int, *, norm_bias: bool = True, norm_width: int | None = None, copies: int = 1
) -> Groups:
    """A norm, then two layers from the 2 x 2 merged patches to the text width."""
    groups = layer_norm("merger.norm", norm_width or width, bias=norm_bias, copies=copies)
    groups += matrix("merger.fc1", width, width, copies=copies)
    return groups + matrix("merger.fc2", out, width, copies=copies, row=True)


def _qwen2_vl(config: ConfigView) -> Structure:
    text = _text(config, "qwen2")
    vision = config.section("vision_config")
    width = vision.integer("embed_dim", default=1280, most=MOST)
    depth = vision.integer("depth", default=32, most=10_000)
    inner = width * vision.integer("mlp_ratio", default=4, most=64)
    patch = vision.integer("patch_size", "spatial_patch_size", default=14, most=1024)
    groups = patches(width, patch, frames=vision.integer("temporal_patch_size", default=2, most=64), bias=False)
    groups += vit_layers(width, inner, depth)
    merged = width * vision.integer("spatial_merge_size", default=2, most=16) ** 2
    return text.extended(
        *groups,
        *_merger(merged, vision.integer("hidden_size", default=text.hidden_size), norm_width=width),
        modalities=_MODALITIES,
    )


def qwen25_tower(vision: ConfigView, out: int) -> Groups:
    """Qwen2.5-VL's tower: gated layers with RMS norms, no positions."""
    width = vision.integer("hidden_size", default=1280, most=MOST)
    depth = vision.integer("depth", default=32, most=10_000)
    inner = vision.integer("intermediate_size", default=3420, most=MOST)
    patch = vision.integer("patch_size", "spatial_patch_size", default=14, most=1024)
    groups = patches(width, patch, frames=vision.integer("temporal_patch_size", default=2, most=64), bias=False)
    groups += vit_layers(width, inner, depth, gated=True, norm_bias=False)
    merged = width * vision.integer("spatial_merge_size", default=2, most=16) ** 2
    out = vision.integer("out_hidden_size", default=out, most=MOST)
    return groups + _merger(merged, out, norm_bias=False, norm_width=width)


def _qwen25_vl(config: ConfigView) -> Structure:
    text = _text(config, "qwen2")
    return text.extended(*qwen25_tower(config.section("vision_config"), text.hidden_size), modalities=_MODALITIES)


def qwen3_tower(vision: ConfigView, out: int) -> Groups:
    """Qwen3-VL's tower: learned positions, one more merger for each layer that DeepStack taps."""
    width = vision.integer("hidden_size", default=1152, most=MOST)
    depth = vision.integer("depth", default=27, most=10_000)
    inner = vision.integer("intermediate_size", default=4304, most=MOST)
    patch = vision.integer("patch_size", default=16, most=1024)
    taps = vision.raw("deepstack_visual_indexes")
    copies = len(taps) if isinstance(taps, list) and len(taps) <= 1000 else 3 if taps is None else 0
    groups = patches(width, patch, frames=vision.integer("temporal_patch_size", default=2, most=64))
    groups += vit_layers(width, inner, depth)
    groups += whole("vision.positions", vision.integer("num_position_embeddings", default=2304, most=MOST), width)
    merged = width * vision.integer("spatial_merge_size", default=2, most=16) ** 2
    out = vision.integer("out_hidden_size", default=out, most=MOST)
    groups += _merger(merged, out, norm_width=width)
    return groups + (_merger(merged, out, copies=copies) if copies else ())


def _qwen3_vl(config: ConfigView) -> Structure:
    text = _text(config, "qwen3")
    return text.extended(*qwen3_tower(config.section("vision_config"), text.hidden_size), modalities=_MODALITIES)


def _qwen3_vl_moe(config: ConfigView) -> Structure:
    text = _text(config, "qwen3_moe")
    return text.extended(*qwen3_tower(config.section("vision_config"), text.hidden_size), modalities=_MODALITIES)


def _exaone45(config: ConfigView) -> Structure:
    """EXAONE 4.5: Qwen2.5-VL's tower with fewer key-value heads (vLLM, models/exaone4_5.py)."""
    text = text_structure(config, default="exaone4")
    vision = config.section("vision_config")
    width = vision.integer("hidden_size", default=1280, most=MOST)
    heads = vision.integer("num_heads", "num_attention_heads", default=16, most=2**14)
    kept = vision.integer("num_key_value_heads", default=heads, most=2**14)
    rows = width + 2 * kept * max(1, width // heads)
    tower = (
        replace(group, shape=(rows, *group.shape[1:])) if group.name.startswith("vision.qkv_proj") else group
        for group in qwen25_tower(vision, text.hidden_size)
    )
    return text.extended(*tower, modalities=_MODALITIES)


BUILDERS: dict[str, Builder] = {
    "Qwen2VLForConditionalGeneration": _qwen2_vl,
    "qwen2_vl": _qwen2_vl,
    "Qwen2_5_VLForConditionalGeneration": _qwen25_vl,
    "qwen2_5_vl": _qwen25_vl,
    "OpenCUAForConditionalGeneration": _qwen25_vl,
    "opencua": _qwen25_vl,
    "Qwen3VLForConditionalGeneration": _qwen3_vl,
    "Cosmos3ForConditionalGeneration": _qwen3_vl,
    "qwen3_vl": _qwen3_vl,
    "Qwen3VLMoeForConditionalGeneration": _qwen3_vl_moe,
    "qwen3_vl_moe": _qwen3_vl_moe,
    "InternS1ProForConditionalGeneration": _qwen3_vl_moe,
    "Exaone4_5_ForConditionalGeneration": _exaone45,
    "exaone4_5": _exaone45,
}
