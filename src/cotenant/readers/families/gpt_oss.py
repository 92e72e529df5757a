"""gpt-oss: biases everywhere, attention sinks, every second layer a window of 128."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, layer_windows, read_sizes, sparse_feed_forward


def _gpt_oss(config: ConfigView) -> Structure:
    sizes = read_sizes(config.with_defaults(head_dim=64))
    count = config.integer("num_local_experts", "num_experts", most=2**14)
    return dense(
        config, sizes=sizes, qkv_bias=True, out_bias=True, sinks=True, num_experts=count,
        windows=layer_windows(config, sizes.count, pattern=2, default=128),
        feed_forward=sparse_feed_forward(
            sizes, sizes.layers, count=count, inner=sizes.inner, router_bias=True, bias=True
        ),
        experts_per_token=config.integer("num_experts_per_tok", "experts_per_token", default=4),
    )  # fmt: skip


BUILDERS: dict[str, Builder] = {"GptOssForCausalLM": _gpt_oss, "gpt_oss": _gpt_oss}
