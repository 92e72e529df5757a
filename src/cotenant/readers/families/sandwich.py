"""Dense decoders with small turns of their own: Rnj-1, PLaMo 3, TeleChat 2, Step 1, openPangu, Domyn Edge, ..."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import Role
from cotenant.readers.blocks import Structure, norm, vector
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, layer_windows, read_sizes
from cotenant.readers.families.deepseek import latent_model


def _rnj1(config: ConfigView) -> Structure:
    """Gemma's four norms, norms on queries and keys (vLLM, models/rnj1.py)."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias")
    windows = layer_windows(config, sizes.count) if "layer_types" in config else None
    return dense(config, sizes=sizes, qkv_bias=bias, out_bias=bias, qk_norm="head", norms=4, windows=windows)


def _plamo3(config: ConfigView) -> Structure:
    """Four norms and norms on queries and keys; seven sliding layers to one full (vLLM, models/plamo3.py)."""
    sizes = read_sizes(config)
    window = config.optional_integer("window_size", "sliding_window", least=1)
    period = config.integer("sliding_window_pattern", default=8, most=1000)
    view = config.replaced(sliding_window=window)
    return dense(
        config, sizes=sizes, qk_norm="head", norms=4, windows=layer_windows(view, sizes.count, pattern=period)
    )


def _telechat2(config: ConfigView) -> Structure:
    """Llama with biases on the output and down projections alone (vLLM, models/telechat2.py)."""
    sizes = read_sizes(config)
    built = dense(config, sizes=sizes, out_bias=True)
    return built.extended(*vector("mlp.down_proj.bias", sizes.hidden, role=Role.MLP, layers=sizes.layers))


def _step1(config: ConfigView) -> Structure:
    """Llama with square-root ALiBi; `num_attention_groups` key-value heads (vLLM, models/step1.py)."""
    config = config.replaced(
        num_key_value_heads=config.raw("num_attention_groups") or config.raw("num_key_value_heads")
    )
    bias = config.flag("attention_bias")
    return dense(config, qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias"))


def _granite_swa(config: ConfigView) -> Structure:
    """Granite with sliding layers and, where `layer_types` stands, a sink a head (vLLM, models/granite.py)."""
    sizes = read_sizes(config, tied=True)
    bias = config.flag("attention_bias")
    return dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias"),
        windows=layer_windows(config, sizes.count), sinks="layer_types" in config,
    )  # fmt: skip


def _domyn_edge(config: ConfigView) -> Structure:
    """Four norms; of queries and keys only the keys' norm is learned (vLLM, models/domyn_edge.py)."""
    sizes = read_sizes(config)
    built = dense(config, sizes=sizes, norms=4)
    return built.extended(*norm("self_attn.k_norm", sizes.head_dim, layers=sizes.layers))


def _pangu_embedded(config: ConfigView) -> Structure:
    """openPangu Embedded: Llama with biases on the attention projections (vLLM, models/openpangu.py)."""
    bias = config.flag("bias") or config.flag("attention_bias")
    norms = 4 if config.flag("sandwich_norm") else 2
    qkv_bias = config.flag("qkv_bias", default=bias)
    return dense(config, qkv_bias=qkv_bias, out_bias=bias, mlp_bias=config.flag("mlp_bias"), norms=norms)


def _pangu_ultra(config: ConfigView) -> Structure:
    """openPangu Ultra: DeepSeek's latent attention and experts between four norms (vLLM, models/openpangu.py)."""
    correction = config.flag("router_enable_expert_bias")
    built = latent_model(config.with_defaults(topk_method="noaux_tc" if correction else "greedy"))
    if not config.flag("sandwich_norm"):
        return built
    layers = tuple(range(built.num_layers))
    return replace(
        built, parameters=built.parameters + norm("mlp_norms", built.hidden_size, layers=layers, copies=2)
    )


BUILDERS: dict[str, Builder] = {
    "Rnj1ForCausalLM": _rnj1,
    "Plamo3ForCausalLM": _plamo3,
    "plamo3": _plamo3,
    "TeleChat2ForCausalLM": _telechat2,
    "Step1ForCausalLM": _step1,
    "GraniteSWAForCausalLM": _granite_swa,
    "DomynEdgeForCausalLM": _domyn_edge,
    "PanguEmbeddedForCausalLM": _pangu_embedded,
    "PanguUltraMoEForCausalLM": _pangu_ultra,
}
