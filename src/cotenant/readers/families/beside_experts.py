"""A dense feed-forward beside the experts of every layer: xAI's Grok 2 (Grok 1 has none), Snowflake's Arctic."""

from __future__ import annotations

from cotenant.readers.blocks import Structure, gated_mlp, norm
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, read_sizes, sparse_feed_forward


def _grok(config: ConfigView) -> Structure:
    """vLLM 0.24, models/grok1.py: four norms a layer; `residual_moe` adds a feed-forward of the full width."""
    sizes = read_sizes(config)
    count = config.integer("num_local_experts", "num_experts", default=8)
    inner = config.integer("moe_intermediate_size", default=sizes.inner, most=2**20)
    groups = sparse_feed_forward(sizes, sizes.layers, count=count, inner=inner)
    if config.flag("residual_moe"):
        groups += gated_mlp(sizes.layers, sizes.hidden, sizes.inner, name="residual_mlp")
    return dense(
        config, sizes=sizes, feed_forward=groups, norms=4, num_experts=count,
        experts_per_token=config.integer("num_experts_per_tok", default=2),
    )  # fmt: skip


def _arctic(config: ConfigView) -> Structure:
    """vLLM 0.24, models/arctic.py: experts in every `moe_layer_frequency`-th layer, beside a feed-forward as wide
    as the hidden state with a norm of its own (`use_residual`)."""
    sizes = read_sizes(config)
    step = config.integer("moe_layer_frequency", default=2)
    sparse = tuple(n for n in sizes.layers if (n + 1) % step == 0)
    count = config.integer("num_local_experts", default=8)
    groups = sparse_feed_forward(sizes, sparse, count=count, inner=sizes.inner)
    if config.flag("use_residual"):
        groups += gated_mlp(sparse, sizes.hidden, sizes.hidden, name="residual_mlp")
        groups += norm("residual_layernorm", sizes.hidden, layers=sparse)
    return dense(
        config, sizes=sizes, feed_forward=groups, num_experts=count,
        experts_per_token=config.integer("num_experts_per_tok", default=1),
    )  # fmt: skip


BUILDERS: dict[str, Builder] = {
    "Grok1ForCausalLM": _grok,
    "Grok1ModelForCausalLM": _grok,
    "grok-1": _grok,
    "ArcticForCausalLM": _arctic,
    "arctic": _arctic,
}
