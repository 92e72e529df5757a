"""AI2's OLMo: the first without norm weights, the second with norms after each half and on queries and keys."""

from __future__ import annotations

from cotenant.readers.blocks import (
    Structure,
    attention,
    cache_groups,
    gated_mlp,
    norm,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, layer_windows, read_sizes, structure
from cotenant.readers.recurrent import DeltaShape, gated_delta, gated_delta_state, recurrent_group


def _olmo(config: ConfigView) -> Structure:
    bias = config.flag("attention_bias")
    return dense(config, norm_weight=False, qkv_bias=bias, out_bias=bias)


def _olmo2(config: ConfigView) -> Structure:
    bias = config.flag("attention_bias")
    return dense(config, qk_norm="full", qkv_bias=bias, out_bias=bias)


def _olmo3(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    bias = config.flag("attention_bias")
    windows = layer_windows(config, sizes.count, pattern=4, default=4096)
    return dense(config, sizes=sizes, qk_norm="full", qkv_bias=bias, out_bias=bias, windows=windows)


def _olmo_hybrid(config: ConfigView) -> Structure:
    """Three gated delta nets (their gate and scalars projected apart) to one full attention layer."""
    sizes = read_sizes(config)
    kinds = config.texts("layer_types") or ("full_attention",) * sizes.count
    if len(kinds) != sizes.count:
        config.fault("layer_types", f"names {len(kinds)} layers of {sizes.count}")
        kinds = ("full_attention",) * sizes.count
    mixing, full = split_layers(sizes.layers, (n for n in sizes.layers if kinds[n] == "linear_attention"))
    shape = DeltaShape(
        config.integer("linear_num_key_heads"), config.integer("linear_num_value_heads"),
        config.integer("linear_key_head_dim"), config.integer("linear_value_head_dim"),
        config.integer("linear_conv_kernel_dim", default=4),
    )  # fmt: skip
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += gated_mlp(sizes.layers, sizes.hidden, sizes.inner)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    caches = recurrent_group(mixing, gated_delta_state(shape))
    if mixing:
        groups += gated_delta(mixing, sizes.hidden, shape)
    if full:
        groups += attention(full, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qk_norm="full")
        caches += cache_groups([None] * len(full), sizes.heads, sizes.kv_heads, sizes.head_dim, layers=full)
    return structure(sizes, groups, caches)


BUILDERS: dict[str, Builder] = {
    "OlmoForCausalLM": _olmo,
    "olmo": _olmo,
    "Olmo2ForCausalLM": _olmo2,
    "olmo2": _olmo2,
    "Olmo3ForCausalLM": _olmo3,
    "olmo3": _olmo3,
    "OlmoHybridForCausalLM": _olmo_hybrid,
    "olmo_hybrid": _olmo_hybrid,
}
