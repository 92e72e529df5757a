"""Vision-language models whose language model is another family's: LLaVA, Mistral 3, Pixtral, InternVL, ..."""

from __future__ import annotations

from cotenant.readers.blocks import Groups, Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families import find_builder
from cotenant.readers.vision import (
    clip_layers,
    image_positions,
    layer_norm,
    matrix,
    patches,
    pixtral_layers,
    siglip_layers,
    tower_sizes,
    two_layer_projector,
    vit_layers,
    whole,
)


def text_structure(config: ConfigView, *, default: str, key: str = "text_config") -> Structure:
    """The language model's structure, by its own architecture or model type, else `default`'s."""
    text = config.text_section(key)
    if text is config:
        text = config.replaced(architectures=None, model_type=default)
    text = text.with_defaults(tie_word_embeddings=config.raw("tie_word_embeddings"))
    architectures = text.texts("architectures")
    names = (*architectures[:1], text.text("model_type"), default)
    builder = next((found for found in map(find_builder, filter(None, names)) if found is not None), None)
    if builder is None:
        text.fault("model_type", f"is {names[0]!r}, a language model that no rule covers")
        builder = find_builder(default)
    if builder is None:  # a family file names a default of its own
        raise LookupError(default)
    return builder(text)


def _with_images(text: Structure, groups: Groups) -> Structure:
    return text.extended(*groups, modalities=("text", "image"))


def _tower(config: ConfigView) -> Groups:
    """The tower that `vision_config.model_type` names."""
    kind = config.text("model_type", default="clip_vision_model")
    if kind == "pixtral":
        return pixtral_layers(config)
    if kind == "siglip_vision_model":
        return siglip_layers(config)
    if kind != "clip_vision_model":
        config.fault("model_type", f"is {kind!r}, a vision tower that no rule covers")
    return clip_layers(config)


def _llava(config: ConfigView) -> Structure:
    vision = config.section("vision_config")
    text = text_structure(config, default="llama")
    inputs = vision.integer("hidden_size", default=768)
    return _with_images(text, _tower(vision) + two_layer_projector(text.hidden_size, inputs))


def _llava_next(config: ConfigView) -> Structure:
    """LLaVA-NeXT marks the ends of image rows with one learned vector."""
    built = _llava(config)
    return built.extended(*whole("image_newline", built.hidden_size))


def _mistral3(config: ConfigView) -> Structure:
    """Mistral Small 3.1 and later: Pixtral's tower, patches merged 2 x 2 before the projector."""
    vision = config.section("vision_config")
    text = text_structure(config, default="mistral")
    width = vision.integer("hidden_size", default=1024)
    merge = config.integer("spatial_merge_size", default=2, most=16)
    bias = config.flag("multimodal_projector_bias")
    groups = pixtral_layers(vision) + layer_norm("projector.norm", width, bias=False)
    groups += matrix("projector.patch_merger", width, width * merge * merge, bias=False)
    return _with_images(text, groups + two_layer_projector(text.hidden_size, width, bias=bias))


def _internvl(config: ConfigView) -> Structure:
    """InternVL 1.5 to 3.5: InternViT (layer scale, a class token), pixel shuffle by 2, a two-layer projector."""
    key = "llm_config" if "llm_config" in config else "text_config"
    text = text_structure(config, default="qwen2", key=key)
    vision = config.section("vision_config")
    hidden, inner, depth, patch = tower_sizes(
        vision, hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, patch_size=14
    )
    bias = vision.flag("qkv_bias", default=vision.flag("attention_bias", default=True))
    rms = vision.text("norm_type") == "rms_norm"
    groups = patches(hidden, patch) + vit_layers(hidden, inner, depth, qkv_bias=bias, norm_bias=not rms, scales=2)
    if vision.flag("qk_normalization") or vision.flag("use_qk_norm"):
        groups += layer_norm("vision.qk_norms", hidden, bias=False, copies=2 * depth)
    groups += whole("vision.class_token", hidden)
    groups += whole("vision.positions", image_positions(vision, patch, default=448) + 1, hidden)
    merged = hidden * 4
    groups += layer_norm("projector.norm", merged) + two_layer_projector(text.hidden_size, merged)
    return _with_images(text, groups)


def _idefics3(config: ConfigView) -> Structure:
    """Idefics 3 and SmolVLM: SigLIP, pixel shuffle by `scale_factor`, one projection."""
    text = text_structure(config, default="llama")
    vision = config.section("vision_config")
    scale = config.integer("scale_factor", default=2, most=64)
    width = vision.integer("hidden_size", default=1152)
    tower = siglip_layers(
        vision, image=224, hidden_size=1152, intermediate_size=3072, num_hidden_layers=12, patch_size=32
    )
    return _with_images(text, tower + matrix("connector", text.hidden_size, width * scale * scale, bias=False))


def _cohere2_vision(config: ConfigView) -> Structure:
    """Command A Vision: SigLIP, patches merged 2 x 2, a gated projector of half the aligned width."""
    text = text_structure(config, default="cohere2")
    vision = config.section("vision_config")
    width = vision.integer("hidden_size", default=1152)
    merged = width * config.integer("downsample_factor", default=2, most=64) ** 2
    aligned = config.integer("alignment_intermediate_size", default=36864)
    tower = siglip_layers(vision, image=512, hidden_size=1152, num_hidden_layers=27)
    groups = tower + matrix("projector.linear_1", aligned, merged)
    return _with_images(
        text, groups + matrix("projector.linear_2", text.hidden_size, max(1, aligned // 2), row=True)
    )


def _paligemma(config: ConfigView) -> Structure:
    text = text_structure(config, default="gemma")
    vision = config.section("vision_config")
    width = vision.integer("hidden_size", default=768)
    return _with_images(text, siglip_layers(vision) + matrix("projector", text.hidden_size, width))


def _aya_vision(config: ConfigView) -> Structure:
    """Aya Vision: SigLIP, patches merged 2 x 2, a norm, a gated projector of half the aligned width."""
    built = _cohere2_vision(config)
    width = config.section("vision_config").integer("hidden_size", default=1152)
    return built.extended(
        *layer_norm("projector.norm", width * config.integer("downsample_factor", default=2, most=64) ** 2)
    )


def _lfm2_vl(config: ConfigView) -> Structure:
    """LFM2-VL: SigLIP 2 on 16 x 16 positions, patches merged, a norm, a two-layer projector."""
    text = text_structure(config, default="lfm2")
    vision = config.section("vision_config")
    hidden, inner, depth, patch = tower_sizes(
        vision, hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, patch_size=16
    )
    tower = patches(hidden, patch) + vit_layers(hidden, inner, depth) + layer_norm("vision.post_norm", hidden)
    tower += whole("vision.positions", vision.integer("num_patches", default=256), hidden)
    merged = hidden * config.integer("downsample_factor", default=2, most=64) ** 2
    bias = config.flag("projector_bias", default=True)
    middle = config.integer("projector_hidden_size", default=2560, most=2**20)
    if config.flag("projector_use_layernorm", default=True):
        tower += layer_norm("projector.norm", merged)
    tower += matrix("projector.linear_1", middle, merged, bias=bias)
    return _with_images(text, tower + matrix("projector.linear_2", text.hidden_size, middle, bias=bias, row=True))


BUILDERS: dict[str, Builder] = {
    "LlavaForConditionalGeneration": _llava,
    "llava": _llava,
    "LlavaNextForConditionalGeneration": _llava_next,
    "llava_next": _llava_next,
    "LlavaNextVideoForConditionalGeneration": _llava_next,
    "llava_next_video": _llava_next,
    "LlavaOnevisionForConditionalGeneration": _llava_next,
    "llava_onevision": _llava_next,
    "AyaVisionForConditionalGeneration": _aya_vision,
    "aya_vision": _aya_vision,
    "InternS1ForConditionalGeneration": _internvl,
    "interns1": _internvl,
    "Lfm2VlForConditionalGeneration": _lfm2_vl,
    "lfm2_vl": _lfm2_vl,
    "Mistral3ForConditionalGeneration": _mistral3,
    "mistral3": _mistral3,
    "InternVLChatModel": _internvl,
    "internvl_chat": _internvl,
    "InternVLForConditionalGeneration": _internvl,
    "internvl": _internvl,
    "Idefics3ForConditionalGeneration": _idefics3,
    "idefics3": _idefics3,
    "SmolVLMForConditionalGeneration": _idefics3,
    "smolvlm": _idefics3,
    "Cohere2VisionForConditionalGeneration": _cohere2_vision,
    "cohere2_vision": _cohere2_vision,
    "PaliGemmaForConditionalGeneration": _paligemma,
    "paligemma": _paligemma,
}
