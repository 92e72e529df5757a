"""Decoders with routed and shared experts: ERNIE 4.5, Hunyuan, Ling, dots.llm1, Solar Open, EXAONE MoE."""

from __future__ import annotations

from cotenant.domain.model import AttentionKind, LayerGroup, Role, Split
from cotenant.readers.blocks import Structure, attention, draft, gated_mlp, linear, norm, split_layers
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, dense, layer_windows, read_sizes, sparse_feed_forward
from cotenant.readers.families.deepseek import draft_layers, feed_forward, sparse_layers


def _from_first(config: ConfigView, sizes: Sizes) -> tuple[int, ...]:
    kinds = config.texts("mlp_layer_types")
    if len(kinds) == sizes.count:
        return tuple(n for n in sizes.layers if kinds[n] != "dense")
    first = config.integer("first_k_dense_replace", default=0, least=0)
    return tuple(n for n in sizes.layers if n >= first)


def _ernie_moe(config: ConfigView) -> Structure:
    """Experts from `moe_layer_start_index` to `moe_layer_end_index`, every `moe_layer_interval`-th layer."""
    sizes = read_sizes(config, tied=True)
    bias = config.flag("use_bias")
    start = config.integer("moe_layer_start_index", default=1, least=0)
    last = config.raw("moe_layer_end_index")
    end = sizes.count - 1 if last in (None, -1) else config.integer("moe_layer_end_index", least=0)
    step = config.integer("moe_layer_interval", default=1)
    sparse = tuple(n for n in sizes.layers if start <= n <= end and (n + 1) % step == 0)
    count = config.integer("moe_num_experts", default=64, most=2**14)
    inner = config.integer("moe_intermediate_size", default=1536)
    shared = config.integer("moe_num_shared_experts", default=2, least=0, most=64)
    built = dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias, num_experts=count,
        feed_forward=sparse_feed_forward(
            sizes, sparse, count=count, inner=inner, shared=shared * inner,
            correction=config.flag("moe_use_aux_free", default=True),
        ),
        experts_per_token=config.integer("moe_k", default=6),
    )  # fmt: skip
    layer = attention(
        (0,), sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=bias, out_bias=bias
    )
    layer += gated_mlp((0,), sizes.hidden, sizes.inner, bias=bias)
    layer += norm("layernorm", sizes.hidden, layers=(0,), copies=2)
    layer += norm("emb_and_hidden_norm", sizes.hidden, copies=2)
    layer += linear("linear_proj", sizes.hidden, 2 * sizes.hidden, role=Role.OTHER, split=Split.NONE)
    count_mtp = config.integer("num_nextn_predict_layers", default=0, least=0, most=64)
    return built.extended(*draft(layer * count_mtp))


def _per_layer(config: ConfigView, key: str, default: int) -> int:
    """A value that Hunyuan gives once or once a layer, the same everywhere."""
    if isinstance(config.raw(key), list):
        values = set(config.integers(key))
        if len(values) != 1:
            config.fault(key, "differs from layer to layer, which no rule covers")
        return min(values, default=1)
    return config.integer(key, default=default, least=0)


def _hunyuan_moe(config: ConfigView) -> Structure:
    """With `use_cla` only every `cla_share_factor`-th layer has keys and values; the others reuse them."""
    sizes = read_sizes(config, tied=True)
    bias = config.flag("attention_bias")
    count = _per_layer(config, "num_experts", 1)
    inner = _per_layer(config, "moe_intermediate_size", sizes.inner)
    shared = _per_layer(config, "num_shared_expert", 1) * sizes.inner if config.flag("use_mixed_mlp_moe") else 0
    qk_norm = "head" if config.flag("use_qk_norm") else ""
    built = dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias, qk_norm=qk_norm, num_experts=count,
        feed_forward=sparse_feed_forward(sizes, sizes.layers, count=count, inner=inner, shared=shared),
        experts_per_token=_per_layer(config, "moe_topk", 1),
    )  # fmt: skip
    factor = config.integer("cla_share_factor", default=2) if config.flag("use_cla") else 1
    return built if factor == 1 else _cross_layer(built, sizes, factor, bias, qk_norm)


def _cross_layer(built: Structure, sizes: Sizes, factor: int, bias: bool, qk_norm: str) -> Structure:
    """Cross-layer attention (arXiv 2405.12981): the borrowing layers have no key and value projections."""
    from dataclasses import replace

    own, borrowing = split_layers(sizes.layers, (n for n in sizes.layers if n % factor == 0))
    shape = (sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
    kept = tuple(group for group in built.parameters if not group.name.startswith("self_attn."))
    kept += attention(own, *shape, qkv_bias=bias, out_bias=bias, qk_norm=qk_norm)
    kept += attention(borrowing, *shape, qkv_bias=bias, out_bias=bias, qk_norm=qk_norm, has_keys=False)
    widths = (sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.head_dim)
    caches = (LayerGroup(AttentionKind.FULL, own, *widths), LayerGroup(AttentionKind.NONE, borrowing, *widths))
    return replace(built, parameters=kept, layer_groups=caches)


def _hy3(config: ConfigView) -> Structure:
    """Hy3: a correction bias, one draft layer behind the last."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias")
    qk_norm = "head" if config.flag("qk_norm", default=True) else ""
    sparse = _from_first(config, sizes)
    built = dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias, qk_norm=qk_norm,
        feed_forward=feed_forward(config, sizes, sparse),
        num_experts=config.integer("num_experts"),
        experts_per_token=config.integer("num_experts_per_tok", default=8),
    )  # fmt: skip
    layer = attention(
        (0,),
        sizes.hidden,
        sizes.heads,
        sizes.kv_heads,
        sizes.head_dim,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=qk_norm,
    )
    layer += feed_forward(config, sizes, (0,), plain=()) + norm("layernorm", sizes.hidden, layers=(0,), copies=2)
    return built.extended(*draft_layers(config, sizes, layer))


def _bailing(config: ConfigView) -> Structure:
    """Ling and Ring: version 2 adds norms on queries and keys and a correction bias."""
    sizes = read_sizes(config)
    bias = config.flag("use_bias")
    qk_norm = "head" if config.flag("use_qk_norm") else ""
    count = config.integer("num_experts")
    inner = config.integer("moe_intermediate_size")
    shared = config.integer("num_shared_experts", default=0, least=0, most=64)
    width = config.integer("moe_shared_expert_intermediate_size", default=inner) * shared
    second = config.flag("moe_router_enable_expert_bias", default=bool(qk_norm))
    return dense(
        config, sizes=sizes, qkv_bias=config.flag("use_qkv_bias"), out_bias=bias, qk_norm=qk_norm,
        feed_forward=sparse_feed_forward(
            sizes, _from_first(config, sizes), count=count, inner=inner, shared=width, correction=second
        ),
        num_experts=count, experts_per_token=config.integer("num_experts_per_tok", default=6),
    )  # fmt: skip


def _dots1(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    bias = config.flag("attention_bias")
    windows = layer_windows(config, sizes.count) if "layer_types" in config else None
    return dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias, qk_norm="head", windows=windows,
        feed_forward=feed_forward(config, sizes, sparse_layers(config, sizes)),
        num_experts=config.integer("n_routed_experts", default=0, least=0),
        experts_per_token=config.integer("num_experts_per_tok", default=0, least=0),
    )  # fmt: skip


def _exaone_moe(config: ConfigView) -> Structure:
    """K-EXAONE: three sliding layers to one full."""
    sizes = read_sizes(config)
    pattern = config.raw("sliding_window_pattern")
    period = len(pattern) if isinstance(pattern, str) else config.integer("sliding_window_pattern", default=4)
    return dense(
        config, sizes=sizes, qk_norm="head", windows=layer_windows(config, sizes.count, pattern=period or 4),
        feed_forward=feed_forward(config, sizes, _from_first(config, sizes)),
        num_experts=config.integer("num_experts"),
        experts_per_token=config.integer("num_experts_per_tok", default=8),
    )  # fmt: skip


def _solar_open(config: ConfigView) -> Structure:
    sizes = read_sizes(config, inner=10240)
    bias = config.flag("attention_bias")
    return dense(
        config, sizes=sizes, qkv_bias=bias, qk_norm="head" if config.flag("use_qk_norm") else "",
        feed_forward=feed_forward(config, sizes, sparse_layers(config, sizes)),
        num_experts=config.integer("n_routed_experts", default=128),
        experts_per_token=config.integer("num_experts_per_tok", default=8),
    )  # fmt: skip


BUILDERS: dict[str, Builder] = {
    "Ernie4_5_MoeForCausalLM": _ernie_moe,
    "Ernie4_5_MoE_ForCausalLM": _ernie_moe,
    "ernie4_5_moe": _ernie_moe,
    "HunYuanMoEV1ForCausalLM": _hunyuan_moe,
    "HunYuanForCausalLM": _hunyuan_moe,
    "hunyuan_v1_moe": _hunyuan_moe,
    "hunyuan": _hunyuan_moe,
    "HYV3ForCausalLM": _hy3,
    "hy_v3": _hy3,
    "BailingMoeForCausalLM": _bailing,
    "BailingMoeV2ForCausalLM": _bailing,
    "bailing_moe": _bailing,
    "Dots1ForCausalLM": _dots1,
    "dots1": _dots1,
    "ExaoneMoeForCausalLM": _exaone_moe,
    "ExaoneMoEForCausalLM": _exaone_moe,
    "exaone_moe": _exaone_moe,
    "SolarOpenForCausalLM": _solar_open,
    "solar_open": _solar_open,
}
