"""Moonshot's Kimi: K2.5 (DeepSeek-V3 with a MoonViT tower), Kimi-Linear and K3 (delta attention beside MLA)."""

from __future__ import annotations

from cotenant.domain.model import Role, Split
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    experts,
    gated_mlp,
    latent_cache,
    linear,
    norm,
    router,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, structure
from cotenant.readers.families.deepseek import latent_model, mla
from cotenant.readers.recurrent import KimiDeltaShape, kimi_delta, kimi_delta_state, recurrent_group
from cotenant.readers.vision import MOST, layer_norm, matrix, patches, vit_layers, whole


def _kimi_linear(config: ConfigView) -> Structure:
    """Layers are numbered from 1 in `linear_attn_config`."""
    config = config.with_defaults(
        n_routed_experts=config.raw("num_experts"), n_shared_experts=config.raw("num_shared_experts"),
        num_experts_per_tok=config.raw("num_experts_per_token"),
    )  # fmt: skip
    section = config.section("linear_attn_config").with_defaults(
        num_heads=config.raw("linear_num_heads"), head_dim=config.raw("linear_head_dim")
    )
    sizes = read_sizes(config.replaced(num_key_value_heads=None, head_dim=config.raw("v_head_dim")))
    kinds = config.texts("layer_types")
    delta: Layers = tuple(n - 1 for n in section.integers("kda_layers", least=1))
    if kinds and not delta:
        delta = tuple(n for n, kind in enumerate(kinds) if kind == "linear_attention")
    mixing, attending = split_layers(sizes.layers, delta)
    shape = KimiDeltaShape(
        section.integer("num_heads"),
        section.integer("head_dim"),
        section.integer("short_conv_kernel_size", default=4),
    )
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2)
    if mixing:
        groups += kimi_delta(mixing, sizes.hidden, shape, full_gate=section.flag("use_full_rank_gate"))
    if attending:
        groups += mla(config, sizes, attending) + _output_gate(config, sizes, attending)
    groups += _feed_forward(config, sizes) + _attention_residual(config, sizes)
    caches = recurrent_group(mixing, kimi_delta_state(shape))
    if attending:
        ranks = config.integer("kv_lora_rank"), config.integer("qk_rope_head_dim")
        caches += (latent_cache(attending, sizes.heads, *ranks),)
    return structure(
        sizes, groups, caches, num_experts=config.integer("n_routed_experts"),
        experts_per_token=config.integer("num_experts_per_tok", default=8),
    )  # fmt: skip


def _output_gate(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    if not config.flag("mla_use_output_gate"):
        return ()
    width = sizes.heads * config.integer("v_head_dim")
    return linear("self_attn.g_proj", width, sizes.hidden, role=Role.ATTENTION, layers=layers)


def _feed_forward(config: ConfigView, sizes: Sizes) -> Groups:
    """Experts after the first dense layers; in K3 they work in a narrower space (`routed_expert_hidden_size`)."""
    first = config.integer("first_k_dense_replace", default=0, least=0)
    kinds = config.texts("mlp_layer_types")
    if len(kinds) == sizes.count:
        first = kinds.count("dense")
    plain, sparse = sizes.layers[:first], sizes.layers[first:]
    count, inner = config.integer("n_routed_experts"), config.integer("moe_intermediate_size")
    latent = config.optional_integer("routed_expert_hidden_size", least=1)
    groups = gated_mlp(plain, sizes.hidden, sizes.inner) if plain else ()
    if not sparse:
        return groups
    groups += router(sparse, sizes.hidden, count, correction=True)
    groups += experts(sparse, latent or sizes.hidden, inner, count)
    shared = config.integer("n_shared_experts", default=0, least=0, most=64) * inner
    if shared:
        groups += gated_mlp(sparse, sizes.hidden, shared, name="shared_experts")
    if latent is not None:
        for name, outputs, inputs in (("down", latent, sizes.hidden), ("up", sizes.hidden, latent)):
            groups += linear(
                f"routed_expert_{name}_proj", outputs, inputs, role=Role.MLP, layers=sparse, split=Split.NONE
            )
        groups += norm("routed_expert_norm", latent, layers=sparse) if config.flag("latent_moe_use_norm") else ()
    return groups


def _attention_residual(config: ConfigView, sizes: Sizes) -> Groups:
    """K3 chooses among earlier blocks' outputs before each half: a norm and a score of one output."""
    if "attn_res_block_size" not in config:
        return ()
    groups = norm("res_norm", sizes.hidden, layers=sizes.layers, copies=2) + norm("output_res_norm", sizes.hidden)
    groups += linear("res_proj", 1, sizes.hidden, role=Role.OTHER, layers=sizes.layers, split=Split.NONE, copies=2)
    return groups + linear("output_res_proj", 1, sizes.hidden, role=Role.OTHER, split=Split.NONE)


def _moonvit(config: ConfigView, out: int) -> Groups:
    """MoonViT: biases and layer norms in K2.5, neither in K3; a table of positions; patches merged 2 x 2."""
    hidden = config.integer("vt_hidden_size", "hidden_size", default=1152, most=MOST)
    inner = config.integer("vt_intermediate_size", "intermediate_size", default=4304, most=MOST)
    depth = config.integer("vt_num_hidden_layers", "num_hidden_layers", default=27, most=10_000)
    patch = config.integer("patch_size", default=14, most=1024)
    rows = config.integer("init_pos_emb_height", default=64, most=2**14)
    rows *= config.integer("init_pos_emb_width", default=64, most=2**14)
    plain = config.text("norm_type", default="layernorm") == "rmsnorm"
    groups = patches(hidden, patch, bias=config.flag("patch_embed_proj_bias", default=True))
    groups += whole("vision.positions", rows, hidden) + layer_norm("vision.last_norm", hidden, bias=not plain)
    groups += _moonvit_layers(config, hidden, inner, depth, plain)
    merged = 4 * hidden
    if config.text("mm_projector_type") == "patchmergerv2":
        return groups + _merger_v2(hidden, merged, out)
    groups += layer_norm("projector.norm", hidden) + matrix("projector.fc1", merged, merged)
    return groups + matrix("projector.fc2", out, merged, row=True)


def _moonvit_layers(config: ConfigView, hidden: int, inner: int, depth: int, plain: bool) -> Groups:
    """K3 widens queries, keys and values to `qkv_hidden_size`."""
    width = config.integer("qkv_hidden_size", default=hidden, most=MOST)
    if width == hidden:
        return vit_layers(hidden, inner, depth, norm_bias=not plain)
    qkv_bias = config.flag("attn_bias", default=True)
    bias = config.flag("linear_bias", default=True)
    groups = matrix("vision.qkv_proj", 3 * width, hidden, bias=qkv_bias, copies=depth)
    groups += matrix("vision.out_proj", hidden, width, bias=qkv_bias, copies=depth, row=True)
    groups += matrix("vision.fc1", inner, hidden, bias=bias, copies=depth)
    groups += matrix("vision.fc2", hidden, inner, bias=bias, copies=depth, row=True)
    return groups + layer_norm("vision.norms", hidden, bias=not plain, copies=2 * depth)


def _merger_v2(_hidden: int, merged: int, out: int) -> Groups:
    """K3's projector: two linear layers without biases, and a norm after them."""
    groups = matrix("projector.fc1", merged, merged, bias=False) + matrix("projector.fc2", out, merged, bias=False)
    return groups + layer_norm("projector.norm", out, bias=False)


def _kimi_k25(config: ConfigView) -> Structure:
    text = latent_model(config.text_section())
    return text.extended(
        *_moonvit(config.section("vision_config"), text.hidden_size), modalities=("text", "image")
    )


def _kimi_vl(config: ConfigView) -> Structure:
    """Kimi-VL: DeepSeek's decoder without low-rank queries behind the first MoonViT."""
    text = latent_model(config.text_section())
    return text.extended(
        *_moonvit(config.section("vision_config"), text.hidden_size), modalities=("text", "image")
    )


def _kimi_k3(config: ConfigView) -> Structure:
    text = _kimi_linear(config.text_section())
    return text.extended(
        *_moonvit(config.section("vision_config"), text.hidden_size), modalities=("text", "image")
    )


BUILDERS: dict[str, Builder] = {
    "KimiLinearForCausalLM": _kimi_linear,
    "kimi_linear": _kimi_linear,
    "KimiK25ForConditionalGeneration": _kimi_k25,
    "kimi_k25": _kimi_k25,
    "KimiVLForConditionalGeneration": _kimi_vl,
    "kimi_vl": _kimi_vl,
    "KimiK3ForConditionalGeneration": _kimi_k3,
    "kimi_k3": _kimi_k3,
}
