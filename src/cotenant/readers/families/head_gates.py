"""Sliding windows with a gate on every head's output: Laguna, Step 3.5 and 3.7, AFMoE, Muse Glimmer."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.model import LayerGroup, Role
from cotenant.readers.blocks import Groups, Layers, Structure, attention, cache_groups, linear, norm, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import (
    Builder,
    Sizes,
    Windows,
    layer_windows,
    read_sizes,
    sparse_feed_forward,
    structure,
)
from cotenant.readers.vision import layer_norm, matrix, tower_sizes, vit_layers, whole


def _by_kind(heads: Sequence[int], windows: Windows) -> dict[tuple[int, int | None], list[int]]:
    """Layers by (query heads, window)."""
    kinds: dict[tuple[int, int | None], list[int]] = {}
    for number, kind in enumerate(zip(heads, windows, strict=True)):
        kinds.setdefault(kind, []).append(number)
    return kinds


def _attending(
    sizes: Sizes, heads: Sequence[int], windows: Windows, *, bias: bool, qk_norm: str, wide_gate: bool
) -> tuple[Groups, tuple[LayerGroup, ...]]:
    """Attention whose query heads may differ by layer; one gate a head, or one a channel (`wide_gate`)."""
    groups: Groups = ()
    caches: tuple[LayerGroup, ...] = ()
    for (count, window), numbers in _by_kind(heads, windows).items():
        layers = tuple(numbers)
        groups += attention(
            layers, sizes.hidden, count, sizes.kv_heads, sizes.head_dim, qkv_bias=bias, qk_norm=qk_norm
        )
        width = count * sizes.head_dim if wide_gate else count
        groups += linear("self_attn.g_proj", width, sizes.hidden, role=Role.ATTENTION, layers=layers)
        caches += cache_groups([window] * len(layers), count, sizes.kv_heads, sizes.head_dim, layers=layers)
    return groups, caches


def _shell(sizes: Sizes, norms: int = 2) -> Groups:
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    return groups + norm("layernorm", sizes.hidden, layers=sizes.layers, copies=norms)


def _heads_per_layer(config: ConfigView, sizes: Sizes) -> Sequence[int]:
    heads = config.integers("num_attention_heads_per_layer", least=1, most=2**14)
    if heads and len(heads) != sizes.count:
        config.fault("num_attention_heads_per_layer", f"names {len(heads)} layers of {sizes.count}")
        heads = ()
    return heads or [sizes.heads] * sizes.count


def _sparse(config: ConfigView, sizes: Sizes, first: int) -> Layers:
    kinds = config.texts("mlp_layer_types")
    if len(kinds) == sizes.count:
        return tuple(n for n in sizes.layers if kinds[n] == "sparse")
    return sizes.layers[config.integer("first_k_dense_replace", "num_dense_layers", default=first, least=0) :]


def _laguna(config: ConfigView) -> Structure:
    sizes = read_sizes(config.with_defaults(head_dim=128))
    attending, caches = _attending(
        sizes, _heads_per_layer(config, sizes), layer_windows(config, sizes.count),
        bias=config.flag("attention_bias"), qk_norm="head", wide_gate=config.raw("gating") == "per-element",
    )  # fmt: skip
    count = config.integer("num_experts")
    groups = _shell(sizes) + attending
    groups += sparse_feed_forward(
        sizes, _sparse(config, sizes, 1), count=count, inner=config.integer("moe_intermediate_size"),
        shared=config.integer("shared_expert_intermediate_size", default=0, least=0), correction=True,
    )  # fmt: skip
    active = config.integer("num_experts_per_tok", default=8)
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


def _step_text(config: ConfigView) -> Structure:
    """Sliding layers may have head counts of their own (`attention_other_setting`)."""
    sizes = read_sizes(config.with_defaults(head_dim=128, num_key_value_heads=config.raw("num_attention_groups")))
    windows = layer_windows(config, sizes.count)
    other = config.integer("num_sliding_attention_heads", default=sizes.heads)
    other = config.section("attention_other_setting").integer("num_attention_heads", default=other)
    heads = [sizes.heads if window is None else other for window in windows]
    attending, caches = _attending(sizes, heads, windows, bias=False, qk_norm="head", wide_gate=False)
    count = config.integer("num_experts", "moe_num_experts", "n_routed_experts")
    groups = _shell(sizes) + attending
    groups += sparse_feed_forward(
        sizes, _sparse(config, sizes, 3), count=count, inner=config.integer("moe_intermediate_size"),
        shared=config.integer("share_expert_dim", default=0, least=0),
        correction=config.flag("use_moe_router_bias", default=True),
    )  # fmt: skip
    active = config.integer("num_experts_per_tok", "moe_top_k", default=8)
    return structure(
        sizes, groups, caches, num_experts=count, experts_per_token=active,
        notes=("draft layers, if the checkpoint holds any, are not counted",),
    )  # fmt: skip


def _afmoe(config: ConfigView) -> Structure:
    sizes = read_sizes(config.with_defaults(head_dim=128))
    windows = layer_windows(config, sizes.count, pattern=config.integer("global_attn_every_n_layers", default=4))
    attending, caches = _attending(
        sizes, [sizes.heads] * sizes.count, windows, bias=False, qk_norm="head", wide_gate=True
    )
    count, inner = config.integer("num_experts"), config.integer("moe_intermediate_size")
    groups = _shell(sizes, norms=4) + attending
    groups += sparse_feed_forward(
        sizes, _sparse(config, sizes, 1), count=count, inner=inner, correction=True,
        shared=inner * config.integer("num_shared_experts", default=0, least=0, most=64),
    )  # fmt: skip
    active = config.integer("num_experts_per_tok", default=8)
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


def _muse_text(config: ConfigView) -> Structure:
    """Dense; a gate a channel, four norms, no norms on queries and keys that are learned."""
    sizes = read_sizes(config.with_defaults(head_dim=128))
    windows = layer_windows(config, sizes.count)
    attending, caches = _attending(
        sizes, [sizes.heads] * sizes.count, windows, bias=config.flag("attention_bias"), qk_norm="", wide_gate=True
    )
    groups = _shell(sizes, norms=4) + attending + sparse_feed_forward(sizes, (), count=1, inner=1)
    return structure(sizes, groups, caches)


def _muse(config: ConfigView) -> Structure:
    text = _muse_text(config.text_section())
    vision = config.section("vision_config")
    hidden, inner, depth, patch = tower_sizes(
        vision, hidden_size=1536, intermediate_size=8960, num_hidden_layers=50, patch_size=14
    )
    frames = vision.integer("temporal_patch_size", default=2, most=64)
    rows = vision.integer("num_position_embeddings", default=1024, most=2**20)
    merged = config.integer("out_hidden_size", default=6144)
    middle = config.integer("projector_hidden_size", default=4096)
    groups = matrix("vision.patch_embed", hidden, 3 * frames * patch * patch, bias=False)
    groups += whole("vision.positions", rows, hidden) + vit_layers(hidden, inner, depth)
    groups += layer_norm("vision.outer_norms", hidden, copies=2)
    groups += matrix("adapter.fc1", middle, merged, bias=False) + matrix("adapter.fc2", middle, middle, bias=False)
    groups += matrix("projector", text.hidden_size, middle, bias=False)
    return text.extended(*groups, modalities=("text", "image"))


def _step(config: ConfigView) -> Structure:
    """Step 3.7 with its tower: layer scales, learned positions, two strided convolutions."""
    text = _step_text(config.text_section())
    vision = config.section("vision_config")
    hidden, inner, depth, patch = tower_sizes(
        vision, hidden_size=1536, intermediate_size=8960, num_hidden_layers=47, patch_size=14
    )
    rows = (vision.integer("image_size", default=728) // patch) ** 2
    groups = whole("vision.patch_embed", hidden, 3 * patch * patch) + whole("vision.positions", rows, hidden)
    groups += layer_norm("vision.pre_norm", hidden) + vit_layers(hidden, inner, depth, scales=2)
    for name, outputs, inputs in (("1", 2 * hidden, hidden), ("2", 4 * hidden, 2 * hidden)):
        groups += whole(f"vision.downsampler{name}", outputs, 9 * inputs)
        groups += whole(f"vision.downsampler{name}.bias", outputs)
    groups += matrix("projector", text.hidden_size, 4 * hidden, bias=config.flag("projector_bias"))
    return text.extended(*groups, modalities=("text", "image"))


def _step_any(config: ConfigView) -> Structure:
    return _step(config) if "text_config" in config else _step_text(config)


BUILDERS: dict[str, Builder] = {
    "LagunaForCausalLM": _laguna,
    "laguna": _laguna,
    "Step3p5ForCausalLM": _step_text,
    "Step3p7FlashForCausalLM": _step_any,
    "Step3p7ForConditionalGeneration": _step_any,
    "step3p5": _step_text,
    "step3p7": _step_any,
    "AfmoeForCausalLM": _afmoe,
    "afmoe": _afmoe,
    "MuseGlimmerForCausalLM": _muse_text,
    "MuseGlimmerForConditionalGeneration": _muse,
    "muse_glimmer": _muse,
    "muse_glimmer_text": _muse_text,
}
