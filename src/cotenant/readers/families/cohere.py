"""Cohere's Command: attention and MLP in parallel behind one norm, tied embeddings."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, layer_windows, read_sizes, sparse_feed_forward


def _cohere(config: ConfigView) -> Structure:
    """With `use_qk_norm` every head has a norm weight of its own: "full" width."""
    bias = config.flag("attention_bias")
    return dense(
        config,
        norms=1,
        tied=True,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="full" if config.flag("use_qk_norm") else "",
    )


def _cohere2(config: ConfigView) -> Structure:
    """Three layers slide, the fourth sees everything."""
    sizes = read_sizes(config, tied=True)
    bias = config.flag("attention_bias")
    pattern = config.integer("sliding_window_pattern", "_sliding_window_pattern", default=4)
    windows = layer_windows(config, sizes.count, pattern=pattern, default=4096)
    return dense(config, sizes=sizes, norms=1, qkv_bias=bias, out_bias=bias, windows=windows)


def _cohere2_moe(config: ConfigView) -> Structure:
    """Command A's experts, in parallel with attention behind one norm; the head is the embedding."""
    sizes = read_sizes(config, tied=True)
    bias = config.flag("attention_bias")
    pattern = config.integer("sliding_window_pattern", "_sliding_window_pattern", default=4)
    count = config.integer("num_experts")
    kinds = config.texts("mlp_layer_types")
    sparse = tuple(n for n in sizes.layers if len(kinds) != sizes.count or kinds[n] == "sparse")
    shared = config.integer("num_shared_experts", default=0, least=0, most=64) * sizes.inner
    return dense(
        config, sizes=sizes, norms=1, qkv_bias=bias, out_bias=bias, num_experts=count,
        windows=layer_windows(config, sizes.count, pattern=pattern, default=4096),
        feed_forward=sparse_feed_forward(sizes, sparse, count=count, inner=sizes.inner, shared=shared),
        experts_per_token=config.integer("num_experts_per_tok", default=2),
    )  # fmt: skip


BUILDERS: dict[str, Builder] = {
    "CohereForCausalLM": _cohere,
    "cohere": _cohere,
    "Cohere2ForCausalLM": _cohere2,
    "cohere2": _cohere2,
    "Cohere2MoeForCausalLM": _cohere2_moe,
    "cohere2_moe": _cohere2_moe,
}
