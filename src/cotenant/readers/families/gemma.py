"""Gemma 1 to 3: tied embeddings, four norms a layer from the second on, five sliding layers to one full."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, layer_windows, read_sizes
from cotenant.readers.vision import siglip_tower

_VOCAB = 262_208  # Gemma 3's class default: its multimodal configs leave most sizes out
_GEMMA3 = {
    "vocab_size": _VOCAB, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
    "sliding_window": 4096,
}  # fmt: skip

_SO400M = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14, "image_size": 896,
}  # fmt: skip


def _gemma(config: ConfigView) -> Structure:
    sizes = read_sizes(config.with_defaults(head_dim=256), tied=True)
    return dense(config, sizes=sizes, qkv_bias=config.flag("attention_bias"))


def _gemma2(config: ConfigView) -> Structure:
    """Every second layer slides, the first included."""
    sizes = read_sizes(config.with_defaults(head_dim=256), tied=True)
    windows = layer_windows(config, sizes.count, pattern=2, default=4096)
    return dense(config, sizes=sizes, norms=4, windows=windows)


def _gemma3(config: ConfigView) -> Structure:
    config = config.with_defaults(**_GEMMA3)
    sizes = read_sizes(config, tied=True)
    pattern = config.integer("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return dense(
        config, sizes=sizes, norms=4, qk_norm="head", windows=layer_windows(config, sizes.count, pattern=pattern)
    )


def _gemma3_vision(config: ConfigView) -> Structure:
    """SigLIP without a pooling head, a norm and one projection to the text width."""
    text = _gemma3(config.text_section())
    vision = config.section("vision_config")
    if "vision_config" not in config:  # every one published has the same tower
        vision = vision.with_defaults(**_SO400M)
    tower = siglip_tower(vision, text.hidden_size)
    return text.extended(*tower, modalities=("text", "image"))


BUILDERS: dict[str, Builder] = {
    "GemmaForCausalLM": _gemma,
    "gemma": _gemma,
    "Gemma2ForCausalLM": _gemma2,
    "Gemma2Model": _gemma2,
    "gemma2": _gemma2,
    "Gemma3ForCausalLM": _gemma3,
    "Gemma3TextModel": _gemma3,
    "gemma3_text": _gemma3,
    "Gemma3ForConditionalGeneration": _gemma3_vision,
    "gemma3": _gemma3_vision,
}
