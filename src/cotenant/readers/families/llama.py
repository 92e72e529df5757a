"""Llama and the many that keep its layer: SwiGLU, RMSNorm, rotary positions, grouped queries."""

from __future__ import annotations

from cotenant.domain.model import Role
from cotenant.readers.blocks import Structure, vector
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, layer_windows, read_sizes


def _llama(config: ConfigView) -> Structure:
    bias = config.flag("attention_bias")
    return dense(config, qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias"))


def _mistral(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    return dense(config, sizes=sizes, windows=layer_windows(config, sizes.count))


def _internlm2(config: ConfigView) -> Structure:
    bias = config.flag("bias")
    return dense(config, qkv_bias=bias, out_bias=bias)


def _internlm3(config: ConfigView) -> Structure:
    return dense(
        config, qkv_bias=config.flag("qkv_bias"), out_bias=config.flag("bias"), mlp_bias=config.flag("bias")
    )


def _granite(config: ConfigView) -> Structure:
    bias = config.flag("attention_bias")
    return dense(config, qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias"), tied=True)


def _smollm3(config: ConfigView) -> Structure:
    bias = config.flag("attention_bias")
    return dense(config, qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias"), tied=True)


def _seed_oss(config: ConfigView) -> Structure:
    return dense(
        config, qkv_bias=config.flag("attention_bias", default=True), out_bias=config.flag("attention_out_bias"),
        mlp_bias=config.flag("mlp_bias"),
    )  # fmt: skip


def _exaone(config: ConfigView) -> Structure:
    return dense(config, tied=True)


def _exaone4(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    pattern = config.raw("sliding_window_pattern")  # "LLLG" or a number
    period = len(pattern) if isinstance(pattern, str) else pattern if isinstance(pattern, int) else None
    return dense(
        config, sizes=sizes, qk_norm="head", windows=layer_windows(config, sizes.count, pattern=period or None)
    )


def _minicpm(config: ConfigView) -> Structure:
    return dense(config, tied=True)


def _baichuan(config: ConfigView) -> Structure:
    return dense(config)


def _nemotron(config: ConfigView) -> Structure:
    bias = config.flag("attention_bias")
    return dense(
        config, gated=False, norm_bias=True, qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias")
    )


def _apertus(config: ConfigView) -> Structure:
    """xIELU has two learned scalars a layer, counted in its checkpoint."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias")
    scalars = vector("mlp.act_fn", 1, role=Role.OTHER, layers=sizes.layers, copies=2)
    return dense(config, sizes=sizes, gated=False, qk_norm="head", qkv_bias=bias, out_bias=bias, extra=scalars)


def _orion(config: ConfigView) -> Structure:
    return dense(config, norm_bias=True)


def _arcee(config: ConfigView) -> Structure:
    bias = config.flag("attention_bias")
    return dense(config, gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias"))


def _hunyuan_dense(config: ConfigView) -> Structure:
    bias = config.flag("attention_bias")
    return dense(
        config, qkv_bias=bias, out_bias=bias, qk_norm="head" if config.flag("use_qk_norm", default=True) else ""
    )


def _ernie(config: ConfigView) -> Structure:
    bias = config.flag("use_bias")
    return dense(config, qkv_bias=bias, out_bias=bias, mlp_bias=bias, tied=True)


BUILDERS: dict[str, Builder] = {
    "LlamaForCausalLM": _llama,
    "LLaMAForCausalLM": _llama,
    "LlamaModel": _llama,
    "llama": _llama,
    "AquilaForCausalLM": _llama,
    "AquilaModel": _llama,
    "TeleFLMForCausalLM": _llama,
    "XverseForCausalLM": _llama,
    "YiForCausalLM": _llama,
    "NanbeigeForCausalLM": _llama,
    "CwmForCausalLM": _mistral,
    "cwm": _mistral,
    "MistralForCausalLM": _mistral,
    "MistralModel": _mistral,
    "GritLM": _mistral,
    "mistral": _mistral,
    "Ministral3ForCausalLM": _mistral,
    "MinistralForCausalLM": _mistral,
    "ministral3": _mistral,
    "ministral": _mistral,
    "InternLMForCausalLM": _internlm2,
    "InternLM2ForCausalLM": _internlm2,
    "InternLM2VEForCausalLM": _internlm2,
    "internlm": _internlm2,
    "internlm2": _internlm2,
    "InternLM3ForCausalLM": _internlm3,
    "internlm3": _internlm3,
    "GraniteForCausalLM": _granite,
    "granite": _granite,
    "SmolLM3ForCausalLM": _smollm3,
    "smollm3": _smollm3,
    "SeedOssForCausalLM": _seed_oss,
    "seed_oss": _seed_oss,
    "ExaoneForCausalLM": _exaone,
    "exaone": _exaone,
    "Exaone4ForCausalLM": _exaone4,
    "exaone4": _exaone4,
    "MiniCPMForCausalLM": _minicpm,
    "minicpm": _minicpm,
    "BaichuanForCausalLM": _baichuan,
    "BaiChuanForCausalLM": _baichuan,
    "baichuan": _baichuan,
    "NemotronForCausalLM": _nemotron,
    "nemotron": _nemotron,
    "OrionForCausalLM": _orion,
    "orion": _orion,
    "SolarForCausalLM": _llama,
    "solar": _llama,
    "IQuestCoderForCausalLM": _llama,
    "TeleChat3ForCausalLM": _llama,
    "HyperCLOVAXForCausalLM": _llama,
    "hyperclovax": _llama,
    "ApertusForCausalLM": _apertus,
    "apertus": _apertus,
    "ArceeForCausalLM": _arcee,
    "arcee": _arcee,
    "HunYuanDenseV1ForCausalLM": _hunyuan_dense,
    "hunyuan_v1_dense": _hunyuan_dense,
    "Ernie4_5ForCausalLM": _ernie,
    "Ernie4_5_ForCausalLM": _ernie,
    "ernie4_5": _ernie,
}
