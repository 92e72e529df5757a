"""AI2's OLMo: the first without norm weights, the second with norms after each half and on queries and keys."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, layer_windows, read_sizes


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


BUILDERS: dict[str, Builder] = {
    "OlmoForCausalLM": _olmo,
    "olmo": _olmo,
    "Olmo2ForCausalLM": _olmo2,
    "olmo2": _olmo2,
    "Olmo3ForCausalLM": _olmo3,
    "olmo3": _olmo3,
}
