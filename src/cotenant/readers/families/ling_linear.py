"""Ling and Ring 2.5: lightning attention with a normed gate, every `layer_group_size`-th layer latent instead.

In Ling 3 Kimi's delta attention without low ranks stands for the lightning.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import LayerGroup, RecurrentState, Role
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    latent_attention,
    latent_cache,
    linear,
    norm,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, sparse_feed_forward, structure
from cotenant.readers.recurrent import (
    FP32,
    KimiDeltaShape,
    convolution,
    kimi_delta_state,
    recurrent_group,
    state_matrix,
    state_vector,
)


def _ling(config: ConfigView) -> Structure:
    """Names and defaults: vLLM 0.33, models/bailing_moe_linear.py, layers/mamba/linear/bailing_linear_attn.py."""
    sizes = read_sizes(config)
    period = config.integer("layer_group_size", default=1)
    latent, mixing = split_layers(sizes.layers, (n for n in sizes.layers if (n + 1) % period == 0))
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    groups += _mixer(config, sizes, mixing) if mixing else ()
    return _with_latent(config, sizes, groups, latent, recurrent_group(mixing, _lightning_state(sizes)))


def _ling3(config: ConfigView) -> Structure:
    """Layers beyond the last whole group are latent too (vLLM 0.33, models/bailing_moe_v3.py)."""
    sizes = read_sizes(config)
    period = config.integer("layer_group_size", default=1)
    whole = sizes.count // period * period
    latent, mixing = split_layers(sizes.layers, (n for n in sizes.layers if (n + 1) % period == 0 or n >= whole))
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    shape = KimiDeltaShape(sizes.heads, sizes.head_dim, config.integer("short_conv_kernel_size", default=4))
    groups += _delta(sizes, shape, mixing) if mixing else ()
    groups += _output_gate(config, sizes, latent) if latent else ()
    return _with_latent(config, sizes, groups, latent, recurrent_group(mixing, kimi_delta_state(shape)))


def _with_latent(
    config: ConfigView, sizes: Sizes, groups: Groups, latent: Layers, states: tuple[LayerGroup, ...]
) -> Structure:
    """The latent layers and the feed-forward of both generations."""
    rank = config.integer("kv_lora_rank", default=512)
    rope = config.integer("qk_rope_head_dim", default=64, least=0)
    if latent:
        groups += latent_attention(
            latent, sizes.hidden, sizes.heads, q_rank=config.optional_integer("q_lora_rank", least=1),
            kv_rank=rank, nope_dim=config.integer("qk_nope_head_dim", default=128), rope_dim=rope,
            value_dim=config.integer("v_head_dim", default=128),
        )  # fmt: skip
    count = config.integer("num_experts")
    groups += _experts(config, sizes, count)
    caches = states + ((latent_cache(latent, sizes.heads, rank, rope),) if latent else ())
    return structure(
        sizes, groups, caches, num_experts=count, experts_per_token=config.integer("num_experts_per_tok")
    )


def _lightning_state(sizes: Sizes) -> RecurrentState:
    return RecurrentState(0, sizes.heads * sizes.head_dim**2)


def _delta(sizes: Sizes, shape: KimiDeltaShape, layers: Layers) -> Groups:
    """Six full matrices, three convolutions in fp32."""
    inner = shape.heads * shape.head_dim
    groups: Groups = ()
    for letter in "qkvfg":
        groups += state_matrix(f"kda.{letter}_proj", inner, sizes.hidden, layers)
    groups += state_matrix("kda.b_proj", shape.heads, sizes.hidden, layers)
    groups += tuple(replace(part, dtype=FP32) for part in convolution(3 * inner, shape.kernel, layers))
    groups += state_vector("kda.dt_bias", inner, layers) + state_vector("kda.A_log", shape.heads, layers)
    groups += norm("kda.o_norm", shape.head_dim, layers=layers)
    return groups + state_matrix("kda.o_proj", sizes.hidden, inner, layers, row=True)


def _output_gate(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    """A gate of the latent layers' output: a value a head, or one an element."""
    kind = config.text("gated_attention_proj_granularity_type")
    if kind not in ("head_wise", "element_wise"):
        return ()
    width = 1 if kind == "head_wise" else config.integer("v_head_dim", default=128)
    return linear("self_attn.g_proj", width * sizes.heads, sizes.hidden, role=Role.ATTENTION, layers=layers)


def _mixer(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    inner = sizes.heads * sizes.head_dim
    bias = config.flag("use_bias")
    groups = state_matrix(
        "linear_attn.query_key_value", 3 * inner, sizes.hidden, layers, bias=bias or config.flag("use_qkv_bias")
    )
    groups += state_matrix("linear_attn.g_proj", inner, sizes.hidden, layers)
    groups += state_matrix("linear_attn.out_proj", sizes.hidden, inner, layers, row=True, bias=bias)
    groups += norm("linear_attn.qk_norms", sizes.head_dim, layers=layers, copies=2 * config.flag("use_qk_norm"))
    return groups + state_vector("linear_attn.g_norm", inner, layers, dtype="")


def _experts(config: ConfigView, sizes: Sizes, count: int) -> Groups:
    first = config.integer("first_k_dense_replace", default=0, least=0)
    sparse = tuple(n for n in sizes.layers if n >= first) if count > 1 else ()
    inner = config.integer("moe_intermediate_size")
    shared = config.integer("num_shared_experts", default=0, least=0, most=64)
    return sparse_feed_forward(
        sizes, sparse, count=count, inner=inner,
        shared=shared * config.integer("moe_shared_expert_intermediate_size", default=inner),
        correction=config.flag("moe_router_enable_expert_bias"),
    )  # fmt: skip


BUILDERS: dict[str, Builder] = {
    "BailingMoeV2_5ForCausalLM": _ling,
    "BailingMoeLinearV2ForCausalLM": _ling,
    "bailing_moe_linear": _ling,
    "bailing_hybrid": _ling,
    "BailingMoeV3ForCausalLM": _ling3,
}
