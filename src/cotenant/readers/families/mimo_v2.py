"""Xiaomi's MiMo-V2: sliding and full layers with head counts of their own, values narrower than keys."""

from __future__ import annotations

from typing import NamedTuple

from cotenant.domain.model import LayerGroup, Role, Split
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    attention,
    cache_groups,
    draft,
    gated_mlp,
    linear,
    norm,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, sparse_feed_forward, structure


def _ones(config: ConfigView, key: str, count: int) -> tuple[int, ...]:
    values = config.integers(key, most=1)
    if len(values) != count:
        config.fault(key, f"names {len(values)} layers of {count}")
    return tuple(n for n, value in enumerate(values[:count]) if value)


class _Heads(NamedTuple):
    """Head counts and widths of one kind of layer."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int


def _shape(config: ConfigView, prefix: str, sizes: Sizes) -> _Heads:
    """The sliding layers' shape stands under `swa_` keys."""
    return _Heads(
        config.integer(f"{prefix}num_attention_heads", default=sizes.heads),
        config.integer(f"{prefix}num_key_value_heads", default=sizes.kv_heads),
        config.integer(f"{prefix}head_dim", default=sizes.head_dim),
        config.integer(f"{prefix}v_head_dim", default=sizes.head_dim),
    )


def _attention(sizes: Sizes, layers: Layers, shape: _Heads, *, bias: bool, sinks: bool) -> Groups:
    return attention(layers, sizes.hidden, *shape[:3], value_dim=shape.value_dim, qkv_bias=bias, sinks=sinks)


def _draft(config: ConfigView, sizes: Sizes, swa: _Heads, sinks: bool) -> Groups:
    """Draft layers are sliding and dense; the config does not count them, the checkpoint holds three."""
    count = config.integer("num_nextn_predict_layers", default=3, least=0, most=64)
    layer = _attention(sizes, (0,), swa, bias=False, sinks=sinks) + gated_mlp((0,), sizes.hidden, sizes.inner)
    layer += norm("layernorm", sizes.hidden, layers=(0,), copies=5)
    layer += linear("eh_proj", sizes.hidden, 2 * sizes.hidden, role=Role.OTHER, split=Split.NONE)
    return draft(layer * count)


def _mimo_v2(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    sliding, full = split_layers(sizes.layers, _ones(config, "hybrid_layer_pattern", sizes.count))
    bias = config.flag("attention_bias")
    swa, wide = _shape(config, "swa_", sizes), _shape(config, "", sizes)
    sinks = config.flag("add_swa_attention_sink_bias")
    window = config.integer("sliding_window", "sliding_window_size", default=128)
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    caches: tuple[LayerGroup, ...] = ()
    for layers, shape, sunk, span in (
        (full, wide, config.flag("add_full_attention_sink_bias"), None), (sliding, swa, sinks, window),
    ):  # fmt: skip
        if layers:
            groups += _attention(sizes, layers, shape, bias=bias, sinks=sunk)
            caches += cache_groups([span] * len(layers), *shape[:3], value_dim=shape.value_dim, layers=layers)
    count = config.integer("n_routed_experts")
    groups += sparse_feed_forward(
        sizes, _ones(config, "moe_layer_freq", sizes.count), count=count,
        inner=config.integer("moe_intermediate_size"), correction=config.text("topk_method") == "noaux_tc",
        shared=config.integer("n_shared_experts", default=0, least=0) * config.integer("moe_intermediate_size"),
    )  # fmt: skip
    groups += _draft(config, sizes, swa, sinks)
    active = config.integer("num_experts_per_tok", default=8)
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


BUILDERS: dict[str, Builder] = {
    "MiMoV2FlashForCausalLM": _mimo_v2,
    "MiMoV2ForCausalLM": _mimo_v2,
    "mimo_v2_flash": _mimo_v2,
}
