"""DeepSeek-V4: one shared key-value head, a window of 128 beside compressed tokens, hyper-connections.

Source of the tensors: transformers 5.24 models/deepseek_v4 and vLLM 0.33 models/deepseek_v4. Every layer keeps
the last 128 tokens; layers with a compression ratio r also keep one row of head_dim for every r tokens, which
the cache group states as head_dim / r elements a token; those with r = 4 have an indexer, 132 / 4 bytes a token.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import AttentionKind, LayerGroup, ParameterGroup, Role, Split, Stage
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    draft,
    experts,
    gated_mlp,
    linear,
    norm,
    router,
    split_layers,
    vector,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, structure
from cotenant.readers.families.deepseek import index_bytes

_RATES = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}


def whole_linear(name: str, outputs: int, inputs: int, layers: Layers) -> Groups:
    """A projection that every rank holds whole."""
    return linear(name, outputs, inputs, role=Role.ATTENTION, layers=layers, split=Split.NONE)


def hyper_connections(layers: Layers, hidden: int, streams: int) -> Groups:
    """Hyper-connections: for both halves of a layer a map, its base and three scales, in fp32."""
    rows = (2 + streams) * streams
    groups: Groups = (
        ParameterGroup("hc.fn", Role.OTHER, (rows, streams * hidden), copies=2, layers=layers, dtype="fp32"),
    )
    groups += vector("hc.base", rows, role=Role.OTHER, layers=layers, copies=2, dtype="fp32")
    return groups + vector("hc.scale", 3, role=Role.OTHER, layers=layers, copies=2, dtype="fp32")


def stream_head(hidden: int, streams: int) -> Groups:
    """What joins the streams before the last norm."""
    groups: Groups = (
        ParameterGroup("hc_head.fn", Role.OTHER, (streams, streams * hidden), stage=Stage.LAST, dtype="fp32"),
    )
    return groups + vector("hc_head.base_and_scale", streams + 1, role=Role.OTHER, stage=Stage.LAST, dtype="fp32")


def lean_attention(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    """Low-rank queries, one key-value head, grouped low-rank output, sinks."""
    q_rank, o_rank = config.integer("q_lora_rank"), config.integer("o_lora_rank")
    o_groups = config.integer("o_groups", most=1024)
    width = sizes.heads * sizes.head_dim
    at = "self_attn"
    groups = whole_linear(f"{at}.q_a_proj", q_rank, sizes.hidden, layers) + norm(
        f"{at}.q_a_norm", q_rank, layers=layers
    )
    groups += linear(f"{at}.q_b_proj", width, q_rank, role=Role.ATTENTION, layers=layers)
    groups += whole_linear(f"{at}.kv_proj", sizes.head_dim, sizes.hidden, layers)
    groups += norm(f"{at}.kv_norm", sizes.head_dim, layers=layers)
    groups += linear(
        f"{at}.o_a_proj", o_groups * o_rank, max(1, width // o_groups), role=Role.ATTENTION, layers=layers
    )
    groups += linear(
        f"{at}.o_b_proj", sizes.hidden, o_groups * o_rank, role=Role.ATTENTION, layers=layers, row=True
    )
    return groups + vector(f"{at}.sinks", sizes.heads, role=Role.ATTENTION, layers=layers, split=Split.EVEN)


def _compressor(name: str, width: int, hidden: int, ratio: int, layers: Layers) -> Groups:
    """Key-value and gate projections over `ratio` tokens (twice as wide where windows overlap, ratio 4)."""
    wide = width * (2 if ratio == 4 else 1)
    groups = whole_linear(f"{name}.kv_proj", wide, hidden, layers) + whole_linear(
        f"{name}.gate_proj", wide, hidden, layers
    )
    groups += (ParameterGroup(f"{name}.position_bias", Role.OTHER, (ratio, wide), layers=layers, dtype="fp32"),)
    return groups + norm(f"{name}.kv_norm", width, layers=layers)


def _indexer(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    heads, width = config.integer("index_n_heads"), config.integer("index_head_dim")
    groups = _compressor("indexer", width, sizes.hidden, 4, layers)
    groups += whole_linear("indexer.q_b_proj", heads * width, config.integer("q_lora_rank"), layers)
    return groups + whole_linear("indexer.weights_proj", heads, sizes.hidden, layers)


def lean_experts(config: ConfigView, sizes: Sizes, layers: Layers, hashed: int) -> Groups:
    """Every layer has experts; the first `num_hash_layers` pick them by a table of the token, not by a bias."""
    count, inner = config.integer("n_routed_experts"), config.integer("moe_intermediate_size")
    shared = config.integer("n_shared_experts", default=1, least=0, most=64)
    first, rest = split_layers(layers, range(hashed))
    groups = experts(layers, sizes.hidden, inner, count)
    groups += router(rest, sizes.hidden, count, correction=True) if rest else ()
    if first:
        active = config.integer("num_experts_per_tok")
        groups += router(first, sizes.hidden, count)
        groups += (
            ParameterGroup("router.tid2eid", Role.ROUTER, (sizes.vocab, active), layers=first, dtype="int64"),
        )
    return groups + (gated_mlp(layers, sizes.hidden, shared * inner, name="shared_experts") if shared else ())


def _layer(config: ConfigView, sizes: Sizes, layers: Layers, hashed: int) -> Groups:
    groups = lean_attention(config, sizes, layers) + lean_experts(config, sizes, layers, hashed)
    groups += norm("layernorm", sizes.hidden, layers=layers, copies=2)
    return groups + hyper_connections(layers, sizes.hidden, config.integer("hc_mult", default=4, most=64))


def _draft(config: ConfigView, sizes: Sizes) -> Groups:
    count = config.integer("num_nextn_predict_layers", default=0, least=0, most=64)
    if not count:
        return ()
    layer = _layer(config, sizes, (0,), 0) + norm("enorm", sizes.hidden, copies=3)
    layer += linear("e_h_proj", sizes.hidden, sizes.hidden, role=Role.OTHER, split=Split.NONE, copies=2)
    layer += stream_head(sizes.hidden, config.integer("hc_mult", default=4, most=64))
    return draft(replace(group, copies=group.copies * count) for group in layer)


def _deepseek_v4(config: ConfigView) -> Structure:
    sizes = read_sizes(config, inner=config.integer("moe_intermediate_size"))
    hashed = config.integer("num_hash_layers", default=config.texts("mlp_layer_types").count("hash_moe"), least=0)
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += stream_head(sizes.hidden, config.integer("hc_mult", default=4, most=64))
    groups += _layer(config, sizes, sizes.layers, hashed)
    ratios = _ratios(config, sizes)
    for ratio in sorted(set(ratios) - {0}):
        layers = tuple(n for n in sizes.layers if ratios[n] == ratio)
        groups += _compressor("compressor", sizes.head_dim, sizes.hidden, ratio, layers)
        groups += _indexer(config, sizes, layers) if ratio == 4 else ()
    groups += _draft(config, sizes)
    return structure(
        sizes, groups, _caches(config, sizes, ratios), num_experts=config.integer("n_routed_experts"),
        experts_per_token=config.integer("num_experts_per_tok"),
    )  # fmt: skip


def _ratios(config: ConfigView, sizes: Sizes) -> tuple[int, ...]:
    """One ratio a layer (0: no compression); draft layers may follow."""
    ratios = config.integers("compress_ratios", most=2**16)
    kinds = config.texts("layer_types")
    if kinds and not ratios:  # as transformers writes it
        rates = config.section("compress_rates").with_defaults(**_RATES)
        ratios = tuple(rates.integer(kind, default=0, least=0) for kind in kinds)
    if len(ratios) < sizes.count or set(ratios) - {0, 4, 128}:
        config.fault("compress_ratios", f"must name {sizes.count} layers by 0, 4 or 128")
        return (0,) * sizes.count
    return ratios[: sizes.count]


def _caches(config: ConfigView, sizes: Sizes, ratios: tuple[int, ...]) -> tuple[LayerGroup, ...]:
    window = config.integer("sliding_window", default=128)
    groups = [LayerGroup(AttentionKind.SLIDING, sizes.layers, sizes.heads, 1, sizes.head_dim, 0, window)]
    for ratio in sorted(set(ratios) - {0}):
        layers = tuple(n for n in sizes.layers if ratios[n] == ratio)
        index = index_bytes(config) // ratio if ratio == 4 else 0
        groups.append(
            LayerGroup(
                AttentionKind.LATENT, layers, sizes.heads, 1, max(1, sizes.head_dim // ratio), 0, index_width=index
            )
        )
    return tuple(groups)


BUILDERS: dict[str, Builder] = {
    "DeepseekV4ForCausalLM": _deepseek_v4,
    "deepseek_v4": _deepseek_v4,
}
