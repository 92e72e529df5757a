"""Zhipu's GLM: ChatGLM, GLM-4, GLM-4.5 to 4.7 with experts, and GLM-5 with sparse latent attention."""

from __future__ import annotations

from cotenant.readers.blocks import Structure, attention, norm
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, read_sizes
from cotenant.readers.families.deepseek import draft_layers, feed_forward, latent_model, sparse_layers


def _chatglm(config: ConfigView) -> Structure:
    """ChatGLM2 to GLM-4 in their own files' words: `padded_vocab_size`, `multi_query_group_num`."""
    groups = config.integer("multi_query_group_num", default=2)
    if not config.flag("multi_query_attention"):
        groups = config.integer("num_attention_heads")
    sizes = read_sizes(
        config.replaced(
            num_key_value_heads=groups, vocab_size=config.raw("padded_vocab_size"),
            head_dim=config.raw("kv_channels"), num_hidden_layers=config.raw("num_layers"),
            intermediate_size=config.raw("ffn_hidden_size"),
        )
    )  # fmt: skip
    bias = config.flag("add_bias_linear")
    return dense(config, sizes=sizes, qkv_bias=config.flag("add_qkv_bias") or bias, out_bias=bias, mlp_bias=bias)


def _glm(config: ConfigView) -> Structure:
    return dense(config, qkv_bias=config.flag("attention_bias", default=True))


def _glm4(config: ConfigView) -> Structure:
    return dense(config, qkv_bias=config.flag("attention_bias"), norms=4)


def _glm4_moe(config: ConfigView) -> Structure:
    """GLM-4.5: experts with a correction bias, and one draft layer stored behind the last."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias")
    qk_norm = "head" if config.flag("use_qk_norm") else ""
    built = dense(
        config, sizes=sizes, qkv_bias=bias, qk_norm=qk_norm,
        feed_forward=feed_forward(config, sizes, sparse_layers(config, sizes)),
        num_experts=config.integer("n_routed_experts", default=0, least=0),
        experts_per_token=config.integer("num_experts_per_tok", default=0, least=0),
    )  # fmt: skip
    layer = attention(
        (0,), sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=bias, qk_norm=qk_norm
    )
    layer += feed_forward(config, sizes, (0,), plain=()) + norm("layernorm", sizes.hidden, layers=(0,), copies=2)
    return built.extended(*draft_layers(config, sizes, layer))


def _glm_moe_dsa(config: ConfigView) -> Structure:
    """GLM-5: from 5.2 on most layers reuse the choice of an earlier layer's indexer (`indexer_types`)."""
    count = config.integer("num_hidden_layers", most=10_000)
    kinds = config.texts("indexer_types")
    if kinds and len(kinds) != count:
        config.fault("indexer_types", f"names {len(kinds)} layers of {count}")
        kinds = ()
    return latent_model(config, indexed=tuple(n for n in range(count) if not kinds or kinds[n] == "full"))


BUILDERS: dict[str, Builder] = {
    "ChatGLMModel": _chatglm,
    "ChatGLMForConditionalGeneration": _chatglm,
    "chatglm": _chatglm,
    "GlmForCausalLM": _glm,
    "glm": _glm,
    "Glm4ForCausalLM": _glm4,
    "glm4": _glm4,
    "Glm4MoeForCausalLM": _glm4_moe,
    "glm4_moe": _glm4_moe,
    "GlmMoeDsaForCausalLM": _glm_moe_dsa,
    "glm_moe_dsa": _glm_moe_dsa,
}
