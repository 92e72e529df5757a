"""Phi-4-multimodal: Phi-4-mini behind SigLIP and a conformer for speech. Its modality LoRAs are adapters."""

from __future__ import annotations

from cotenant.readers.blocks import Groups, Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families.phi import _phi3
from cotenant.readers.vision import MOST, layer_norm, matrix, siglip_layers, two_layer_projector, whole

# vLLM, models/phi4mm.py, get_navit_vision_model: the tower is not in the config. The hidden state before the last
# of 27 layers is taken, so that 26 are loaded, without the last norm.
_SIGLIP = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 26, "patch_size": 14, "image_size": 448,
}  # fmt: skip


def _images(hidden: int) -> Groups:
    """The tower, two learned separators and a projector of two layers."""
    width = _SIGLIP["hidden_size"]
    tower = tuple(group for group in siglip_layers(ConfigView(_SIGLIP)) if group.name != "vision.post_norm")
    return tower + whole("vision.separators", width, copies=2) + two_layer_projector(hidden, width)


def _block(config: ConfigView, width: int, depth: int) -> Groups:
    """Half a feed-forward, attention, a convolution in three parts, the other half (vLLM, phi4mm_utils.py)."""
    inner = config.integer("linear_units", default=2048, most=MOST)
    kernel = config.integer("kernel_size", default=3, most=1024)
    reach = config.integer("ext_pw_kernel_size", default=1, most=1024)
    groups = layer_norm("audio.norms", width, copies=5 * depth)
    groups += matrix("audio.feed_forward.glu", 2 * inner, width, copies=2 * depth)
    groups += matrix("audio.feed_forward.out", width, inner, copies=2 * depth)
    groups += matrix("audio.attention", width, width, copies=4 * depth)
    groups += whole("audio.conv.outer", width, width * reach + 1, copies=depth)
    groups += whole("audio.conv.glu", 2 * width, width * reach, copies=depth)
    groups += whole("audio.conv.glu.biases", 4 * width, copies=depth)  # of the convolution, and its b1 and b2
    groups += whole("audio.conv.depthwise", width, kernel + 1, copies=depth)  # with its bias
    return groups + matrix("audio.conv.pointwise", width, width, copies=depth)


def _subsampling(config: ConfigView, width: int) -> Groups:
    """NeMo's strided convolutions: one plain, then pairs of depthwise and pointwise, and a linear layer."""
    channels = config.section("nemo_conv_settings").integer("conv_channels", default=256, most=MOST)
    steps = max(1, config.integer("time_reduction", default=8, most=1024).bit_length() - 1)
    bands = config.integer("input_size", default=80, most=2**14)
    groups = whole("audio.subsampling.conv", channels, 10) + whole("audio.band_norm", 2 * bands)
    if steps > 1:
        groups += whole("audio.subsampling.depthwise", channels, 10, copies=steps - 1)
        groups += matrix("audio.subsampling.pointwise", channels, channels, copies=steps - 1)
    for _ in range(steps):
        bands = -(-bands // 2)
    return groups + matrix("audio.subsampling.out", width, channels * bands)


def _speech(config: ConfigView, hidden: int) -> Groups:
    """The conformer, a table of relative positions, and two projectors: for speech alone, and beside images."""
    encoder = config.section("audio_processor").section("config")
    width = encoder.integer("attention_dim", default=1024, most=MOST)
    depth = encoder.integer("num_blocks", default=24, most=10_000)
    heads = encoder.integer("attention_heads", default=16, most=2**14)
    reach = encoder.section("relative_attention_bias_args").integer("t5_bias_max_distance", default=1000)
    groups = _subsampling(encoder, width) + _block(encoder, width, depth)
    groups += whole("audio.relative_bias", 2 * reach, heads)
    return groups + two_layer_projector(hidden, width) + two_layer_projector(hidden, width)


def _phi4mm(config: ConfigView) -> Structure:
    text = _phi3(config)
    groups = _images(text.hidden_size) + _speech(config, text.hidden_size)
    return text.extended(*groups, modalities=("text", "image", "audio"))


BUILDERS: dict[str, Builder] = {"Phi4MMForCausalLM": _phi4mm, "phi4mm": _phi4mm}
