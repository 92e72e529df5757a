"""Qwen3-Next and Qwen3.5: three gated delta nets to one gated attention layer, dense or with experts."""

from __future__ import annotations

from collections.abc import Callable

from cotenant.domain.model import Role, Split
from cotenant.readers.blocks import (
    Groups,
    Structure,
    attention,
    cache_groups,
    draft,
    gated_mlp,
    linear,
    norm,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, structure
from cotenant.readers.families.qwen import moe_feed_forward
from cotenant.readers.families.qwen_vl import qwen3_tower
from cotenant.readers.recurrent import DeltaShape, gated_delta, gated_delta_state, recurrent_group


def _full_layers(config: ConfigView, sizes: Sizes) -> tuple[int, ...]:
    kinds = config.texts("layer_types")
    if kinds and len(kinds) == sizes.count:
        return tuple(n for n in sizes.layers if kinds[n] == "full_attention")
    if kinds:
        config.fault("layer_types", f"names {len(kinds)} layers of {sizes.count}")
    step = config.integer("full_attention_interval", default=4)
    return tuple(n for n in sizes.layers if (n + 1) % step == 0)


def _mtp(config: ConfigView, sizes: Sizes, mlp: Groups) -> Groups:
    """Draft layers: full attention and a projection of embedding and state; embedding and head are shared."""
    count = config.integer("mtp_num_hidden_layers", "num_nextn_predict_layers", default=0, least=0, most=64)
    if not count:
        return ()
    layer = attention((0,), sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qk_norm="head", gated=True)
    layer += mlp + norm("layernorm", sizes.hidden, layers=(0,), copies=2)
    once = norm("outer_norms", sizes.hidden, copies=3)
    once += linear("fc", sizes.hidden, 2 * sizes.hidden, role=Role.OTHER, split=Split.NONE)
    return draft(layer * count + once)


def qwen_next_decoder(config: ConfigView, *, tied: bool, mtp: int) -> Structure:
    """The decoder of both; `mtp`: draft layers where the config names none."""
    sizes = read_sizes(config.with_defaults(head_dim=256), tied=tied, inner=1)
    sparse = "num_experts" in config
    full, linear_layers = split_layers(sizes.layers, _full_layers(config, sizes))
    shape = DeltaShape(
        key_heads=config.integer("linear_num_key_heads", default=16),
        value_heads=config.integer("linear_num_value_heads", default=32),
        key_dim=config.integer("linear_key_head_dim", default=128),
        value_dim=config.integer("linear_value_head_dim", default=128),
        kernel=config.integer("linear_conv_kernel_dim", default=4),
    )
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied)
    if full:
        groups += attention(
            full, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qk_norm="head",
            gated=config.flag("attn_output_gate", default=True),
        )  # fmt: skip
    if linear_layers:
        groups += gated_delta(linear_layers, sizes.hidden, shape)
    mlp = _mlp(config, sparse)
    groups += mlp(sizes)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers, copies=2) + norm("norm", sizes.hidden)
    one = Sizes((0,), sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.inner, sizes.vocab, True)
    groups += _mtp(config.with_defaults(mtp_num_hidden_layers=mtp), sizes, mlp(one))
    caches = (
        cache_groups([None] * len(full), sizes.heads, sizes.kv_heads, sizes.head_dim, layers=full) if full else ()
    )
    state = gated_delta_state(shape, dtype=_state_dtype(config))
    return structure(
        sizes, groups, caches + recurrent_group(linear_layers, state),
        num_experts=config.integer("num_experts", least=0) if sparse else 0,
        experts_per_token=config.integer("num_experts_per_tok", default=10) if sparse else 0,
    )  # fmt: skip


def _mlp(config: ConfigView, sparse: bool) -> Callable[[Sizes], Groups]:
    if sparse:
        return lambda sizes: moe_feed_forward(config, sizes, shared=True)[0]
    return lambda sizes: gated_mlp(sizes.layers, sizes.hidden, sizes.inner)


def _state_dtype(config: ConfigView) -> str:
    """`mamba_ssm_dtype` where the config fixes the state's precision; else the model's own."""
    return {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(config.text("mamba_ssm_dtype"), "")


def _qwen3_next(config: ConfigView) -> Structure:
    """Its checkpoints hold one draft layer, though the config does not say so."""
    return qwen_next_decoder(config, tied=False, mtp=1)


def _qwen35_text(config: ConfigView) -> Structure:
    return qwen_next_decoder(config, tied=False, mtp=0)


def _qwen35(config: ConfigView) -> Structure:
    text_config = config.text_section()
    tied = config.flag("tie_word_embeddings", default=text_config.flag("tie_word_embeddings"))
    text = qwen_next_decoder(text_config.replaced(tie_word_embeddings=tied), tied=False, mtp=0)
    vision = config.section("vision_config").with_defaults(deepstack_visual_indexes=[])
    return text.extended(*qwen3_tower(vision, text.hidden_size), modalities=("text", "image", "video"))


BUILDERS: dict[str, Builder] = {
    "Qwen3NextForCausalLM": _qwen3_next,
    "qwen3_next": _qwen3_next,
    "Qwen3_5ForCausalLM": _qwen35_text,
    "qwen3_5_text": _qwen35_text,
    "Qwen3_5MoeForCausalLM": _qwen35_text,
    "qwen3_5_moe_text": _qwen35_text,
    "Qwen3_5ForConditionalGeneration": _qwen35,
    "qwen3_5": _qwen35,
    "Qwen3_5MoeForConditionalGeneration": _qwen35,
    "InternS2PreviewForConditionalGeneration": _qwen35,
    "qwen3_5_moe": _qwen35,
}
