"""Decoders before Llama: GPT-2, GPT-J, GPT-NeoX, OPT, BLOOM, MPT, StarCoder, StableLM."""

from __future__ import annotations

from cotenant.domain.model import ParameterGroup, Role, Stage
from cotenant.readers.blocks import Groups, Structure, linear, norm
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, dense, layer_windows, read_sizes


def _positions(rows: int, width: int) -> Groups:
    """A learned position table, held whole by every rank."""
    return (ParameterGroup("embed_positions", Role.EMBEDDING, (rows, width), stage=Stage.FIRST),)


def _sizes(config: ConfigView, *, tied: bool) -> Sizes:
    """As `read_sizes`, the feed-forward being four times the width where not said."""
    hidden = config.integer("hidden_size", "n_embd", "d_model")
    return read_sizes(config, tied=tied, inner=4 * hidden)


def _gpt2(config: ConfigView) -> Structure:
    sizes = _sizes(config, tied=True)
    extra = _positions(config.integer("n_positions", "n_ctx", default=1024), sizes.hidden)
    return dense(
        config, sizes=sizes, gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True, extra=extra
    )


def _gpt_bigcode(config: ConfigView) -> Structure:
    kv = {"num_key_value_heads": 1} if config.flag("multi_query", default=True) else {}
    return _gpt2(config.replaced(**kv))


def _gptj(config: ConfigView) -> Structure:
    sizes = _sizes(config, tied=False)
    return dense(config, sizes=sizes, gated=False, norms=1, norm_bias=True, mlp_bias=True, head_bias=True)


def _gpt_neox(config: ConfigView) -> Structure:
    sizes = _sizes(config, tied=False)
    bias = config.flag("attention_bias", default=True)
    return dense(config, sizes=sizes, gated=False, norm_bias=True, qkv_bias=bias, out_bias=bias, mlp_bias=True)


def _opt(config: ConfigView) -> Structure:
    """Positions start at 2. OPT-350M norms after each half, has no last norm and embeds in another width."""
    sizes = _sizes(config, tied=True)
    before = config.flag("do_layer_norm_before", default=True)
    bias = config.flag("enable_bias", default=True)
    width = config.integer("word_embed_proj_dim", default=sizes.hidden)
    extra = _positions(config.integer("max_position_embeddings") + 2, sizes.hidden)
    base = dense(
        config, sizes=sizes, gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=bias, norm_bias=True, extra=extra
    )
    if width == sizes.hidden and before:
        return base
    kept = tuple(group for group in base.parameters if not (group.name == "norm" and not before))
    narrow = tuple(
        ParameterGroup(g.name, g.role, (g.shape[0], width), g.split, stage=g.stage, tied=g.tied)
        if g.name in ("embed_tokens", "lm_head") else g
        for g in kept
    )  # fmt: skip
    projections = linear("project_in", sizes.hidden, width, role=Role.EMBEDDING)
    projections += linear("project_out", width, sizes.hidden, role=Role.HEAD)
    from dataclasses import replace

    return replace(base, parameters=narrow + (projections if width != sizes.hidden else ()))


def _bloom(config: ConfigView) -> Structure:
    sizes = _sizes(config, tied=True)
    extra = norm("word_embeddings_layernorm", sizes.hidden, bias=True)
    return dense(
        config, sizes=sizes, gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True, extra=extra
    )


def _mpt(config: ConfigView) -> Structure:
    hidden = config.integer("d_model", most=2**20)
    inner = hidden * config.integer("expansion_ratio", default=4, most=64)
    kv_heads = config.section("attn_config").optional_integer("kv_n_heads", least=1)
    kv = {} if kv_heads is None else {"num_key_value_heads": kv_heads}
    sizes = read_sizes(config.replaced(intermediate_size=inner, **kv), tied=True)
    bias = not config.flag("no_bias", default=True)
    return dense(config, sizes=sizes, gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=bias, norm_bias=bias)


def _starcoder2(config: ConfigView) -> Structure:
    sizes = read_sizes(config, tied=True)
    bias = config.flag("use_bias", default=True)
    windows = layer_windows(config, sizes.count)
    return dense(
        config,
        sizes=sizes,
        gated=False,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        norm_bias=True,
        windows=windows,
    )


def _stablelm(config: ConfigView) -> Structure:
    norms = 1 if config.flag("use_parallel_residual") else 2
    return dense(
        config, qkv_bias=config.flag("use_qkv_bias"), norms=norms, norm_bias=True,
        qk_norm="full" if config.flag("qk_layernorm") else "",
    )  # fmt: skip


BUILDERS: dict[str, Builder] = {
    "GPT2LMHeadModel": _gpt2,
    "gpt2": _gpt2,
    "GPTBigCodeForCausalLM": _gpt_bigcode,
    "gpt_bigcode": _gpt_bigcode,
    "GPTJForCausalLM": _gptj,
    "gptj": _gptj,
    "GPTNeoXForCausalLM": _gpt_neox,
    "gpt_neox": _gpt_neox,
    "OPTForCausalLM": _opt,
    "opt": _opt,
    "BloomForCausalLM": _bloom,
    "bloom": _bloom,
    "MPTForCausalLM": _mpt,
    "MptForCausalLM": _mpt,
    "mpt": _mpt,
    "Starcoder2ForCausalLM": _starcoder2,
    "starcoder2": _starcoder2,
    "StableLmForCausalLM": _stablelm,
    "StableLMEpochForCausalLM": _stablelm,
    "stablelm": _stablelm,
    "stablelm_epoch": _stablelm,
}
