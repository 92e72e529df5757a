"""Nemotron-H and Nemotron 3: one mixer a layer; M is Mamba 2, * attention, - an MLP, E experts."""

from __future__ import annotations

from cotenant.domain.model import Role, Split
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    attention,
    cache_groups,
    draft,
    experts,
    linear,
    norm,
    plain_mlp,
    router,
    vocabulary,
)
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, structure
from cotenant.readers.recurrent import Mamba2Shape, mamba2, mamba2_state, recurrent_group

_KINDS = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}


def _pattern(config: ConfigView) -> str:
    """One letter a layer, from `hybrid_override_pattern` or `layers_block_type`."""
    pattern = config.text("hybrid_override_pattern")
    kinds = config.texts("layers_block_type")
    if not pattern and kinds:
        pattern = "".join(_KINDS.get(kind, "?") for kind in kinds)
    if not pattern or set(pattern) - set("M*-E"):
        config.fault("hybrid_override_pattern", "must name each layer by one of M, *, - and E")
        return "M"
    return pattern


def _experts(config: ConfigView, sizes: Sizes, layers: Layers) -> Groups:
    """Experts without a gate projection (relu2); with `moe_latent_size` they work in a narrower space."""
    count = config.integer("n_routed_experts", default=8)
    latent = config.optional_integer("moe_latent_size", least=1)
    width = sizes.hidden if latent is None else latent
    inner = config.integer("moe_intermediate_size", default=sizes.inner)
    groups = router(layers, sizes.hidden, count, correction=True)
    groups += experts(layers, width, inner, count, gated=False)
    shared = config.integer("moe_shared_expert_intermediate_size", default=inner)
    shared *= config.integer("n_shared_experts", default=1, least=0, most=64)
    if shared:
        groups += plain_mlp(layers, sizes.hidden, shared, name="shared_experts")
    if latent is not None:
        for name, outputs, inputs in (("fc1", latent, sizes.hidden), ("fc2", sizes.hidden, latent)):
            groups += linear(
                f"{name}_latent_proj", outputs, inputs, role=Role.MLP, layers=layers, split=Split.NONE
            )
    return groups


def _layers(config: ConfigView, sizes: Sizes, pattern: str) -> Groups:
    """Every layer's norm and mixer."""
    at = {letter: tuple(n for n, kind in enumerate(pattern) if kind == letter) for letter in "M*-E"}
    bias = config.flag("attention_bias")
    groups = norm("norm", sizes.hidden, layers=tuple(range(len(pattern))))
    if at["M"]:
        groups += mamba2(
            at["M"], sizes.hidden, _mamba_shape(config), conv_bias=config.flag("use_conv_bias", default=True),
            bias=config.flag("use_bias"),
        )  # fmt: skip
    if at["*"]:
        groups += attention(
            at["*"], sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=bias, out_bias=bias
        )
    if at["-"]:
        groups += plain_mlp(at["-"], sizes.hidden, sizes.inner, bias=config.flag("mlp_bias"))
    return groups + (_experts(config, sizes, at["E"]) if at["E"] else ())


def _mamba_shape(config: ConfigView) -> Mamba2Shape:
    return Mamba2Shape(
        heads=config.integer("mamba_num_heads", default=128),
        head_dim=config.integer("mamba_head_dim", default=64),
        groups=config.integer("n_groups", default=8),
        state=config.integer("ssm_state_size", default=128),
        kernel=config.integer("conv_kernel", default=4),
        chunk=config.integer("mamba_chunk_size", "chunk_size", default=128),
    )


def _draft(config: ConfigView, sizes: Sizes) -> Groups:
    """Draft layers by a pattern of their own: the first takes the projection, the last a norm."""
    count = config.integer("num_nextn_predict_layers", default=0, least=0, most=64)
    kinds = config.texts("mtp_layers_block_type") or ("attention", "moe")
    pattern = config.text("mtp_hybrid_override_pattern", default="".join(_KINDS.get(kind, "?") for kind in kinds))
    if not count or set(pattern) - set("M*-E"):
        return ()
    extra = norm("enorm", sizes.hidden, copies=3)
    extra += linear("eh_proj", sizes.hidden, 2 * sizes.hidden, role=Role.OTHER)
    return draft((_layers(config, sizes, pattern) + extra) * count)


def _nemotron_h(config: ConfigView) -> Structure:
    pattern = _pattern(config)
    declared = config.integer("num_hidden_layers", default=len(pattern), most=10_000)
    if declared != len(pattern):
        config.fault("hybrid_override_pattern", f"names {len(pattern)} layers of {declared}")
    head_dim = config.integer("attention_head_dim", "head_dim", default=128)
    sizes = read_sizes(config.replaced(head_dim=head_dim, num_hidden_layers=len(pattern)), inner=1)
    attending = tuple(n for n, kind in enumerate(pattern) if kind == "*")
    mixing = tuple(n for n, kind in enumerate(pattern) if kind == "M")
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm_f", sizes.hidden)
    groups += _layers(config, sizes, pattern) + _draft(config, sizes)
    # vLLM's default for this family is fp32 (models/config.py NemotronHForCausalLMConfig).
    named = config.text("mamba_ssm_cache_dtype", default="float32")
    dtype = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(named, "")
    caches = recurrent_group(mixing, mamba2_state(_mamba_shape(config), dtype=dtype))
    if attending:
        caches += cache_groups(
            [None] * len(attending), sizes.heads, sizes.kv_heads, sizes.head_dim, layers=attending
        )
    sparse = "E" in pattern
    return structure(
        sizes, groups, caches, num_experts=config.integer("n_routed_experts", default=8) if sparse else 0,
        experts_per_token=config.integer("num_experts_per_tok", default=2) if sparse else 0,
    )  # fmt: skip


BUILDERS: dict[str, Builder] = {
    "NemotronHForCausalLM": _nemotron_h,
    "NemotronHPuzzleForCausalLM": _nemotron_h,
    "nemotron_h": _nemotron_h,
}
