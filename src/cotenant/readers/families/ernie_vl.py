"""ERNIE 4.5 VL: text and vision tokens have routed experts of their own, of different widths, and share others."""

from __future__ import annotations

from cotenant.domain.model import ParameterGroup, Role
from cotenant.readers.blocks import Groups, Structure, experts, gated_mlp, router, split_layers
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, dense, read_sizes
from cotenant.readers.vision import MOST, layer_norm, matrix, patches, vit_layers, whole


def _pair(config: ConfigView, key: str, default: int) -> tuple[int, int]:
    """A value for text and one for images, given as a list, or one for both."""
    if isinstance(config.raw(key), list):
        values = config.integers(key)
        if len(values) != 2:
            config.fault(key, "must hold one number for text and one for images")
            return default, default
        return values[0], values[1]
    value = config.integer(key, default=default, least=0)
    return value, value


def _feed_forward(config: ConfigView, sizes: Sizes) -> Groups:
    """Source: vLLM, models/ernie45_vl_moe.py, Ernie4_5_VLMoeMoE."""
    counts = _pair(config, "moe_num_experts", 64)
    widths = _pair(config, "moe_intermediate_size", 1536)
    starts, ends = _pair(config, "moe_layer_start_index", 1), _pair(config, "moe_layer_end_index", sizes.count - 1)
    step = config.integer("moe_layer_interval", default=1)
    mixed = tuple(n for n in sizes.layers if min(starts) <= n <= max(ends) and (n + 1) % step == 0)
    shared = widths[0] * config.integer("moe_num_shared_experts", default=2, least=0, most=64)
    groups: Groups = gated_mlp(mixed, sizes.hidden, shared, name="shared_experts") if shared and mixed else ()
    if mixed:
        groups += (
            ParameterGroup("router.correction_bias", Role.ROUTER, (2, counts[0]), layers=mixed, dtype="fp32"),
        )
    plain = split_layers(sizes.layers, mixed)[1]
    for count, width, start, end in zip(counts, widths, starts, ends, strict=True):
        routed = tuple(n for n in mixed if start <= n <= end)
        if routed:
            groups += router(routed, sizes.hidden, count, dtype="fp32") + experts(
                routed, sizes.hidden, width, count
            )
        others = split_layers(mixed, routed)[1]
        groups += gated_mlp(others, sizes.hidden, sizes.inner) if others else ()
    return groups + (gated_mlp(plain, sizes.hidden, sizes.inner) if plain else ())


def _tower(config: ConfigView, vision: ConfigView, hidden: int) -> Groups:
    """Patches without a bias, plain layers, and a resampler over 2 x 2 patches and two frames."""
    width = vision.integer("embed_dim", "hidden_size", default=1280, most=MOST)
    depth = vision.integer("depth", default=32, most=10_000)
    inner = round(width * vision.number("mlp_ratio", default=4.0))
    patch = vision.integer("patch_size", default=14, most=1024)
    groups = patches(width, patch, bias=False) + vit_layers(width, inner, depth) + layer_norm("vision.norm", width)
    merged = width * config.integer("spatial_conv_size", default=2, most=16) ** 2
    inputs = [merged]
    if config.flag("use_temporal_conv", default=True):
        inputs.append(merged * config.integer("temporal_conv_size", default=2, most=16))
    for number, columns in enumerate(inputs):
        groups += matrix(f"resampler.{number}.linear1", merged, columns)
        groups += matrix(f"resampler.{number}.linear2", merged, merged) + layer_norm(
            f"resampler.{number}.norm", merged
        )
    return groups + matrix("resampler.mlp", hidden, merged) + whole("resampler.after_norm", hidden)


def _ernie_vl(config: ConfigView) -> Structure:
    text = config.text_section()
    sizes = read_sizes(text, tied=True)
    bias = text.flag("use_bias")
    counts = _pair(text, "moe_num_experts", 64)
    built = dense(
        text, sizes=sizes, qkv_bias=bias, out_bias=bias, feed_forward=_feed_forward(text, sizes),
        num_experts=sum(counts), experts_per_token=text.integer("moe_k", default=6),
    )  # fmt: skip
    groups = _tower(text, config.section("vision_config"), sizes.hidden)
    return built.extended(*groups, modalities=("text", "image", "video"))


BUILDERS: dict[str, Builder] = {
    "Ernie4_5_VLMoeForConditionalGeneration": _ernie_vl,
    "ernie4_5_moe_vl": _ernie_vl,
    "ernie4_5_vl_moe": _ernie_vl,
}
