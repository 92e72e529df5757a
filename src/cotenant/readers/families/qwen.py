"""Qwen 1 to 3, dense and with experts."""

from __future__ import annotations

from cotenant.domain.model import Role, Split
from cotenant.readers.blocks import (
    Groups,
    Structure,
    experts,
    gated_mlp,
    linear,
    router,
    split_layers,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, Windows, dense, read_sizes


def _windows(config: ConfigView, count: int) -> Windows:
    """Qwen2 slides only when `use_sliding_window` is set, and only from layer `max_window_layers` on."""
    if not config.flag("use_sliding_window"):
        return [None] * count
    window = config.optional_integer("sliding_window", least=1)
    kinds = config.texts("layer_types")
    if len(kinds) == count:
        return [window if kind == "sliding_attention" else None for kind in kinds]
    first = config.integer("max_window_layers", default=28, least=0)
    return [window if number >= first else None for number in range(count)]


def _qwen1(config: ConfigView) -> Structure:
    """Qwen-7B: `intermediate_size` counts gate and up together."""
    sizes = read_sizes(config)
    halved = config.replaced(intermediate_size=max(1, sizes.inner // 2))
    return dense(halved, qkv_bias=True)


def _qwen2(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    return dense(config, sizes=sizes, qkv_bias=True, windows=_windows(config, sizes.count))


def _qwen3(config: ConfigView) -> Structure:
    sizes = read_sizes(config.with_defaults(head_dim=128))
    bias = config.flag("attention_bias")
    return dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias, qk_norm="head", windows=_windows(config, sizes.count)
    )


def moe_feed_forward(config: ConfigView, sizes: Sizes, *, shared: bool) -> tuple[Groups, int, int]:
    """(tensors, experts, experts a token): every `decoder_sparse_step`-th layer has experts, the others an MLP.

    Qwen2's shared expert comes with a gate of one output.
    """
    count = config.integer("num_experts", "num_local_experts", most=2**14)
    inner = config.integer("moe_intermediate_size", most=2**20)
    step = config.integer("decoder_sparse_step", default=1)
    only = set(config.integers("mlp_only_layers"))
    sparse, plain = split_layers(sizes.layers, (n for n in sizes.layers if n not in only and (n + 1) % step == 0))
    groups = router(sparse, sizes.hidden, count) + experts(sparse, sizes.hidden, inner, count) if sparse else ()
    width = config.integer("shared_expert_intermediate_size", default=0, least=0) if shared else 0
    if width and sparse:
        groups += gated_mlp(sparse, sizes.hidden, width, name="shared_expert")
        groups += linear("shared_expert_gate", 1, sizes.hidden, role=Role.ROUTER, layers=sparse, split=Split.NONE)
    if plain:
        groups += gated_mlp(plain, sizes.hidden, sizes.inner)
    return groups, count, config.integer("num_experts_per_tok", default=8)


def _qwen2_moe(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    feed_forward, count, active = moe_feed_forward(config, sizes, shared=True)
    return dense(
        config, sizes=sizes, qkv_bias=config.flag("qkv_bias", default=True), windows=_windows(config, sizes.count),
        feed_forward=feed_forward, num_experts=count, experts_per_token=active,
    )  # fmt: skip


def _qwen3_moe(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    bias = config.flag("attention_bias")
    feed_forward, count, active = moe_feed_forward(config, sizes, shared=False)
    return dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias, qk_norm="head", windows=_windows(config, sizes.count),
        feed_forward=feed_forward, num_experts=count, experts_per_token=active,
    )  # fmt: skip


def _mimo(config: ConfigView) -> Structure:
    """MiMo-7B: Qwen2's layer and, per `num_nextn_predict_layers`, a draft layer with an input projection."""
    from cotenant.readers.blocks import attention, draft, norm

    sizes = read_sizes(config)
    base = dense(config, sizes=sizes, qkv_bias=config.flag("attention_bias", default=True))
    count = config.integer("num_nextn_predict_layers", default=0, least=0, most=64)
    if not count:
        return base
    at = tuple(range(count))
    layer = attention(at, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=True)
    layer += gated_mlp(at, sizes.hidden, sizes.inner)
    layer += norm("layernorm", sizes.hidden, layers=at, copies=5)
    layer += linear("input_proj", sizes.hidden, 2 * sizes.hidden, role=Role.OTHER, layers=at, split=Split.NONE)
    return base.extended(*draft(layer))


BUILDERS: dict[str, Builder] = {
    "QWenLMHeadModel": _qwen1,
    "qwen": _qwen1,
    "Qwen2ForCausalLM": _qwen2,
    "Qwen2Model": _qwen2,
    "qwen2": _qwen2,
    "DreamModel": _qwen2,
    "Dream": _qwen2,
    "Qwen3ForCausalLM": _qwen3,
    "Qwen3Model": _qwen3,
    "qwen3": _qwen3,
    "Qwen2MoeForCausalLM": _qwen2_moe,
    "qwen2_moe": _qwen2_moe,
    "Qwen3MoeForCausalLM": _qwen3_moe,
    "qwen3_moe": _qwen3_moe,
    "MiMoForCausalLM": _mimo,
    "mimo": _mimo,
}
