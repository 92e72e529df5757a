"""Plain experts on plain attention: Mixtral, DBRX, MiniMax-M2, Granite-MoE, OLMoE, and their like."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, layer_windows, read_sizes, sparse_feed_forward


def _active(config: ConfigView, default: int) -> int:
    return config.integer("num_experts_per_tok", "moe_top_k", default=default)


def _mixtral(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    count = config.integer("num_local_experts", default=8, most=2**14)
    return dense(
        config, sizes=sizes, windows=layer_windows(config, sizes.count), num_experts=count,
        feed_forward=sparse_feed_forward(sizes, sizes.layers, count=count, inner=sizes.inner),
        experts_per_token=_active(config, 2),
    )  # fmt: skip


def _minimax_m2(config: ConfigView) -> Structure:
    """Norms over all query and all key heads together; a correction bias for the router."""
    sizes = read_sizes(config)
    count = config.integer("num_local_experts", most=2**14)
    return dense(
        config, sizes=sizes, qk_norm="full" if config.flag("use_qk_norm", default=True) else "", num_experts=count,
        feed_forward=sparse_feed_forward(
            sizes, sizes.layers, count=count, inner=sizes.inner,
            correction=config.flag("use_routing_bias", default=True),
        ),
        experts_per_token=_active(config, 8),
    )  # fmt: skip


def _dbrx(config: ConfigView) -> Structure:
    attn, ffn = config.section("attn_config"), config.section("ffn_config")
    inner = ffn.integer("ffn_hidden_size", most=2**20)
    count = ffn.integer("moe_num_experts", default=4, most=2**14)
    kv_heads = attn.integer("kv_n_heads", default=1)
    sizes = read_sizes(config.replaced(num_key_value_heads=kv_heads, intermediate_size=inner))
    return dense(
        config, sizes=sizes, num_experts=count, experts_per_token=ffn.integer("moe_top_k", default=1),
        feed_forward=sparse_feed_forward(sizes, sizes.layers, count=count, inner=inner),
    )  # fmt: skip


def _granite_moe(config: ConfigView) -> Structure:
    """Granite's experts; GraniteMoeSWA sets sliding layers and sinks beside them."""
    sizes = read_sizes(config, tied=True)
    count = config.integer("num_local_experts", default=8, most=2**14)
    bias = config.flag("attention_bias")
    shared = config.integer("shared_intermediate_size", default=0, least=0)
    slides = "layer_types" in config
    return dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias, num_experts=count,
        windows=layer_windows(config, sizes.count) if slides else None, sinks=slides,
        feed_forward=sparse_feed_forward(sizes, sizes.layers, count=count, inner=sizes.inner, shared=shared),
        experts_per_token=_active(config, 2),
    )  # fmt: skip


def _olmoe(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    count = config.integer("num_experts", default=64, most=2**14)
    return dense(
        config, sizes=sizes, qk_norm="full", num_experts=count, experts_per_token=_active(config, 8),
        feed_forward=sparse_feed_forward(sizes, sizes.layers, count=count, inner=sizes.inner),
    )  # fmt: skip


BUILDERS: dict[str, Builder] = {
    "MixtralForCausalLM": _mixtral,
    "mixtral": _mixtral,
    "MiniMaxM2ForCausalLM": _minimax_m2,
    "minimax_m2": _minimax_m2,
    "DbrxForCausalLM": _dbrx,
    "dbrx": _dbrx,
    "GraniteMoeForCausalLM": _granite_moe,
    "GraniteMoeSharedForCausalLM": _granite_moe,
    "GraniteMoeSWAForCausalLM": _granite_moe,
    "granitemoe": _granite_moe,
    "granitemoeshared": _granite_moe,
    "OlmoeForCausalLM": _olmoe,
    "olmoe": _olmoe,
}
