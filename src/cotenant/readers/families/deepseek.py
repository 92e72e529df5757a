"""DeepSeek V1 to V3.2 and the models that took over its latent attention and experts (Kimi K2, GLM-5, ...)."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import LayerGroup, Role, Split
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    draft,
    latent_attention,
    latent_cache,
    linear,
    norm,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, dense, read_sizes, sparse_feed_forward, structure


def sparse_layers(config: ConfigView, sizes: Sizes) -> Layers:
    """Layers with experts: by `mlp_layer_types`, else every `moe_layer_freq`-th from `first_k_dense_replace`."""
    kinds = config.texts("mlp_layer_types")
    if len(kinds) == sizes.count:
        return tuple(n for n in sizes.layers if kinds[n] != "dense")
    first = config.integer("first_k_dense_replace", default=0, least=0)
    step = config.integer("moe_layer_freq", default=1)
    if config.optional_integer("n_routed_experts") is None:
        return ()
    return tuple(n for n in sizes.layers if n >= first and n % step == 0)


def feed_forward(config: ConfigView, sizes: Sizes, sparse: Layers, *, plain: Layers | None = None) -> Groups:
    """Routed and shared experts, an MLP below `first_k_dense_replace`; the correction bias by `topk_method`."""
    count = config.integer("n_routed_experts", "num_experts", default=1, most=2**14)
    inner = config.integer("moe_intermediate_size", default=sizes.inner, most=2**20)
    shared = config.integer("n_shared_experts", "num_shared_experts", default=0, least=0, most=64)
    method = config.text("topk_method", default="noaux_tc" if config.text("model_type") != "deepseek_v2" else "")
    return sparse_feed_forward(
        sizes,
        sparse,
        count=count,
        inner=inner,
        shared=shared * inner,
        correction=method == "noaux_tc",
        plain=plain,
    )


def mla(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    """Latent attention as the config sizes it."""
    return latent_attention(
        layers, sizes.hidden, sizes.heads, q_rank=config.optional_integer("q_lora_rank", least=1),
        kv_rank=config.integer("kv_lora_rank"), nope_dim=config.integer("qk_nope_head_dim"),
        rope_dim=config.integer("qk_rope_head_dim", least=0), value_dim=config.integer("v_head_dim"),
        bias=config.flag("attention_bias"),
    )  # fmt: skip


def indexer(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    """The lightning indexer of sparse attention, whole on every rank (DeepSeek-V3.2-Exp report)."""
    heads, width = config.integer("index_n_heads"), config.integer("index_head_dim")
    parts = (
        ("wq_b", heads * width, config.integer("q_lora_rank")),
        ("wk", width, sizes.hidden),
        ("weights_proj", heads, sizes.hidden),
    )
    groups: Groups = ()
    for name, outputs, inputs in parts:
        groups += linear(f"indexer.{name}", outputs, inputs, role=Role.ATTENTION, layers=layers, split=Split.NONE)
    return groups + norm("indexer.k_norm", width, layers=layers, bias=True)


def index_bytes(config: ConfigView) -> int:
    """Cached a token and indexed layer: an fp8 key and one fp32 scale for each 128 elements."""
    width = config.integer("index_head_dim", default=0, least=0)
    return width + 4 * -(-width // 128)


def draft_layers(config: ConfigView, sizes: Sizes, layer: Groups) -> Groups:
    """Multi-token prediction: one full `layer`, three norms, a projection of embedding and state.

    Source: DeepSeek-V3's weight description (README_WEIGHTS). Some checkpoints (DeepSeek-V3, GLM-4.5) store
    copies of embedding and head beside them, others (GLM-4.6, GLM-5) do not, and no config says which; engines
    share the model's own, so copies are not counted.
    """
    count = config.integer("num_nextn_predict_layers", default=0, least=0, most=64)
    if not count:
        return ()
    extra = norm("enorm", sizes.hidden, copies=3)
    extra += linear("eh_proj", sizes.hidden, 2 * sizes.hidden, role=Role.OTHER, split=Split.NONE)
    return draft(replace(group, copies=group.copies * count) for group in layer + extra)


def latent_model(config: ConfigView, *, indexed: Layers | None = None, tied: bool = False) -> Structure:
    """A DeepSeek decoder; `indexed` layers have an indexer of their own (None: no sparse attention)."""
    sizes = read_sizes(config.replaced(num_key_value_heads=None, head_dim=config.raw("v_head_dim")), tied=tied)
    sparse = sparse_layers(config, sizes)
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied)
    groups += mla(config, sizes, sizes.layers) + feed_forward(config, sizes, sparse)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2) + norm("norm", sizes.hidden)
    layer = mla(config, sizes, (0,)) + feed_forward(config, sizes, (0,), plain=())
    layer += norm("layernorm", sizes.hidden, layers=(0,), copies=2)
    if indexed:
        groups += indexer(config, sizes, indexed)
        layer += indexer(config, sizes, (0,))
    groups += draft_layers(config, sizes, layer)
    count = config.integer("n_routed_experts", default=0, least=0)
    return structure(
        sizes, groups, _caches(config, sizes, indexed or ()), num_experts=count,
        experts_per_token=config.integer("num_experts_per_tok", default=0, least=0),
    )  # fmt: skip


def _caches(config: ConfigView, sizes: Sizes, indexed: Layers) -> tuple[LayerGroup, ...]:
    rank, rope = config.integer("kv_lora_rank"), config.integer("qk_rope_head_dim")
    wanted = set(indexed)
    others = tuple(n for n in sizes.layers if n not in wanted)
    groups: tuple[LayerGroup, ...] = (latent_cache(others, sizes.heads, rank, rope),) if others else ()
    if indexed:
        groups += (latent_cache(indexed, sizes.heads, rank, rope, index_width=index_bytes(config)),)
    return groups


def _deepseek_v1(config: ConfigView) -> Structure:
    """DeepSeek-MoE-16B: multi-head attention, experts without a correction bias."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias")
    return dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias,
        feed_forward=feed_forward(config.with_defaults(topk_method="greedy"), sizes, sparse_layers(config, sizes)),
        num_experts=config.integer("n_routed_experts", default=0, least=0),
        experts_per_token=config.integer("num_experts_per_tok", default=0, least=0),
    )  # fmt: skip


def _deepseek(config: ConfigView) -> Structure:
    return latent_model(config)


def _mistral4(config: ConfigView) -> Structure:
    """Mistral Small 4: DeepSeek's layer with a router that has no correction bias."""
    return latent_model(config.with_defaults(topk_method="greedy"))


def _deepseek_v32(config: ConfigView) -> Structure:
    layers = config.integer("num_hidden_layers", most=10_000)
    return latent_model(config, indexed=tuple(range(layers)))


BUILDERS: dict[str, Builder] = {
    "DeepseekForCausalLM": _deepseek_v1,
    "deepseek": _deepseek_v1,
    "DeepseekV2ForCausalLM": _deepseek,
    "deepseek_v2": _deepseek,
    "DeepseekV3ForCausalLM": _deepseek,
    "deepseek_v3": _deepseek,
    "kimi_k2": _deepseek,
    "DeepseekV32ForCausalLM": _deepseek_v32,
    "deepseek_v32": _deepseek_v32,
    "Mistral4ForCausalLM": _mistral4,
    "MistralLarge3ForCausalLM": _deepseek,
    "mistral4": _mistral4,
    "Glm4MoeLiteForCausalLM": _deepseek,
    "glm4_moe_lite": _deepseek,
}
