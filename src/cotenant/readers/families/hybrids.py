"""Attention beside Mamba or short convolutions: Jamba, Zamba 2, Granite 4, Falcon-H1, LFM2."""

from __future__ import annotations

from cotenant.domain.model import LayerGroup, RecurrentState, Role
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    attention,
    cache_groups,
    gated_mlp,
    linear,
    norm,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, sparse_feed_forward, structure
from cotenant.readers.recurrent import (
    Mamba2Shape,
    convolution,
    mamba1,
    mamba1_state,
    mamba2,
    mamba2_state,
    recurrent_group,
    state_matrix,
)


def _caches(sizes: Sizes, attending: Layers) -> tuple[LayerGroup, ...]:
    if not attending:
        return ()
    return cache_groups([None] * len(attending), sizes.heads, sizes.kv_heads, sizes.head_dim, layers=attending)


def _shell(sizes: Sizes) -> Groups:
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
    groups = _shell(sizes)
    if attending:
        groups += attention(attending, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
    if mixing:
        groups += mamba1(
            mixing, sizes.hidden, inner, state=state, rank=rank, kernel=kernel, normed=True,
            conv_bias=config.flag("mamba_conv_bias", default=True), bias=config.flag("mamba_proj_bias"),
        )  # fmt: skip
    groups += sparse_feed_forward(sizes, sparse, count=count, inner=sizes.inner)
    caches = _caches(sizes, attending) + recurrent_group(mixing, mamba1_state(inner, state, kernel))
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
    groups = _shell(sizes)
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
    caches = _caches(sizes, attending) + recurrent_group(mixing, mamba2_state(shape))
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
    )


def _falcon_h1(config: ConfigView) -> Structure:
    """Attention and Mamba 2 side by side in every layer, so each layer keeps both caches."""
    sizes = read_sizes(config)
    shape = _mamba2_shape(config, sizes)
    bias = config.flag("attention_bias")
    groups = _shell(sizes) + attention(
        sizes.layers, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=bias, out_bias=bias
    )
    groups += gated_mlp(sizes.layers, sizes.hidden, sizes.inner, bias=config.flag("mlp_bias"))
    groups += mamba2(
        sizes.layers, sizes.hidden, shape, conv_bias=config.flag("mamba_conv_bias", default=True),
        bias=config.flag("mamba_proj_bias"), normed=config.flag("mamba_rms_norm"),
    )  # fmt: skip
    caches = _caches(sizes, sizes.layers) + recurrent_group(sizes.layers, mamba2_state(shape))
    return structure(sizes, groups, caches)


def _zamba2(config: ConfigView) -> Structure:
    """Mamba 2 everywhere; some layers also run one of `num_mem_blocks` shared transformer blocks.

    The shared blocks see the hidden state and the embedding together (twice the width), and every use has a
    LoRA of its own on the gate and up projections.
    """
    kinds = config.texts("layers_block_type")
    sizes = read_sizes(config.replaced(head_dim=config.raw("attention_head_dim")), tied=True)
    if len(kinds) != sizes.count:
        config.fault("layers_block_type", f"names {len(kinds)} layers of {sizes.count}")
        kinds = ("mamba",) * sizes.count
    uses = tuple(n for n in sizes.layers if kinds[n] == "hybrid")
    wide = 2 * sizes.hidden
    head_dim = config.integer("attention_head_dim", default=max(1, wide // sizes.heads))
    heads = config.integer("n_mamba_heads", default=8)
    shape = Mamba2Shape(
        heads=heads,
        head_dim=max(1, config.integer("mamba_expand", default=2) * sizes.hidden // heads),
        groups=config.integer("mamba_ngroups", default=1),
        state=config.integer("mamba_d_state", default=64),
        kernel=config.integer("mamba_d_conv", default=4),
    )
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers) + mamba2(sizes.layers, sizes.hidden, shape)
    if uses:
        groups += state_matrix("linear", sizes.hidden, sizes.hidden, uses)
        groups += _shared_blocks(config, sizes, wide, head_dim, uses)
    caches = recurrent_group(sizes.layers, mamba2_state(shape))
    if uses:
        caches += cache_groups([None] * len(uses), sizes.heads, sizes.kv_heads, head_dim, layers=uses)
    return structure(sizes, groups, caches)


def _shared_blocks(config: ConfigView, sizes: Sizes, wide: int, head_dim: int, uses: Layers) -> Groups:
    blocks = config.integer("num_mem_blocks", default=1, most=1000)
    rank = config.integer("adapter_rank", default=128)
    inner = sizes.heads * head_dim
    groups: Groups = ()
    for letter in "qkv":
        groups += linear(f"shared.{letter}_proj", inner, wide, role=Role.ATTENTION, copies=blocks)
    groups += linear("shared.o_proj", sizes.hidden, inner, role=Role.ATTENTION, copies=blocks, row=True)
    groups += linear("shared.gate_up_proj", 2 * sizes.inner, sizes.hidden, role=Role.MLP, copies=blocks)
    groups += linear("shared.down_proj", sizes.hidden, sizes.inner, role=Role.MLP, copies=blocks, row=True)
    groups += norm("shared.norms", wide + sizes.hidden, copies=blocks)
    targets = [("gate_up", sizes.hidden, 2 * sizes.inner)]
    if config.flag("use_shared_attention_adapter"):
        targets += [(letter, wide, inner) for letter in "qkv"]
    for name, inputs, outputs in targets:
        groups += linear(f"{name}.lora_a", rank, inputs, role=Role.OTHER, layers=uses)
        groups += linear(f"{name}.lora_b", outputs, rank, role=Role.OTHER, layers=uses)
    return groups


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
    groups = _shell(sizes)
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
    caches = _caches(sizes, attending) + recurrent_group(mixing, RecurrentState((kernel - 1) * sizes.hidden, 0))
    active = config.integer("num_experts_per_tok", default=4) if count else 0
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


BUILDERS: dict[str, Builder] = {
    "JambaForCausalLM": _jamba,
    "jamba": _jamba,
    "GraniteMoeHybridForCausalLM": _granite_hybrid,
    "granitemoehybrid": _granite_hybrid,
    "FalconH1ForCausalLM": _falcon_h1,
    "falcon_h1": _falcon_h1,
    "Zamba2ForCausalLM": _zamba2,
    "zamba2": _zamba2,
    "Lfm2ForCausalLM": _lfm2,
    "lfm2": _lfm2,
    "Lfm2MoeForCausalLM": _lfm2,
    "lfm2_moe": _lfm2,
}
