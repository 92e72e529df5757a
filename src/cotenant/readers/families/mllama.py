"""Llama 3.2 Vision: Llama with cross-attention layers over the image's tokens."""

from __future__ import annotations

from cotenant.domain.model import AttentionKind, LayerGroup, Role
from cotenant.readers.blocks import (
    Groups,
    Structure,
    attention,
    cache_groups,
    gated_mlp,
    norm,
    split_layers,
    vector,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, structure
from cotenant.readers.vision import layer_norm, matrix, patches, tower_sizes, vit_layers, whole

_IMAGE_TOKENS = 8  # rows of the embedding beyond the head's vocabulary


def _text(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    cross, own = split_layers(sizes.layers, config.integers("cross_attention_layers"))
    shape = (sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
    groups = vocabulary(sizes.vocab + _IMAGE_TOKENS, sizes.hidden, tied=sizes.tied, head_rows=sizes.vocab)
    groups += attention(own, *shape) if own else ()
    if cross:
        groups += attention(cross, *shape, qk_norm="head")
        groups += vector("cross_attn_gates", 1, role=Role.OTHER, layers=cross, copies=2)
    groups += gated_mlp(sizes.layers, sizes.hidden, sizes.inner)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2) + norm("norm", sizes.hidden)
    return structure(sizes, groups, _caches(sizes, own, cross))


def _caches(sizes: Sizes, own: tuple[int, ...], cross: tuple[int, ...]) -> tuple[LayerGroup, ...]:
    widths = (sizes.heads, sizes.kv_heads, sizes.head_dim)
    groups = cache_groups([None] * len(own), *widths, layers=own) if own else ()
    if cross:
        groups += (LayerGroup(AttentionKind.CROSS, cross, *widths, sizes.head_dim),)
    return groups


def _tower(config: ConfigView, out: int) -> Groups:
    """Local and global layers (the global ones gated), positions for every tiling of the image."""
    hidden, inner, depth, patch = tower_sizes(
        config, hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, patch_size=14
    )
    above = config.integer("num_global_layers", default=8, most=10_000)
    tiles = config.integer("max_num_tiles", default=4, most=1024)
    ratios = config.raw("supported_aspect_ratios")
    tilings = 1 + (len(ratios) if isinstance(ratios, list) else 8)
    rows = (config.integer("image_size", default=448) // patch) ** 2 + 1
    groups = patches(hidden, patch, bias=False)
    groups += vit_layers(hidden, inner, depth + above, qkv_bias=False, out_bias=False)
    groups += whole("vision.gates", 1, copies=2 * above + 3) + whole("vision.class_token", hidden)
    groups += layer_norm("vision.outer_norms", hidden, copies=2) + whole("vision.positions", rows, hidden)
    groups += whole("vision.tile_positions", tilings, tiles * rows * hidden)
    groups += whole("vision.tile_embeddings", tilings, tiles * hidden, copies=2)
    return groups + matrix("projector", out, config.integer("vision_output_dim", default=7680))


def _mllama(config: ConfigView) -> Structure:
    text = _text(config.text_section())
    return text.extended(*_tower(config.section("vision_config"), text.hidden_size), modalities=("text", "image"))


BUILDERS: dict[str, Builder] = {
    "MllamaForConditionalGeneration": _mllama,
    "mllama": _mllama,
    "MllamaForCausalLM": _text,
    "mllama_text_model": _text,
}
