"""Pixtral and Mistral Small from Mistral's own files (params.json); the hub's form is LLaVA's or Mistral 3's."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families.multimodal import text_structure
from cotenant.readers.vision import layer_norm, matrix, pixtral_layers, tower_sizes, two_layer_projector


def _pixtral(config: ConfigView) -> Structure:
    """A norm and a merger of patches where the file says so (vLLM, models/pixtral.py)."""
    text = text_structure(config, default="mistral")
    vision = config.section("vision_config")
    width, *_ = tower_sizes(vision, hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, patch_size=16)
    groups = pixtral_layers(vision)
    if vision.flag("add_pre_mm_projector_layer_norm"):
        groups += layer_norm("projector.norm", width, bias=False)
    if vision.text("mm_projector_id") == "patch_merge":
        merged = width * vision.integer("spatial_merge_size", default=1, most=16) ** 2
        groups += matrix("projector.patch_merger", width, merged, bias=False)
    bias = vision.flag("adapter_bias", default=True)
    groups += two_layer_projector(text.hidden_size, width, bias=bias)
    return text.extended(*groups, modalities=("text", "image"))


BUILDERS: dict[str, Builder] = {"PixtralForConditionalGeneration": _pixtral}
