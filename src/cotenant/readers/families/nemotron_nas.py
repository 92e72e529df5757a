"""Llama-Nemotron (DeciLM): a Llama whose layers a search thinned out, each with sizes of its own."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.domain.model import AttentionKind, LayerGroup, Role, Split
from cotenant.readers.blocks import Structure, attention, cache_groups, gated_mlp, linear, norm, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, read_sizes, structure

_MULTIPLE = 256


def _blocks(config: ConfigView, count: int) -> list[tuple[ConfigView, ConfigView]]:
    """(attention, ffn) of every layer."""
    raw = config.raw("block_configs")
    if not isinstance(raw, list) or len(raw) != count or not all(isinstance(item, Mapping) for item in raw):
        config.fault("block_configs", f"must describe each of {count} layers")
        return []
    views = [config.replaced(block=item).section("block") for item in raw]
    return [(view.section("attention"), view.section("ffn")) for view in views]


def _inner(ffn: ConfigView, hidden: int) -> int:
    """Two thirds of `ffn_mult` times the width, up to a multiple of 256, unless given."""
    given = ffn.optional_integer("intermediate_size", least=1)
    if given is not None:
        return given
    inner = int(2 * ffn.number("ffn_mult", default=1.0) * hidden / 3)
    return -(-inner // _MULTIPLE) * _MULTIPLE


def _kind(view: ConfigView) -> str:
    if view.flag("no_op"):
        return "none"
    return "linear" if view.flag("replace_with_linear") else "whole"


def _decilm(config: ConfigView) -> Structure:
    sizes = read_sizes(config.replaced(num_key_value_heads=None), inner=1)
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    attending: dict[int, list[int]] = {}
    mixing: dict[int, list[int]] = {}
    linears: list[int] = []
    norms: list[int] = []  # a layer's number stands twice where it has two
    for number, (attn, ffn) in enumerate(_blocks(config, sizes.count)):
        norms += [number] * ((_kind(attn) != "none") + (_kind(ffn) != "none"))
        linears += [number] * ((_kind(attn) == "linear") + (_kind(ffn) == "linear"))
        if _kind(attn) == "whole":
            kv_heads = max(1, sizes.heads // attn.integer("n_heads_in_group", default=1))
            attending.setdefault(kv_heads, []).append(number)
        if _kind(ffn) == "whole":
            mixing.setdefault(_inner(ffn, sizes.hidden), []).append(number)
    for inner, layers in mixing.items():
        groups += gated_mlp(tuple(layers), sizes.hidden, inner)
    groups += norm("layernorm", sizes.hidden, layers=tuple(norms)) if norms else ()
    if linears:
        groups += linear(
            "linear", sizes.hidden, sizes.hidden, role=Role.MLP, layers=tuple(linears), split=Split.NONE
        )
    caches: tuple[LayerGroup, ...] = ()
    for kv_heads, layers in attending.items():
        at = tuple(layers)
        groups += attention(at, sizes.hidden, sizes.heads, kv_heads, sizes.head_dim)
        caches += cache_groups([None] * len(at), sizes.heads, kv_heads, sizes.head_dim, layers=at)
    skipped = tuple(sorted(set(sizes.layers) - {n for layers in attending.values() for n in layers}))
    if skipped:
        caches += (LayerGroup(AttentionKind.NONE, skipped, sizes.heads),)
    return structure(sizes, groups, caches)


BUILDERS: dict[str, Builder] = {
    "DeciLMForCausalLM": _decilm,
    "nemotron-nas": _decilm,
    "deci": _decilm,
}
