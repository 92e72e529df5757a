"""StepFun's Step3: one key-value head of 256, queries through a narrow projection, experts, a large tower."""

from __future__ import annotations

from cotenant.domain.model import Role, Split
from cotenant.readers.blocks import Groups, Structure, cache_groups, linear, norm, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, sparse_feed_forward, structure
from cotenant.readers.families.multimodal import text_structure
from cotenant.readers.vision import (
    MOST,
    image_positions,
    layer_norm,
    matrix,
    patches,
    tower_sizes,
    vit_layers,
    whole,
)


def _sparse(config: ConfigView, count: int) -> tuple[int, ...]:
    """Layers with experts: `moe_layers_enum`, text or a list of numbers; all but the first where it is missing."""
    named = config.raw("moe_layers_enum")
    if named is None:
        return tuple(range(1, count))
    parts = named.split(",") if isinstance(named, str) else named if isinstance(named, list) else []
    numbers = {int(part) for part in map(str, parts) if part.strip().isdigit()}
    if not numbers or max(numbers) >= count:
        config.fault("moe_layers_enum", f"must name layers below {count}")
        return ()
    return tuple(sorted(numbers))


def _attention(config: ConfigView, sizes: Sizes) -> Groups:
    """Queries narrow first, beside one key and one value, whole on every rank; then widened to all heads (vLLM,
    models/step3_text.py, Step3TextAttention)."""
    narrow = config.integer("share_q_dim", default=sizes.head_dim, most=MOST)
    at = sizes.layers
    groups = linear("self_attn.q_proj", narrow, sizes.hidden, role=Role.ATTENTION, layers=at, split=Split.NONE)
    for letter in "kv":
        name = f"self_attn.{letter}_proj"
        groups += linear(name, sizes.head_dim, sizes.hidden, role=Role.ATTENTION, layers=at, split=Split.NONE)
    wide = sizes.heads * sizes.head_dim
    groups += linear("self_attn.wq", wide, narrow, role=Role.ATTENTION, layers=at)
    groups += linear("self_attn.o_proj", sizes.hidden, wide, role=Role.ATTENTION, layers=at, row=True)
    return groups + norm("self_attn.inter_norm", narrow, layers=at)


def _step3_text(config: ConfigView) -> Structure:
    config = config.with_defaults(
        hidden_size=7168, intermediate_size=18432, num_attention_heads=64, num_hidden_layers=61, vocab_size=128815,
        head_dim=256,
    )  # fmt: skip
    sizes = read_sizes(config.replaced(num_key_value_heads=1))
    sparse = _sparse(config, sizes.count)
    count = config.integer("moe_num_experts", default=48, most=2**14)
    inner = config.integer("moe_intermediate_size", default=5120, most=MOST)
    shared = config.integer("share_expert_dim", default=inner, most=MOST)
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + _attention(config, sizes)
    groups += sparse_feed_forward(sizes, sparse, count=count, inner=inner, shared=shared)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2) + norm("norm", sizes.hidden)
    caches = cache_groups([None] * sizes.count, sizes.heads, 1, sizes.head_dim)
    top = config.integer("moe_top_k", default=3)
    return structure(sizes, groups, caches, num_experts=count, experts_per_token=top)


def _step3(config: ConfigView) -> Structure:
    """63 layers of 1,792 behind two strided convolutions and a projection (vLLM, models/step3_vl.py)."""
    text = _step3_text(config.section("text_config"))
    vision = config.section("vision_config")
    width, inner, depth, patch = tower_sizes(
        vision, hidden_size=1792, intermediate_size=15360, num_hidden_layers=63, patch_size=14
    )
    out = vision.integer("output_hidden_size", default=4096, most=MOST)
    rows = (vision.side("image_size", default=728) // patch) ** 2 + 1
    groups = patches(width, patch) + vit_layers(width, inner, depth)
    groups += whole("vision.class_token", width) + whole("vision.positions", rows, width)
    groups += whole("vision.downsampler", out, width * 4 + 1) + whole("vision.downsampler2", 2 * out, out * 9 + 1)
    hidden = config.integer("hidden_size", default=text.hidden_size, most=MOST)
    groups += matrix("projector", hidden, 2 * out, bias=config.flag("projector_bias", default=True))
    return text.extended(*groups, modalities=("text", "image"))


def _step_vl(config: ConfigView) -> Structure:
    """A decoder of another family behind a Perception Encoder with rotary positions, two strided convolutions that
    double the width (vLLM, models/step_vl.py)."""
    text = text_structure(config, default="qwen3")
    vision = config.section("vision_config")
    width = vision.integer("width", default=1536, most=MOST)
    depth = vision.integer("layers", default=47, most=10_000)
    inner = int(width * vision.number("mlp_ratio", default=8960 / 1536))
    patch = vision.integer("patch_size", default=14, most=1024)
    scales = 2 if vision.raw("ls_init_value") is not None else 0
    groups = patches(width, patch, bias=False) + vit_layers(width, inner, depth, scales=scales)
    groups += layer_norm("vision.ln_pre", width) if vision.flag("use_ln_pre", default=True) else ()
    groups += layer_norm("vision.ln_post", width) if vision.flag("use_ln_post") else ()
    classed = vision.flag("use_cls_token")
    groups += whole("vision.class_token", width) if classed else ()
    if vision.flag("use_abs_posemb", default=True):
        rows = image_positions(vision, patch, default=728) + classed
        groups += whole("vision.positions", rows, width)
    for fold in (1, 2):
        groups += whole(f"vision.downsampler{fold}", 2 * fold * width, fold * width * 9 + 1)
    groups += matrix("projector", text.hidden_size, 4 * width, bias=config.flag("projector_bias", default=True))
    return text.extended(*groups, modalities=("text", "image"))


BUILDERS: dict[str, Builder] = {
    "Step3TextForCausalLM": _step3_text,
    "step3_text": _step3_text,
    "Step3VLForConditionalGeneration": _step3,
    "step3_vl": _step3,
    "StepVLForConditionalGeneration": _step_vl,
    "step_robotics": _step_vl,
}
