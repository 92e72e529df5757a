"""MiniMax: 01 and M1 with lightning attention beside a few full layers, M3 with block-sparse attention."""

from __future__ import annotations

from cotenant.domain.model import AttentionKind, LayerGroup, RecurrentState, Role, Split
from cotenant.readers.blocks import (
    Groups,
    Structure,
    attention,
    cache_groups,
    experts,
    linear,
    norm,
    router,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, sparse_feed_forward, structure
from cotenant.readers.recurrent import lightning, recurrent_group
from cotenant.readers.vision import layer_norm, matrix, patches, tower_sizes, two_layer_projector, vit_layers


def _minimax_01(config: ConfigView) -> Structure:
    """`attn_type_list`: 1 = softmax attention, 0 = lightning, whose state is kept in the model's precision."""
    sizes = read_sizes(config)
    kinds = config.integers("attn_type_list", most=1)
    named = config.texts("layer_types")
    if named and not kinds:
        kinds = tuple(int(kind == "full_attention") for kind in named)
    if len(kinds) != sizes.count:
        config.fault("attn_type_list", f"names {len(kinds)} layers of {sizes.count}")
        kinds = (1,) * sizes.count
    full, linear_layers = split_layers(sizes.layers, (n for n in sizes.layers if kinds[n]))
    count = config.integer("num_local_experts", default=8)
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    if full:
        groups += attention(full, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim)
    if linear_layers:
        groups += lightning(linear_layers, sizes.hidden, sizes.heads, sizes.head_dim)
    groups += router(sizes.layers, sizes.hidden, count) + experts(sizes.layers, sizes.hidden, sizes.inner, count)
    state = RecurrentState(0, sizes.heads * sizes.head_dim * sizes.head_dim)
    caches = recurrent_group(linear_layers, state)
    if full:
        caches += cache_groups([None] * len(full), sizes.heads, sizes.kv_heads, sizes.head_dim, layers=full)
    active = config.integer("num_experts_per_tok", default=2)
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


def _frequency(config: ConfigView, key: str, count: int) -> tuple[int, ...]:
    """Layers whose entry in a list of zeros and ones is one."""
    values = config.integers(key, most=1)
    if len(values) != count:
        config.fault(key, f"names {len(values)} layers of {count}")
        return ()
    return tuple(n for n, value in enumerate(values) if value)


def _indexer(sizes: Sizes, indexed: tuple[int, ...], heads: int, width: int) -> Groups:
    """Query and key of the block chooser, each with a norm; whole on every rank."""
    groups: Groups = ()
    for name, outputs in (("q_proj", heads * width), ("k_proj", width)):
        groups += linear(
            f"indexer.{name}", outputs, sizes.hidden, role=Role.ATTENTION, layers=indexed, split=Split.NONE
        )
    return groups + norm("indexer.norms", width, layers=indexed, copies=2)


def _minimax_m3(config: ConfigView) -> Structure:
    sizes = read_sizes(config.replaced(intermediate_size=config.raw("dense_intermediate_size")))
    sparse = _moe_layers(config, sizes)
    section = config.section("sparse_attention_config")
    width = section.integer("sparse_index_dim", default=128)
    indexed = _indexed_layers(config, sizes)
    count = config.integer("num_local_experts")
    inner = config.integer("moe_intermediate_size", "intermediate_size")
    shared = config.integer("shared_intermediate_size", default=inner) * config.integer(
        "n_shared_experts", default=1, least=0, most=64
    )
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += attention(sizes.layers, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qk_norm="head")
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    groups += sparse_feed_forward(sizes, sparse, count=count, inner=inner, shared=shared, correction=True)
    if indexed:
        groups += _indexer(sizes, indexed, section.integer("sparse_num_index_heads", default=4), width)
    caches = _m3_caches(sizes, indexed, width)
    return structure(
        sizes,
        groups,
        caches,
        num_experts=count,
        experts_per_token=config.integer("num_experts_per_tok", default=4),
    )


def _moe_layers(config: ConfigView, sizes: Sizes) -> tuple[int, ...]:
    kinds = config.texts("mlp_layer_types")
    if kinds and len(kinds) == sizes.count:
        return tuple(n for n in sizes.layers if kinds[n] == "sparse")
    return _frequency(config, "moe_layer_freq", sizes.count)


def _indexed_layers(config: ConfigView, sizes: Sizes) -> tuple[int, ...]:
    section = config.section("sparse_attention_config")
    if not section.flag("use_sparse_attention", default=True):
        return ()
    kinds = config.texts("layer_types")
    if kinds and len(kinds) == sizes.count and "sparse_attention_freq" not in section:
        return tuple(n for n in sizes.layers if kinds[n] != "full_attention")
    return _frequency(section, "sparse_attention_freq", sizes.count)


def _m3_caches(sizes: Sizes, indexed: tuple[int, ...], width: int) -> tuple[LayerGroup, ...]:
    """Indexed layers also keep one key of `width` elements a token in the model's precision (2 bytes)."""
    chosen, plain = split_layers(sizes.layers, indexed)
    shape = (sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.head_dim)
    groups = tuple(LayerGroup(AttentionKind.FULL, layers, *shape) for layers in (plain,) if layers)
    if chosen:
        groups += (LayerGroup(AttentionKind.FULL, chosen, *shape, index_width=2 * width),)
    return groups


def _minimax_m3_vl(config: ConfigView) -> Structure:
    text = _minimax_m3(config.text_section())
    vision = config.section("vision_config")
    hidden, inner, depth, patch = tower_sizes(
        vision, hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, patch_size=14
    )
    groups = patches(hidden, patch, frames=2, bias=False) + vit_layers(hidden, inner, depth)
    groups += layer_norm("vision.pre_norm", hidden) + two_layer_projector(text.hidden_size, hidden)
    merge = vision.integer("spatial_merge_size", default=2, most=16) ** 2
    groups += matrix("projector.merge_1", text.hidden_size, merge * text.hidden_size)
    groups += matrix("projector.merge_2", text.hidden_size, text.hidden_size, row=True)
    return text.extended(*groups, modalities=("text", "image", "video"))


BUILDERS: dict[str, Builder] = {
    "MiniMaxText01ForCausalLM": _minimax_01,
    "MiniMaxM1ForCausalLM": _minimax_01,
    "MiniMaxForCausalLM": _minimax_01,
    "minimax": _minimax_01,
    "minimax_text_01": _minimax_01,
    "minimax_m1": _minimax_01,
    "MiniMaxM3ForCausalLM": _minimax_m3,
    "MiniMaxM3SparseForCausalLM": _minimax_m3,
    "minimax_m3": _minimax_m3,
    "MiniMaxM3SparseForConditionalGeneration": _minimax_m3_vl,
    "minimax_m3_vl": _minimax_m3_vl,
}
