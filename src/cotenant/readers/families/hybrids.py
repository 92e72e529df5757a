"""Attention beside Mamba: Jamba, Bamba, Granite 4, Falcon-H1."""

from __future__ import annotations

from cotenant.domain.model import LayerGroup
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    attention,
    cache_groups,
    gated_mlp,
    norm,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, sparse_feed_forward, structure
from cotenant.readers.recurrent import (
    Mamba2Shape,
    mamba1,
    mamba1_state,
    mamba2,
    mamba2_state,
    recurrent_group,
)


def full_caches(sizes: Sizes, attending: Layers) -> tuple[LayerGroup, ...]:
    """The whole past in the layers that attend."""
    if not attending:
        return ()
    return cache_groups([None] * len(attending), sizes.heads, sizes.kv_heads, sizes.head_dim, layers=attending)


def two_norm_shell(sizes: Sizes) -> Groups:
    """Embedding, head, two norms a layer and the last one."""
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied)
    return groups + norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2) + norm("norm", sizes.hidden)


def _every(config: ConfigView, sizes: Sizes, what: str, period: int, offset: int) -> Layers:
    """Layers n with n % period == offset, by the config's `{what}_period` and `{what}_offset`."""
    step = config.integer(f"{what}_period", default=period)
    first = config.integer(f"{what}_offset", default=offset, least=0)
    return tuple(n for n in sizes.layers if n % step == first)


def _jamba(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    attending, mixing = split_layers(sizes.layers, _every(config, sizes, "attn_layer", 8, 4))
    count = config.integer("num_experts", default=16)
    sparse = _every(config, sizes, "expert_layer", 2, 1) if count > 1 else ()
    inner = sizes.hidden * config.integer("mamba_expand", default=2, most=64)
    state, kernel = config.integer("mamba_d_state", default=16), config.integer("mamba_d_conv", default=4)
    rank = (
        -(-sizes.hidden // 16)
        if config.raw("mamba_dt_rank") == "auto"
        else config.integer("mamba_dt_rank", default=-(-sizes.hidden // 16))
    )
    groups = two_norm_shell(sizes)
    if attending:
        groups += attention(attending, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
    if mixing:
        groups += mamba1(
            mixing, sizes.hidden, inner, state=state, rank=rank, kernel=kernel, normed=True,
            conv_bias=config.flag("mamba_conv_bias", default=True), bias=config.flag("mamba_proj_bias"),
        )  # fmt: skip
    groups += sparse_feed_forward(sizes, sparse, count=count, inner=sizes.inner)
    caches = full_caches(sizes, attending) + recurrent_group(mixing, mamba1_state(inner, state, kernel))
    return structure(
        sizes,
        groups,
        caches,
        num_experts=count,
        experts_per_token=config.integer("num_experts_per_tok", default=2),
    )


def _granite_hybrid(config: ConfigView) -> Structure:
    """Granite 4: Mamba 2 beside a few attention layers, experts and a shared MLP in every layer."""
    sizes = read_sizes(config, tied=True)
    kinds = config.texts("layer_types") or ("mamba",) * sizes.count
    if len(kinds) != sizes.count:
        config.fault("layer_types", f"names {len(kinds)} layers of {sizes.count}")
        kinds = ("mamba",) * sizes.count
    attending, mixing = split_layers(sizes.layers, (n for n in sizes.layers if kinds[n] == "attention"))
    shape = _mamba2_shape(config, sizes)
    bias = config.flag("attention_bias")
    groups = two_norm_shell(sizes)
    if attending:
        groups += attention(
            attending, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=bias, out_bias=bias
        )
    if mixing:
        groups += mamba2(
            mixing, sizes.hidden, shape, conv_bias=config.flag("mamba_conv_bias", default=True),
            bias=config.flag("mamba_proj_bias"),
        )  # fmt: skip
    count = config.integer("num_local_experts", default=8, least=0)
    shared = config.integer("shared_intermediate_size", default=1024)
    if count:
        groups += sparse_feed_forward(sizes, sizes.layers, count=count, inner=sizes.inner, shared=shared)
    else:
        groups += gated_mlp(sizes.layers, sizes.hidden, shared, name="shared_mlp")
    caches = full_caches(sizes, attending) + recurrent_group(mixing, mamba2_state(shape))
    active = config.integer("num_experts_per_tok", default=2, least=0)
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


def _mamba2_shape(config: ConfigView, sizes: Sizes) -> Mamba2Shape:
    heads = config.integer("mamba_n_heads", default=128)
    inner = config.integer(
        "mamba_d_ssm", "mamba_intermediate_size", default=sizes.hidden * config.integer("mamba_expand", default=2)
    )
    head_dim = config.raw("mamba_d_head")
    known = head_dim not in (None, "auto")
    return Mamba2Shape(
        heads=heads,
        head_dim=config.integer("mamba_d_head") if known else max(1, inner // heads),
        groups=config.integer("mamba_n_groups", default=1),
        state=config.integer("mamba_d_state", default=256),
        kernel=config.integer("mamba_d_conv", default=4),
        chunk=config.integer("mamba_chunk_size", "chunk_size", default=256),
    )


def _falcon_h1(config: ConfigView) -> Structure:
    """Attention and Mamba 2 side by side in every layer, so each layer keeps both caches."""
    sizes = read_sizes(config)
    shape = _mamba2_shape(config, sizes)
    bias = config.flag("attention_bias")
    groups = two_norm_shell(sizes) + attention(
        sizes.layers, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=bias, out_bias=bias
    )
    groups += gated_mlp(sizes.layers, sizes.hidden, sizes.inner, bias=config.flag("mlp_bias"))
    groups += mamba2(
        sizes.layers, sizes.hidden, shape, conv_bias=config.flag("mamba_conv_bias", default=True),
        bias=config.flag("mamba_proj_bias"), normed=config.flag("mamba_rms_norm"),
    )  # fmt: skip
    caches = full_caches(sizes, sizes.layers) + recurrent_group(sizes.layers, mamba2_state(shape))
    return structure(sizes, groups, caches)


def _bamba(config: ConfigView) -> Structure:
    """IBM's Bamba: Mamba 2 but for `attn_layer_indices`, a gated MLP in every layer."""
    sizes = read_sizes(config)
    attending, mixing = split_layers(sizes.layers, config.integers("attn_layer_indices", most=10_000))
    shape = _mamba2_shape(config, sizes)
    groups = two_norm_shell(sizes) + gated_mlp(
        sizes.layers, sizes.hidden, sizes.inner, bias=config.flag("mlp_bias")
    )
    if attending:
        groups += attention(attending, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
    if mixing:
        groups += mamba2(
            mixing, sizes.hidden, shape, conv_bias=config.flag("mamba_conv_bias", default=True),
            bias=config.flag("mamba_proj_bias"),
        )  # fmt: skip
    return structure(sizes, groups, full_caches(sizes, attending) + recurrent_group(mixing, mamba2_state(shape)))


BUILDERS: dict[str, Builder] = {
    "BambaForCausalLM": _bamba,
    "bamba": _bamba,
    "JambaForCausalLM": _jamba,
    "jamba": _jamba,
    "GraniteMoeHybridForCausalLM": _granite_hybrid,
    "granitemoehybrid": _granite_hybrid,
    "FalconH1ForCausalLM": _falcon_h1,
    "falcon_h1": _falcon_h1,
}
