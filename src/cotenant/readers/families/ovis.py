"""Ovis 2.5 and 2.6: SigLIP 2 as a tokenizer of images, whose tokens have an embedding table of their own."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families.multimodal import text_structure
from cotenant.readers.vision import layer_norm, patches, tower_sizes, vit_layers, whole

_INDICATORS = 4  # visual tokens that mark where an image begins and ends: no output of the tower


def _ovis(config: ConfigView) -> Structure:
    """Source: vLLM, models/ovis2_5.py and siglip2navit.py."""
    text = text_structure(config, default="qwen3", key="llm_config" if "llm_config" in config else "text_config")
    vision = config.section("vit_config", "vision_config")
    hidden, inner, depth, patch = tower_sizes(
        vision, hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, patch_size=16
    )
    groups = patches(hidden, patch) + vit_layers(hidden, inner, depth) + layer_norm("vision.post_norm", hidden)
    if vision.flag("preserve_original_pe", default=True):
        counted = vision.raw("num_patches")
        rows = (
            counted
            if isinstance(counted, int) and counted > 0
            else (vision.side("image_size", default=512) // patch) ** 2
        )
        groups += whole("vision.positions", rows, hidden)
    tokens = config.integer("visual_vocab_size", default=65536, least=_INDICATORS + 1, most=2**24)
    merged = hidden * vision.integer("hidden_stride", default=2, most=16) ** 2
    outputs = tokens - _INDICATORS
    groups += whole("vision.head", outputs, merged) + layer_norm("vision.head.norm", outputs)
    groups += whole("vision.token_embedding", tokens, config.integer("hidden_size", default=text.hidden_size))
    return text.extended(*groups, modalities=("text", "image", "video"))


BUILDERS: dict[str, Builder] = {
    "Ovis2_5": _ovis,
    "ovis2_5": _ovis,
    "Ovis2_6ForCausalLM": _ovis,
    "Ovis2_6_MoeForCausalLM": _ovis,
}
