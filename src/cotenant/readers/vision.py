"""Building blocks of vision and audio towers. They stand outside the numbered layers, on the first stage."""

from __future__ import annotations

from cotenant.domain.model import ParameterGroup, Role, Split
from cotenant.readers.blocks import Groups, linear, vector
from cotenant.readers.config_view import MOST_LAYERS, ConfigView

MOST = 2**20


def matrix(
    name: str, outputs: int, inputs: int, *, bias: bool = True, copies: int = 1, row: bool = False
) -> Groups:
    """A linear layer of the tower, divided by tensor parallel."""
    return linear(name, outputs, inputs, role=Role.VISION, bias=bias, copies=copies, row=row)


def whole(name: str, *shape: int, copies: int = 1) -> Groups:
    """A tensor that every rank holds: convolutions, positions, norms."""
    return (ParameterGroup(name, Role.VISION, shape, Split.NONE, copies),)


def layer_norm(name: str, width: int, *, bias: bool = True, copies: int = 1) -> Groups:
    """A norm's weight (and bias)."""
    return vector(name, width, role=Role.VISION, copies=copies * (2 if bias else 1))


def vit_layers(
    hidden: int,
    inner: int,
    depth: int,
    *,
    name: str = "vision",
    qkv_bias: bool = True,
    out_bias: bool = True,
    mlp_bias: bool = True,
    gated: bool = False,
    norm_bias: bool = True,
    norms: int = 2,
    scales: int = 0,
) -> Groups:
    """`depth` transformer layers; `scales` learned vectors of the hidden width a layer (layer scale)."""
    groups = matrix(f"{name}.qkv_proj", 3 * hidden, hidden, bias=qkv_bias, copies=depth)
    groups += matrix(f"{name}.out_proj", hidden, hidden, bias=out_bias, copies=depth, row=True)
    if gated:
        groups += matrix(f"{name}.gate_proj", inner, hidden, bias=mlp_bias, copies=depth)
    groups += matrix(f"{name}.fc1", inner, hidden, bias=mlp_bias, copies=depth)
    groups += matrix(f"{name}.fc2", hidden, inner, bias=mlp_bias, copies=depth, row=True)
    if norms:
        groups += layer_norm(f"{name}.norms", hidden, bias=norm_bias, copies=depth * norms)
    return groups + (layer_norm(f"{name}.scales", hidden, bias=False, copies=depth * scales) if scales else ())


def patches(
    hidden: int, patch: int, *, channels: int = 3, frames: int = 1, bias: bool = True, name: str = "vision"
) -> Groups:
    """The convolution that cuts an image (or `frames` frames) into patches."""
    weight = whole(f"{name}.patch_embed", hidden, channels * frames * patch * patch)
    return weight + (whole(f"{name}.patch_embed.bias", hidden) if bias else ())


def tower_sizes(config: ConfigView, **defaults: int) -> tuple[int, int, int, int]:
    """(hidden, inner, depth, patch) of a tower under their usual keys."""
    config = config.with_defaults(**defaults)
    return (
        config.integer("hidden_size", most=MOST),
        config.integer("intermediate_size", most=MOST),
        config.integer("num_hidden_layers", most=MOST_LAYERS),
        config.side("patch_size", most=1024),
    )


def image_positions(config: ConfigView, patch: int, *, default: int) -> int:
    """Patches of the tower's own image size."""
    return (config.side("image_size", default=default) // patch) ** 2


def siglip_layers(config: ConfigView, *, image: int = 224, **defaults: int) -> Groups:
    """SigLIP (arXiv 2303.15343): learned positions, biases everywhere, a last norm, no pooling head."""
    known = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "patch_size": 16, **defaults}
    hidden, inner, depth, patch = tower_sizes(config, **known)
    groups = patches(hidden, patch) + vit_layers(hidden, inner, depth) + layer_norm("vision.post_norm", hidden)
    return groups + whole("vision.positions", image_positions(config, patch, default=image), hidden)


def siglip_tower(config: ConfigView, text_hidden: int) -> Groups:
    """Gemma 3's tower: SigLIP, a norm, one projection without bias."""
    hidden = config.integer("hidden_size", default=768)
    return (
        siglip_layers(config)
        + matrix("projector", text_hidden, hidden, bias=False)
        + layer_norm("projector.norm", hidden, bias=False)
    )


def clip_layers(config: ConfigView) -> Groups:
    """CLIP ViT (arXiv 2103.00020): a class token, norms before and after, no bias on the patches."""
    hidden, inner, depth, patch = tower_sizes(
        config, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, patch_size=32
    )
    groups = patches(hidden, patch, bias=False) + vit_layers(hidden, inner, depth)
    groups += layer_norm("vision.outer_norms", hidden, copies=2) + whole("vision.class_token", hidden)
    return groups + whole("vision.positions", image_positions(config, patch, default=224) + 1, hidden)


def pixtral_layers(config: ConfigView) -> Groups:
    """Pixtral's ViT: rotary positions, gated MLP, RMS norms, no biases."""
    hidden, inner, depth, patch = tower_sizes(
        config, hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, patch_size=16
    )
    groups = patches(hidden, patch, bias=False) + layer_norm("vision.ln_pre", hidden, bias=False)
    return groups + vit_layers(
        hidden, inner, depth, qkv_bias=False, out_bias=False, mlp_bias=False, gated=True, norm_bias=False
    )


def two_layer_projector(text_hidden: int, inputs: int, *, bias: bool = True) -> Groups:
    """LLaVA's projector: two linear layers with a GELU between."""
    return matrix("projector.linear_1", text_hidden, inputs, bias=bias) + matrix(
        "projector.linear_2", text_hidden, text_hidden, bias=bias, row=True
    )
