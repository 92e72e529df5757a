"""Gemma 4: per-layer inputs, layers that reuse an earlier cache, wide global layers, experts.

Checkpoints also store key and value projections of the layers that reuse a cache; engines do not load them.
"""

from __future__ import annotations

from cotenant.domain.model import AttentionKind, LayerGroup, ParameterGroup, Role, Split
from cotenant.readers.blocks import (
    Groups,
    Structure,
    attention,
    experts,
    gated_mlp,
    linear,
    norm,
    router,
    vector,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, structure
from cotenant.readers.vision import layer_norm, matrix, tower_sizes, whole


def per_layer_inputs(config: ConfigView, sizes: Sizes, default: int) -> Groups:
    """A second embedding with `hidden_size_per_layer_input` values for every layer (PLE)."""
    width = config.integer("hidden_size_per_layer_input", default=default, least=0)
    if not width:
        return ()
    rows = config.integer("vocab_size_per_layer_input", default=sizes.vocab)
    total = sizes.count * width
    groups: Groups = (ParameterGroup("embed_tokens_per_layer", Role.EMBEDDING, (rows, total), Split.VOCAB),)
    groups += linear("per_layer_model_projection", total, sizes.hidden, role=Role.OTHER, split=Split.NONE)
    groups += vector("per_layer_projection_norm", width)
    for name, outputs, inputs in (("gate", width, sizes.hidden), ("projection", sizes.hidden, width)):
        groups += linear(
            f"per_layer_{name}", outputs, inputs, role=Role.OTHER, layers=sizes.layers, split=Split.NONE
        )
    return groups + norm("post_per_layer_input_norm", sizes.hidden, layers=sizes.layers)


def gemma_attention(
    config: ConfigView, sizes: Sizes, sliding: list[bool], shared: int, *, shared_projections: bool
) -> tuple[Groups, tuple[LayerGroup, ...]]:
    """Attention of both kinds. The last `shared` layers read the cache of the last earlier layer of their kind.

    `shared_projections`: whether the checkpoint still holds their key and value projections.
    """
    first_shared = sizes.count - shared
    window = config.integer("sliding_window", default=512)
    wide = config.integer("global_head_dim", default=sizes.head_dim)
    same = config.flag("attention_k_eq_v")
    wide_heads = config.integer("num_global_key_value_heads", default=sizes.kv_heads) if same else sizes.kv_heads
    groups: Groups = ()
    caches: tuple[LayerGroup, ...] = ()
    for slides, kv_heads, width in ((True, sizes.kv_heads, sizes.head_dim), (False, wide_heads, wide)):
        layers = tuple(n for n in sizes.layers if sliding[n] is slides)
        own = tuple(n for n in layers if n < first_shared)
        borrowing = tuple(n for n in layers if n >= first_shared)
        shape = (sizes.hidden, sizes.heads, kv_heads, width)
        if own:
            groups += attention(own, *shape, qk_norm="head", shares_values=same and not slides)
            kind = AttentionKind.SLIDING if slides else AttentionKind.FULL
            caches += (LayerGroup(kind, own, sizes.heads, kv_heads, width, width, window if slides else None),)
        if borrowing:
            groups += attention(borrowing, *shape, qk_norm="head", has_keys=shared_projections)
            caches += (LayerGroup(AttentionKind.NONE, borrowing, sizes.heads, kv_heads, width, width),)
    return groups, caches


def _gemma4_text(config: ConfigView) -> Structure:
    sizes = read_sizes(config.with_defaults(head_dim=256), tied=True)
    sliding = _gemma4_kinds(config, sizes)
    shared = config.integer("num_kv_shared_layers", default=0, least=0, most=sizes.count - 1 or 1)
    with_global = config.with_defaults(global_head_dim=512)
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    attending, caches = gemma_attention(with_global, sizes, sliding, shared, shared_projections=False)
    groups += attending + _gemma4_mlp(config, sizes, shared)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=4)
    groups += per_layer_inputs(config, sizes, 256)
    count = config.integer("num_experts", default=0, least=0) if config.flag("enable_moe_block") else 0
    if count:
        groups += _gemma4_experts(config, sizes, count)
    active = config.integer("num_experts_per_tok", "top_k_experts", default=8) if count else 0
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=active)


def _gemma4_kinds(config: ConfigView, sizes: Sizes) -> list[bool]:
    """Five layers slide, the sixth is full; the last is always full."""
    kinds = config.texts("layer_types")
    if kinds and len(kinds) == sizes.count:
        return [kind == "sliding_attention" for kind in kinds]
    if kinds:
        config.fault("layer_types", f"names {len(kinds)} layers of {sizes.count}")
    return [(n + 1) % 6 != 0 and n != sizes.count - 1 for n in sizes.layers]


def _gemma4_mlp(config: ConfigView, sizes: Sizes, shared: int) -> Groups:
    """With `use_double_wide_mlp` the layers that borrow their cache have twice the width."""
    first = sizes.count - shared
    own, borrowing = sizes.layers[:first], sizes.layers[first:]
    groups = gated_mlp(own, sizes.hidden, sizes.inner) if own else ()
    factor = 2 if config.flag("use_double_wide_mlp") else 1
    return groups + (gated_mlp(borrowing, sizes.hidden, factor * sizes.inner) if borrowing else ())


def _gemma4_experts(config: ConfigView, sizes: Sizes, count: int) -> Groups:
    """Experts beside the MLP of every layer, three norms more, a scale an input and one an expert."""
    inner = config.integer("moe_intermediate_size", "expert_intermediate_size")
    groups = router(sizes.layers, sizes.hidden, count) + experts(sizes.layers, sizes.hidden, inner, count)
    groups += vector("router.scale", sizes.hidden, role=Role.ROUTER, layers=sizes.layers)
    groups += vector("router.per_expert_scale", count, role=Role.ROUTER, layers=sizes.layers)
    return groups + norm("moe_layernorm", sizes.hidden, layers=sizes.layers, copies=3)


def _gemma4_tower(config: ConfigView, out: int) -> Groups:
    """Gated layers with four norms and norms on queries and keys; two tables of positions."""
    hidden, inner, depth, patch = tower_sizes(
        config, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, patch_size=16
    )
    heads = config.integer("num_attention_heads", default=12)
    kv_heads = config.integer("num_key_value_heads", default=heads)
    head_dim = config.integer("head_dim", default=64)
    rows = config.integer("position_embedding_size", default=10240)
    groups = matrix("vision.patch_embed", hidden, 3 * patch * patch, bias=False)
    groups += whole("vision.positions", rows, hidden, copies=2)
    for name, outputs, inputs in (
        ("q_proj", heads * head_dim, hidden), ("k_proj", kv_heads * head_dim, hidden),
        ("v_proj", kv_heads * head_dim, hidden), ("o_proj", hidden, heads * head_dim),
        ("gate_proj", inner, hidden), ("up_proj", inner, hidden), ("down_proj", hidden, inner),
    ):  # fmt: skip
        groups += matrix(f"vision.{name}", outputs, inputs, bias=False, copies=depth)
    groups += layer_norm("vision.norms", hidden, bias=False, copies=4 * depth)
    groups += layer_norm("vision.qk_norms", head_dim, bias=False, copies=2 * depth)
    return groups + matrix("projector", out, hidden, bias=False)


def _gemma4(config: ConfigView) -> Structure:
    text = _gemma4_text(config.text_section())
    if "audio_config" in config:
        text = text.extended(*_gemma4_audio(config.section("audio_config"), text.hidden_size))
    if "vision_config" not in config:
        return text
    return text.extended(
        *_gemma4_tower(config.section("vision_config"), text.hidden_size), modalities=("text", "image")
    )


def _gemma4_audio(config: ConfigView, out: int) -> Groups:
    """A conformer: two half-step MLPs, attention with relative keys, a convolution, in each layer."""
    hidden = config.integer("hidden_size", default=1024, most=2**20)
    depth = config.integer("num_hidden_layers", "conf_num_hidden_layers", default=12, most=10_000)
    heads = config.integer("num_attention_heads", "conf_num_attention_heads", default=8, most=2**14)
    kernel = config.integer("conv_kernel_size", "conf_conv_kernel_size", default=5, most=2**10)
    last = config.integer("output_proj_dims", default=1536, most=2**20)
    groups = subsampling(config, hidden) + conformer(hidden, depth, max(1, hidden // heads), kernel)
    groups += matrix("audio.output_proj", last, hidden)
    return groups + matrix("audio.projector", out, last, bias=False)


def _gemma4_unified(config: ConfigView) -> Structure:
    """No towers: patches and audio frames are projected into the text model (vLLM, models/gemma4_unified.py)."""
    text = _gemma4_text(config.text_section())
    if "audio_config" in config:
        audio = config.section("audio_config")
        width = audio.integer("output_proj_dims", "audio_embed_dim", "hidden_size", most=2**20)
        text = text.extended(*matrix("audio.projector", text.hidden_size, width, bias=False))
    if "vision_config" not in config:
        return text
    vision = config.section("vision_config")
    groups = _patch_embedder(vision)
    width = vision.integer("output_proj_dims", "mm_embed_dim", most=2**20)
    groups += matrix("projector", text.hidden_size, width, bias=False)
    return text.extended(*groups, modalities=("text", "image"))


def _patch_embedder(vision: ConfigView) -> Groups:
    """One matrix over 48 x 48 pixels, three norms and a table of positions for each axis."""
    width = vision.integer("mm_embed_dim", most=2**20)
    pooled = vision.integer("patch_size", default=16, most=2**10)
    pooled *= vision.integer("pooling_kernel_size", default=3, most=2**6)
    pixels = 3 * vision.integer("model_patch_size", default=pooled, most=2**12) ** 2
    groups = whole("vision.dense", width, pixels) + whole("vision.dense.bias", width)
    groups += whole(
        "vision.positions", vision.integer("mm_posemb_size", default=1120, most=2**20), width, copies=2
    )
    return groups + layer_norm("vision.patch_norm", pixels) + layer_norm("vision.norms", width, copies=2)


def subsampling(config: ConfigView, hidden: int) -> Groups:
    """Two strided convolutions over time and 128 mel bands, each with a norm, and a projection."""
    channels = (
        config.integers("subsampling_conv_channels") or config.integers("sscp_conv_channel_size") or (128, 32)
    )
    first, second = (*channels, 32, 32)[:2]
    bands = config.integer("input_feat_size", default=128, most=2**14)
    groups = whole("audio.conv_0", first, 9) + whole("audio.conv_1", second, 9 * first)
    groups += whole("audio.conv_norms", first + second)
    return groups + matrix("audio.input_proj", hidden, second * max(1, bands // 4), bias=False)


def conformer(hidden: int, depth: int, head_dim: int, kernel: int) -> Groups:
    """`depth` conformer layers (arXiv 2005.08100) with five attention matrices and nine norms each."""
    groups: Groups = ()
    shapes = (
        ("ffw_1", 4 * hidden, hidden, 2), ("ffw_2", hidden, 4 * hidden, 2), ("attention", hidden, hidden, 5),
        ("conv_start", 2 * hidden, hidden, 1), ("conv_end", hidden, hidden, 1),
    )  # fmt: skip
    for name, outputs, inputs, copies in shapes:
        groups += matrix(f"audio.{name}", outputs, inputs, bias=False, copies=copies * depth)
    groups += whole("audio.depthwise", hidden, kernel, copies=depth)
    groups += whole("audio.per_dim_scale", head_dim, copies=depth)
    return groups + layer_norm("audio.norms", hidden, bias=False, copies=9 * depth)


BUILDERS: dict[str, Builder] = {
    "Gemma4ForCausalLM": _gemma4_text,
    "gemma4_text": _gemma4_text,
    "Gemma4ForConditionalGeneration": _gemma4,
    "gemma4": _gemma4,
    "Gemma4UnifiedForConditionalGeneration": _gemma4_unified,
    "gemma4_unified": _gemma4_unified,
    "gemma4_unified_text": _gemma4_text,
}
