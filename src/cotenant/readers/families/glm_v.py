"""GLM with eyes: 4V, 4.1V, 4.5V and 4.6V, and GLM-5.3-Flash (Kimi delta attention beside latent attention)."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import LayerGroup, ParameterGroup, Role, Split
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    latent_cache,
    linear,
    norm,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, dense, read_sizes, structure
from cotenant.readers.families.deepseek import draft_layers, feed_forward, index_bytes, indexer, mla, sparse_layers
from cotenant.readers.families.deepseek_v4 import hyper_connections
from cotenant.readers.families.glm import _chatglm, _glm4_moe
from cotenant.readers.recurrent import KimiDeltaShape, kimi_delta, kimi_delta_state, recurrent_group
from cotenant.readers.vision import MOST, layer_norm, matrix, patches, tower_sizes, vit_layers, whole

_MODALITIES = ("text", "image", "video")


def _merger(width: int, context: int) -> Groups:
    """A projection, a layer norm, a gated MLP."""
    groups = matrix("merger.proj", width, width, bias=False) + layer_norm("merger.norm", width)
    groups += matrix("merger.gate_up", context, width, bias=False, copies=2)
    return groups + matrix("merger.down", width, context, bias=False, row=True)


def _tower(config: ConfigView, context: int) -> Groups:
    """24 gated layers without biases, learned positions, a convolution that merges 2 x 2 patches."""
    width = config.integer("hidden_size", default=1536, most=MOST)
    depth = config.integer("depth", default=24, most=10_000)
    out = config.integer("out_hidden_size", default=4096, most=MOST)
    patch = config.integer("patch_size", default=14, most=1024)
    merge = config.integer("spatial_merge_size", default=2, most=16)
    bias = config.flag("attention_bias")
    groups = patches(width, patch, frames=config.integer("temporal_patch_size", default=2, most=64))
    groups += vit_layers(
        width, out, depth, qkv_bias=bias, out_bias=False, mlp_bias=False, gated=True, norm_bias=False
    )
    groups += whole("vision.positions", (config.integer("image_size", default=336) // patch) ** 2, width)
    groups += layer_norm("vision.outer_norms", width, bias=False, copies=2)
    groups += whole("vision.downsample", out, width * merge * merge) + whole("vision.downsample.bias", out)
    return groups + _merger(out, context)


def _glm4v(config: ConfigView) -> Structure:
    text_config = config.text_section()
    text = dense(text_config, norms=4, qkv_bias=text_config.flag("attention_bias", default=True))
    vision = config.section("vision_config")
    context = vision.integer("intermediate_size", default=13696)
    return text.extended(*_tower(vision, context), modalities=_MODALITIES)


def _glm_4v_9b(config: ConfigView) -> Structure:
    """GLM-4V-9B in its own files' words: EVA-CLIP, a strided convolution, a gated projector (vLLM, glm4v.py)."""
    text = _chatglm(config)
    vision = config.section("vision_config")
    width, inner, depth, patch = tower_sizes(
        vision, hidden_size=1792, intermediate_size=15360, num_hidden_layers=63, patch_size=14
    )
    groups = patches(width, patch) + vit_layers(width, inner, depth) + whole("vision.class_token", width)
    groups += whole("vision.positions", vision.integer("num_positions", default=6401, most=MOST), width)
    hidden, out = text.hidden_size, config.integer("ffn_hidden_size", most=MOST)
    groups += whole("vision.conv", hidden, 4 * width + 1) + whole("vision.ends", hidden, copies=2)
    groups += whole("projector.linear", hidden, hidden) + layer_norm("projector.norm", hidden)
    groups += matrix("projector.gate_up", out, hidden, bias=False, copies=2)
    return text.extended(
        *groups, *matrix("projector.down", hidden, out, bias=False, row=True), modalities=("text", "image")
    )


def _glm4v_moe(config: ConfigView) -> Structure:
    text = _glm4_moe(config.text_section().with_defaults(attention_bias=True))
    vision = config.section("vision_config")
    context = vision.integer("intermediate_size", default=10944)
    return text.extended(*_tower(vision, context), modalities=_MODALITIES)


def _pooled_indexer(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    """The indexer, and with `index_kpool_compress` a gate and position weights that pool `index_kpool` keys."""
    groups = indexer(config, sizes, layers)
    if config.flag("index_kpool_compress", default="index_kpool" in config):
        width = config.integer("index_head_dim")
        rows = config.integer("index_kpool", default=4, most=1024)
        groups += (ParameterGroup("indexer.kpool_ape", Role.OTHER, (rows, width), layers=layers),)
        groups += linear(
            "indexer.kpool_gate", width, sizes.hidden, role=Role.ATTENTION, layers=layers, split=Split.NONE
        )
    return groups


def _glm5_text(config: ConfigView) -> Structure:
    """Three layers of delta attention to one of latent attention without rotary part; hyper-connections."""
    sizes = read_sizes(config.replaced(num_key_value_heads=None, head_dim=config.raw("v_head_dim")))
    kinds = config.texts("layer_types")
    if len(kinds) != sizes.count:
        config.fault("layer_types", f"names {len(kinds)} layers of {sizes.count}")
        kinds = ("linear_attention",) * sizes.count
    mixing, attending = split_layers(sizes.layers, (n for n in sizes.layers if kinds[n] == "linear_attention"))
    section = config.section("linear_attn_config").with_defaults(
        num_heads=config.raw("linear_num_heads"), head_dim=config.raw("linear_head_dim")
    )
    shape = KimiDeltaShape(
        section.integer("num_heads"),
        section.integer("head_dim"),
        section.integer("short_conv_kernel_size", default=4),
    )
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    groups += feed_forward(config, sizes, sparse_layers(config, sizes))
    if mixing:
        groups += kimi_delta(mixing, sizes.hidden, shape)
    groups += _latent(config, sizes, attending) if attending else ()
    layer = _latent(config, sizes, (0,)) + feed_forward(config, sizes, (0,), plain=())
    layer += norm("layernorm", sizes.hidden, layers=(0,), copies=2)
    if config.flag("mhc", default=True):
        groups += hyper_connections(sizes.layers, sizes.hidden, config.integer("hc_mult", default=4, most=64))
    groups += draft_layers(config, sizes, layer)
    caches = recurrent_group(mixing, kimi_delta_state(shape)) + _latent_caches(config, sizes, attending)
    return structure(
        sizes, groups, caches, num_experts=config.integer("n_routed_experts"),
        experts_per_token=config.integer("num_experts_per_tok", default=8),
    )  # fmt: skip


def _latent(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    return mla(config, sizes, layers) + _pooled_indexer(config, sizes, layers)


def _latent_caches(config: ConfigView, sizes: Sizes, layers: Layers) -> tuple[LayerGroup, ...]:
    if not layers:
        return ()
    rank, rope = config.integer("kv_lora_rank"), config.integer("qk_rope_head_dim", least=0)
    pool = config.integer("index_kpool", default=1, most=1024)  # the indexer keeps one key for `pool` tokens
    return (latent_cache(layers, sizes.heads, rank, rope, index_width=index_bytes(config) // pool),)


def _glm5_tower(config: ConfigView) -> Groups:
    """As GLM-4's, with biases and norms on queries and keys, rotary positions only."""
    width = config.integer("hidden_size", default=1024, most=MOST)
    depth = config.integer("depth", default=24, most=10_000)
    out = config.integer("out_hidden_size", default=4096, most=MOST)
    inner = config.integer("intermediate_size", default=4096, most=MOST)
    patch = config.integer("patch_size", default=14, most=1024)
    merge = config.integer("spatial_merge_size", default=2, most=16)
    head_dim = max(1, width // config.integer("num_heads", default=16))
    context = config.integer("projection_intermediate_size", default=10240, most=MOST)
    groups = patches(width, patch, frames=config.integer("temporal_patch_size", default=2, most=64))
    groups += vit_layers(width, inner, depth, gated=True, norm_bias=False)
    groups += layer_norm("vision.qk_norms", head_dim, bias=False, copies=2 * depth)
    groups += layer_norm("vision.post_norm", width, bias=False)
    groups += whole("vision.downsample", out, width * merge * merge) + whole("vision.downsample.bias", out)
    return groups + _merger(out, context)


def _glm5_next(config: ConfigView) -> Structure:
    text = _glm5_text(config.text_section())
    return replace(text.extended(*_glm5_tower(config.section("vision_config"))), modalities=_MODALITIES)


BUILDERS: dict[str, Builder] = {
    "Glm4vForConditionalGeneration": _glm4v,
    "glm4v": _glm4v,
    "Glm46VForConditionalGeneration": _glm4v,
    "glm46v": _glm4v,
    "Glm4vMoeForConditionalGeneration": _glm4v_moe,
    "glm4v_moe": _glm4v_moe,
    "GLM4VForCausalLM": _glm_4v_9b,
    "Glm5NextForCausalLM": _glm5_text,
    "Glm5NextForConditionalGeneration": _glm5_next,
    "glm5_next": _glm5_next,
}
