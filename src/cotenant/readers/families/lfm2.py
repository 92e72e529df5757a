"""Liquid's LFM2: short convolutions beside a few attention layers, dense or with experts."""

from __future__ import annotations

from cotenant.domain.model import RecurrentState
from cotenant.readers.blocks import Structure, attention, gated_mlp, split_layers
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, read_sizes, sparse_feed_forward, structure
from cotenant.readers.families.hybrids import full_caches, two_norm_shell
from cotenant.readers.recurrent import convolution, recurrent_group, state_matrix


def _lfm2_inner(config: ConfigView) -> int:
    """LFM2 shrinks `block_ff_dim` to two thirds, times a factor, up to a multiple (`block_auto_adjust_ff_dim`)."""
    inner = config.integer("block_ff_dim", "intermediate_size")
    if config.flag("block_auto_adjust_ff_dim", default=True):
        inner = int(2 * inner / 3)
        inner = int(config.number("block_ffn_dim_multiplier", default=1.0) * inner)
        step = config.integer("block_multiple_of", default=256)
        inner = -(-inner // step) * step
    return max(1, inner)


def _lfm2(config: ConfigView) -> Structure:
    count = config.integer("num_experts", default=0, least=0) if "num_experts" in config else 0
    inner = config.integer("intermediate_size") if count else _lfm2_inner(config)
    tied = config.flag("tie_embedding", default=True)
    sizes = read_sizes(config.replaced(intermediate_size=inner), tied=tied)
    attending = config.integers("full_attn_idxs")
    kinds = config.texts("layer_types")
    if kinds and len(kinds) == sizes.count:
        attending = tuple(n for n in sizes.layers if kinds[n] == "full_attention")
    attending, mixing = split_layers(sizes.layers, attending)
    kernel = config.integer("conv_L_cache", default=3)
    bias = config.flag("conv_bias")
    groups = two_norm_shell(sizes)
    if attending:
        groups += attention(attending, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qk_norm="head")
    if mixing:
        groups += state_matrix("conv.in_proj", 3 * sizes.hidden, sizes.hidden, mixing, bias=bias)
        groups += convolution(sizes.hidden, kernel, mixing, bias=bias, name="conv.conv")
        groups += state_matrix("conv.out_proj", sizes.hidden, sizes.hidden, mixing, row=True, bias=bias)
    if count:
        sparse = sizes.layers[config.integer("num_dense_layers", default=2, least=0) :]
        groups += sparse_feed_forward(
            sizes, sparse, count=count, inner=config.integer("moe_intermediate_size"),
            correction=config.flag("use_expert_bias", default=True),
        )  # fmt: skip
    else:
        groups += gated_mlp(sizes.layers, sizes.hidden, inner)
    # vLLM keeps kernel - 1 columns of the hidden width a sequence.
    caches = full_caches(sizes, attending) + recurrent_group(
        mixing, RecurrentState((kernel - 1) * sizes.hidden, 0)
    )
    active = config.integer("num_experts_per_tok", default=4) if count else 0
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


BUILDERS: dict[str, Builder] = {
    "Lfm2ForCausalLM": _lfm2,
    "lfm2": _lfm2,
    "Lfm2MoeForCausalLM": _lfm2,
    "lfm2_moe": _lfm2,
}
