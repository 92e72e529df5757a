"""IBM's Granite Speech: a conformer trained by CTC and a two-layer Q-Former before Granite."""

from __future__ import annotations

from cotenant.readers.blocks import Groups, Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder
from cotenant.readers.families.multimodal import text_structure
from cotenant.readers.vision import MOST, layer_norm, matrix, whole


def _encoder(config: ConfigView) -> Groups:
    """Feed-forward halves, attention with relative positions, a gated convolution (vLLM, granite_speech.py)."""
    width = config.integer("hidden_dim", default=1024, most=MOST)
    depth = config.integer("num_layers", default=10, most=10_000)
    head = config.integer("dim_head", default=128, most=MOST)
    inner = head * config.integer("num_heads", default=8, most=2**14)
    wide = width * config.integer("feedforward_mult", default=4, most=64)
    conv = width * config.integer("conv_expansion_factor", default=2, most=64)
    groups = matrix("encoder.up", wide, width, copies=2 * depth)
    groups += matrix("encoder.down", width, wide, copies=2 * depth, row=True)
    groups += whole("encoder.qkv", 3 * inner, width, copies=depth) + whole(
        "encoder.out", width, inner + 1, copies=depth
    )
    groups += whole("encoder.relative", 2 * config.integer("max_pos_emb", default=512) + 1, head, copies=depth)
    groups += whole("encoder.conv.up", 2 * conv, width + 1, copies=depth)
    groups += whole(
        "encoder.conv.depth", conv, config.integer("conv_kernel_size", default=15, most=1024), copies=depth
    )
    groups += whole("encoder.conv.down", width, conv + 1, copies=depth)
    groups += layer_norm("encoder.conv.batch_norm", conv, copies=depth)
    groups += layer_norm("encoder.norms", width, copies=5 * depth)
    labels = config.integer("output_dim", default=42, most=2**24)
    groups += whole("encoder.input", width, config.integer("input_dim", default=160, most=MOST) + 1)
    return groups + matrix("encoder.ctc", labels, width) + matrix("encoder.ctc_back", width, labels, row=True)


def _query_former(config: ConfigView, queries: int) -> Groups:
    """BLIP-2's: each layer attends to the queries, every n-th to the audio too (vLLM, models/blip2.py)."""
    width = config.integer("hidden_size", default=768, most=MOST)
    inner = config.integer("intermediate_size", default=3072, most=MOST)
    depth = config.integer("num_hidden_layers", default=12, most=10_000)
    outer = config.integer("encoder_hidden_size", default=1408, most=MOST)
    crossing = -(-depth // config.integer("cross_attention_frequency", default=2, most=64))
    groups = whole("projector.query", queries, width) + layer_norm("projector.norm", width)
    groups += matrix("projector.attention", width, width, copies=4 * depth + 2 * crossing)
    groups += matrix("projector.cross_kv", width, outer, copies=2 * crossing)
    groups += matrix("projector.fc1", inner, width, copies=depth) + matrix(
        "projector.fc2", width, inner, copies=depth
    )
    return groups + layer_norm("projector.norms", width, copies=2 * depth + crossing)


def _granite_speech(config: ConfigView) -> Structure:
    """Its LoRA for speech, where the checkpoint has one, is an adapter: engines load it beside the model."""
    text = text_structure(config, default="granite")
    projector = config.section("projector_config")
    rate = config.integer("downsample_rate", default=5, most=1024)
    queries = max(1, config.integer("window_size", default=15, most=2**16) // rate)
    groups = _encoder(config.section("encoder_config")) + _query_former(projector, queries)
    groups += matrix(
        "projector.linear", text.hidden_size, projector.integer("hidden_size", default=768, most=MOST)
    )
    return text.extended(*groups, modalities=("text", "audio"))


BUILDERS: dict[str, Builder] = {
    "GraniteSpeechForConditionalGeneration": _granite_speech,
    "granite_speech": _granite_speech,
}
