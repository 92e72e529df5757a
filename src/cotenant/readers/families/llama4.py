"""Llama 4: chunked attention in three layers of four, one routed and one shared expert a token."""

from __future__ import annotations

from cotenant.domain.model import AttentionKind
from cotenant.readers.blocks import Groups, Structure, attention, cache_groups, norm, split_layers, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, Windows, read_sizes, sparse_feed_forward, structure
from cotenant.readers.vision import image_positions, layer_norm, matrix, tower_sizes, vit_layers, whole


def _chunks(config: ConfigView, sizes: Sizes) -> Windows:
    """Every fourth layer has no positions and sees everything; the others see their chunk."""
    chunk = config.optional_integer("attention_chunk_size", least=1)
    kinds = config.texts("layer_types")
    if kinds and len(kinds) == sizes.count:
        return [chunk if kind == "chunked_attention" else None for kind in kinds]
    flags = config.integers("no_rope_layers", most=1)
    if len(flags) == sizes.count:
        return [chunk if flag else None for flag in flags]
    step = config.integer("no_rope_layer_interval", default=4)
    return [None if (n + 1) % step == 0 else chunk for n in sizes.layers]


def _sparse(config: ConfigView, sizes: Sizes) -> tuple[int, ...]:
    if "moe_layers" in config:
        return config.integers("moe_layers")
    step = config.integer("interleave_moe_layer_step", default=1)
    return tuple(n for n in sizes.layers if (n + 1) % step == 0)


def _llama4_text(config: ConfigView) -> Structure:
    """`intermediate_size` is an expert's width, `intermediate_size_mlp` that of layers without experts."""
    sizes = read_sizes(config.with_defaults(head_dim=128))
    sparse, _ = split_layers(sizes.layers, _sparse(config, sizes))
    count = config.integer("num_local_experts", default=16)
    bias = config.flag("attention_bias")
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += attention(
        sizes.layers, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=bias, out_bias=bias
    )
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    groups += sparse_feed_forward(
        sizes, sparse, count=count, inner=sizes.inner, shared=sizes.inner,
        plain_inner=config.integer("intermediate_size_mlp", default=16384),
    )  # fmt: skip
    caches = cache_groups(
        _chunks(config, sizes), sizes.heads, sizes.kv_heads, sizes.head_dim, windowed=AttentionKind.CHUNKED
    )
    active = config.integer("num_experts_per_tok", default=1)
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


def _tower(config: ConfigView, out: int) -> Groups:
    hidden, inner, depth, patch = tower_sizes(
        config, hidden_size=768, intermediate_size=5632, num_hidden_layers=34, patch_size=14
    )
    groups = matrix("vision.patch_embed", hidden, 3 * patch * patch, bias=False) + vit_layers(hidden, inner, depth)
    groups += layer_norm("vision.outer_norms", hidden, copies=2) + whole("vision.class_token", hidden)
    groups += whole("vision.positions", image_positions(config, patch, default=448) + 1, hidden)
    middle = config.integer("projector_input_dim", default=4096)
    last = config.integer("projector_output_dim", default=4096)
    groups += matrix("vision.adapter.fc1", middle, inner, bias=False)
    groups += matrix("vision.adapter.fc2", last, middle, bias=False)
    vision_out = config.integer("vision_output_dim", default=7680)
    return groups + matrix("projector", out, vision_out, bias=False)


def _llama4(config: ConfigView) -> Structure:
    text = _llama4_text(config.text_section())
    return text.extended(*_tower(config.section("vision_config"), text.hidden_size), modalities=("text", "image"))


BUILDERS: dict[str, Builder] = {
    "Llama4ForCausalLM": _llama4_text,
    "llama4_text": _llama4_text,
    "Llama4ForConditionalGeneration": _llama4,
    "llama4": _llama4,
}
