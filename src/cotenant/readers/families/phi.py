"""Microsoft's Phi: 1 and 2 (parallel block with biases), 3 and 4 (Llama's layer, fused), and Phi-3.5-MoE."""

from __future__ import annotations

from cotenant.readers.blocks import Structure
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, dense, layer_windows, read_sizes, sparse_feed_forward
from cotenant.readers.vision import clip_layers, two_layer_projector, whole


def _phi(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    return dense(
        config, sizes=sizes, gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, norms=1, norm_bias=True,
        head_bias=True, qk_norm="head" if config.flag("qk_layernorm") else "", qk_norm_bias=True,
    )  # fmt: skip


def _phi3(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    return dense(config, sizes=sizes, windows=layer_windows(config, sizes.count))


def _phimoe(config: ConfigView) -> Structure:
    sizes = read_sizes(config)
    bias = config.flag("attention_bias")
    count = config.integer("num_local_experts", default=16, most=2**14)
    return dense(
        config, sizes=sizes, qkv_bias=bias, out_bias=bias, norm_bias=True, head_bias=config.flag("lm_head_bias"),
        windows=layer_windows(config, sizes.count), num_experts=count,
        feed_forward=sparse_feed_forward(sizes, sizes.layers, count=count, inner=sizes.inner),
        experts_per_token=config.integer("num_experts_per_tok", default=2),
    )  # fmt: skip


def _phi3_small(config: ConfigView) -> Structure:
    """Biases and layer norms; every second layer attends block-sparsely, but keeps the whole past."""
    sizes = read_sizes(config.replaced(intermediate_size=config.raw("ff_intermediate_size")), tied=True)
    return dense(config, sizes=sizes, qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True)


def _phi3_vision(config: ConfigView) -> Structure:
    """CLIP ViT-L/14 at 336 pixels behind Phi-3; crops are merged 2 x 2 and separated by learned vectors."""
    text = _phi3(config)
    width = config.section("img_processor").integer("image_dim_out", default=1024)
    tower = ConfigView(
        {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": 24, "patch_size": 14,
         "image_size": 336}
    )  # fmt: skip
    groups = clip_layers(tower) + whole("img_projection.separators", 4 * width, copies=2)
    groups += two_layer_projector(text.hidden_size, 4 * width)
    return text.extended(*groups, modalities=("text", "image"))


BUILDERS: dict[str, Builder] = {
    "PhiForCausalLM": _phi,
    "phi": _phi,
    "phi-msft": _phi,
    "Phi3ForCausalLM": _phi3,
    "phi3": _phi3,
    "Phi3SmallForCausalLM": _phi3_small,
    "phi3small": _phi3_small,
    "Phi3VForCausalLM": _phi3_vision,
    "phi3_v": _phi3_vision,
    "PhiMoEForCausalLM": _phimoe,
    "PhimoeForCausalLM": _phimoe,
    "phimoe": _phimoe,
}
