"""Ai2's Molmo: OLMo's or Qwen2's decoder behind CLIP at 336 pixels, crops pooled 2 x 2 by attention."""

from __future__ import annotations

from cotenant.domain.model import Role
from cotenant.readers.blocks import Groups, Structure, attention, cache_groups, gated_mlp, norm, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, read_sizes, structure
from cotenant.readers.vision import MOST, clip_layers, matrix, patches, vit_layers, whole

# vLLM, models/molmo.py: VisionBackboneConfig, VIT_LAYERS and ADDITIONAL_VOCAB_SIZE are not in the config.
_CLIP = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 23, "patch_size": 14, "image_size": 336,
}  # fmt: skip
_TAPPED_LAYERS = 2
_ADDED_TOKENS = 128


def _images(hidden: int, inner: int) -> Groups:
    """CLIP without its last layer and norm; one query attends to the patches of two layers; a gated projector."""
    width = _CLIP["hidden_size"]
    tower = tuple(
        group if group.name != "vision.outer_norms" else whole("vision.pre_norm", width, copies=2)[0]
        for group in clip_layers(ConfigView(_CLIP))
    )
    for letter in "qkv":
        tower += matrix(f"pooling.w{letter}", width, _TAPPED_LAYERS * width)
    tower += matrix("pooling.wo", width, width, row=True) + whole("pad_embed", 2, _TAPPED_LAYERS * width)
    tower += matrix("projector.gate_up", inner, width, bias=False, copies=2)
    return tower + matrix("projector.down", hidden, inner, bias=False, row=True)


def _molmo(config: ConfigView) -> Structure:
    """`intermediate_size` counts gate and up together; the input embedding has 128 rows more than the head."""
    sizes = read_sizes(config.replaced(tie_word_embeddings=config.raw("weight_tying")))
    inner = max(1, sizes.inner // 2)
    head = config.integer("embedding_size", default=sizes.vocab, most=2**24)
    groups = vocabulary(head + _ADDED_TOKENS, sizes.hidden, tied=sizes.tied, head_rows=head)
    groups += attention(
        sizes.layers, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=config.flag("qkv_bias"),
        qk_norm="full" if config.flag("attention_layer_norm") else "",
    )  # fmt: skip
    groups += gated_mlp(sizes.layers, sizes.hidden, inner, role=Role.MLP)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2) + norm("norm", sizes.hidden)
    caches = cache_groups([None] * sizes.count, sizes.heads, sizes.kv_heads, sizes.head_dim)
    built = structure(sizes, groups + _images(sizes.hidden, inner), caches)
    return built.extended(modalities=("text", "image"))


def _images2(vision: ConfigView, adapter: ConfigView, hidden: int) -> Groups:
    """SigLIP 2 up to the last layer that is tapped, without a norm behind it; patches pooled by attention."""
    vision = vision.with_defaults(hidden_size=1152, intermediate_size=4304, num_hidden_layers=27)
    width = vision.integer("hidden_size", most=MOST)
    depth = vision.integer("num_hidden_layers", most=10_000)
    taps = adapter.raw("vit_layers")
    taps = taps if isinstance(taps, list) and taps and all(type(tap) is int for tap in taps) else [-3, -9]
    last = max(tap if tap >= 0 else tap + depth for tap in taps[:100])
    depth = min(depth, max(1, last + 1))
    tower = patches(width, vision.integer("image_patch_size", default=14, most=1024))
    tower += vit_layers(width, vision.integer("intermediate_size", most=MOST), depth)
    tower += whole("vision.positions", vision.integer("image_num_pos", default=577, most=MOST), width)
    pooled = adapter.integer("hidden_size", default=1152, most=MOST)
    for letter in "qkv":
        tower += matrix(f"pooling.w{letter}", pooled, len(taps) * width)
    inner = adapter.integer("intermediate_size", default=18944, most=MOST)
    tower += matrix("pooling.wo", pooled, pooled, row=True)
    tower += matrix("projector.gate_up", inner, pooled, bias=False, copies=2)
    return tower + matrix("projector.down", hidden, inner, bias=False, row=True)


def _molmo2(config: ConfigView) -> Structure:
    """Molmo 2: Qwen3's or OLMo's decoder, the embedding with 128 rows more than the head (models/molmo2.py)."""
    text = config.section("text_config", "llm_config")
    sizes = read_sizes(text)
    added = text.integer("additional_vocab_size", default=_ADDED_TOKENS, least=0, most=2**20)
    kind = "" if not text.flag("use_qk_norm") else text.text("qk_norm_type", default="olmo")
    groups = vocabulary(sizes.vocab + added, sizes.hidden, tied=False, head_rows=sizes.vocab)
    groups += attention(
        sizes.layers, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=text.flag("qkv_bias"),
        qk_norm={"": "", "qwen3": "head"}.get(kind, "full"),
    )  # fmt: skip
    groups += gated_mlp(sizes.layers, sizes.hidden, sizes.inner, role=Role.MLP)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2) + norm("norm", sizes.hidden)
    caches = cache_groups([None] * sizes.count, sizes.heads, sizes.kv_heads, sizes.head_dim)
    images = _images2(config.section("vit_config"), config.section("adapter_config"), sizes.hidden)
    return structure(sizes, groups + images, caches).extended(modalities=("text", "image", "video"))


BUILDERS: dict[str, Builder] = {
    "MolmoForCausalLM": _molmo,
    "molmo": _molmo,
    "Molmo2ForConditionalGeneration": _molmo2,
    "molmo2": _molmo2,
}
