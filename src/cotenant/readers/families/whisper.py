"""Encoder-decoders: Whisper (speech) and T5. The decoder also keeps the encoder's keys and values."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import AttentionKind, LayerGroup, ParameterGroup, Role, Split, Stage
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    cache_groups,
    gated_mlp,
    linear,
    norm,
    plain_mlp,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import MOST_WIDTH, Builder, Sizes, structure
from cotenant.readers.vision import layer_norm, matrix, whole


def _projections(name: str, hidden: int, inner: int, layers: Layers, *, key_bias: bool, bias: bool) -> Groups:
    """Queries, keys, values and output of full multi-head attention."""
    groups: Groups = ()
    for letter, has_bias in (("q", bias), ("k", key_bias), ("v", bias)):
        groups += linear(f"{name}.{letter}_proj", inner, hidden, role=Role.ATTENTION, layers=layers, bias=has_bias)
    return groups + linear(
        f"{name}.o_proj", hidden, inner, role=Role.ATTENTION, layers=layers, bias=bias, row=True
    )


def _caches(sizes: Sizes) -> tuple[LayerGroup, ...]:
    """Self-attention over what was written, cross-attention over the encoder's tokens."""
    widths = (sizes.heads, sizes.heads, sizes.head_dim)
    cross = LayerGroup(AttentionKind.CROSS, sizes.layers, *widths, sizes.head_dim)
    return (*cache_groups([None] * sizes.count, *widths), cross)


def _whisper(config: ConfigView) -> Structure:
    """No bias on keys; the encoder is counted with the audio tower."""
    hidden = config.integer("d_model", most=MOST_WIDTH)
    heads = config.integer("decoder_attention_heads", most=2**14)
    layers = tuple(range(config.integer("decoder_layers", most=10_000)))
    inner = config.integer("decoder_ffn_dim", most=MOST_WIDTH)
    tied = config.flag("tie_word_embeddings", default=True)
    sizes = Sizes(
        layers,
        hidden,
        heads,
        heads,
        max(1, hidden // heads),
        inner,
        config.integer("vocab_size", most=2**24),
        tied,
    )
    length = config.integer("max_target_positions", default=448)
    groups = vocabulary(sizes.vocab, hidden, tied=sizes.tied)
    groups += (ParameterGroup("embed_positions", Role.EMBEDDING, (length, hidden), stage=Stage.FIRST),)
    for name in ("self_attn", "encoder_attn"):
        groups += _projections(name, hidden, hidden, layers, key_bias=False, bias=True)
    groups += plain_mlp(layers, hidden, inner, bias=True)
    groups += norm("layernorm", hidden, layers=layers, bias=True, copies=3) + norm("norm", hidden, bias=True)
    built = replace(structure(sizes, groups, _caches(sizes)), max_model_len=length)
    return built.extended(*whisper_encoder(config), modalities=("text", "audio"))


def whisper_encoder(config: ConfigView, *, positions: bool = True) -> Groups:
    """Two convolutions over mel bands, positions, layers without a bias on keys."""
    hidden = config.integer("d_model", "hidden_size", most=MOST_WIDTH)
    depth = config.integer("encoder_layers", "num_hidden_layers", most=10_000)
    inner = config.integer("encoder_ffn_dim", "intermediate_size", most=MOST_WIDTH)
    mels = config.integer("num_mel_bins", default=80, most=2**14)
    rows = config.integer("max_source_positions", default=1500)
    groups = whole("encoder.conv1", hidden, mels * 3) + whole("encoder.conv2", hidden, hidden * 3)
    groups += whole("encoder.conv.bias", hidden, copies=2)
    groups += whole("encoder.positions", rows, hidden) if positions else ()
    for name, bias in (("q", True), ("k", False), ("v", True), ("out", True)):
        groups += matrix(f"encoder.{name}_proj", hidden, hidden, bias=bias, copies=depth, row=name == "out")
    groups += matrix("encoder.fc1", inner, hidden, copies=depth)
    groups += matrix("encoder.fc2", hidden, inner, copies=depth, row=True)
    return groups + layer_norm("encoder.norms", hidden, copies=2 * depth + 1)


def _t5(config: ConfigView) -> Structure:
    """Relative position biases in the first layer of each stack; one embedding for both stacks."""
    hidden = config.integer("d_model", most=MOST_WIDTH)
    heads, head_dim = config.integer("num_heads", most=2**14), config.integer("d_kv", most=MOST_WIDTH)
    count = config.integer("num_layers", most=10_000)
    above = config.integer("num_decoder_layers", default=count, most=10_000)
    inner = config.integer("d_ff", most=MOST_WIDTH)
    tied = config.flag("tie_word_embeddings", default=True)
    layers = tuple(range(above))
    sizes = Sizes(layers, hidden, heads, heads, head_dim, inner, config.integer("vocab_size", most=2**24), tied)
    mlp = gated_mlp if config.text("feed_forward_proj").startswith("gated") else plain_mlp
    buckets = config.integer("relative_attention_num_buckets", default=32)
    encoder = _projections("encoder", hidden, heads * head_dim, (0,), key_bias=False, bias=False)
    encoder += mlp((0,), hidden, inner, name="encoder.mlp") + norm("encoder.norm", hidden, layers=(0,), copies=2)
    groups = tuple(replace(group, layers=(), copies=group.copies * count) for group in encoder)
    groups += vocabulary(sizes.vocab, hidden, tied=tied) + norm("norms", hidden, copies=2)
    groups += (ParameterGroup("relative_bias", Role.OTHER, (buckets, heads), Split.NONE, 2),)
    for name in ("self_attn", "encoder_attn"):
        groups += _projections(name, hidden, heads * head_dim, layers, key_bias=False, bias=False)
    groups += mlp(layers, hidden, inner) + norm("layernorm", hidden, layers=layers, copies=3)
    return structure(sizes, groups, _caches(sizes))


BUILDERS: dict[str, Builder] = {
    "WhisperForConditionalGeneration": _whisper,
    "whisper": _whisper,
    "T5ForConditionalGeneration": _t5,
    "MT5ForConditionalGeneration": _t5,
    "t5": _t5,
    "mt5": _t5,
}
