"""Zyphra's Zamba 2: Mamba 2 in every layer, shared transformer blocks with adapters in some."""

from __future__ import annotations

from cotenant.domain.model import Role
from cotenant.readers.blocks import Groups, Layers, Structure, cache_groups, linear, norm, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import Builder, Sizes, read_sizes, structure
from cotenant.readers.recurrent import Mamba2Shape, mamba2, mamba2_state, recurrent_group, state_matrix


def _zamba2(config: ConfigView) -> Structure:
    """Mamba 2 everywhere; some layers also run one of `num_mem_blocks` shared transformer blocks.

    The shared blocks see the hidden state and the embedding together (twice the width), and every use has a
    LoRA of its own on the gate and up projections.
    """
    kinds = config.texts("layers_block_type")
    sizes = read_sizes(config.replaced(head_dim=config.raw("attention_head_dim")), tied=True)
    if len(kinds) != sizes.count:
        config.fault("layers_block_type", f"names {len(kinds)} layers of {sizes.count}")
        kinds = ("mamba",) * sizes.count
    uses = tuple(n for n in sizes.layers if kinds[n] == "hybrid")
    wide = 2 * sizes.hidden
    head_dim = config.integer("attention_head_dim", default=max(1, wide // sizes.heads))
    heads = config.integer("n_mamba_heads", default=8)
    shape = Mamba2Shape(
        heads=heads,
        head_dim=max(1, config.integer("mamba_expand", default=2) * sizes.hidden // heads),
        groups=config.integer("mamba_ngroups", default=1),
        state=config.integer("mamba_d_state", default=64),
        kernel=config.integer("mamba_d_conv", default=4),
        chunk=config.integer("mamba_chunk_size", "chunk_size", default=256),
    )
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied) + norm("norm", sizes.hidden)
    groups += norm("layernorm", sizes.hidden, layers=sizes.layers) + mamba2(sizes.layers, sizes.hidden, shape)
    if uses:
        groups += state_matrix("linear", sizes.hidden, sizes.hidden, uses)
        groups += _shared_blocks(config, sizes, wide, head_dim, uses)
    caches = recurrent_group(sizes.layers, mamba2_state(shape))
    if uses:
        caches += cache_groups([None] * len(uses), sizes.heads, sizes.kv_heads, head_dim, layers=uses)
    return structure(sizes, groups, caches)


def _shared_blocks(config: ConfigView, sizes: Sizes, wide: int, head_dim: int, uses: Layers) -> Groups:
    blocks = config.integer("num_mem_blocks", default=1, most=1000)
    rank = config.integer("adapter_rank", default=128)
    inner = sizes.heads * head_dim
    groups: Groups = ()
    for letter in "qkv":
        groups += linear(f"shared.{letter}_proj", inner, wide, role=Role.ATTENTION, copies=blocks)
    groups += linear("shared.o_proj", sizes.hidden, inner, role=Role.ATTENTION, copies=blocks, row=True)
    groups += linear("shared.gate_up_proj", 2 * sizes.inner, sizes.hidden, role=Role.MLP, copies=blocks)
    groups += linear("shared.down_proj", sizes.hidden, sizes.inner, role=Role.MLP, copies=blocks, row=True)
    groups += norm("shared.norms", wide + sizes.hidden, copies=blocks)
    targets = [("gate_up", sizes.hidden, 2 * sizes.inner)]
    if config.flag("use_shared_attention_adapter"):
        targets += [(letter, wide, inner) for letter in "qkv"]
    for name, inputs, outputs in targets:
        groups += linear(f"{name}.lora_a", rank, inputs, role=Role.OTHER, layers=uses)
        groups += linear(f"{name}.lora_b", outputs, rank, role=Role.OTHER, layers=uses)
    return groups


BUILDERS: dict[str, Builder] = {"Zamba2ForCausalLM": _zamba2, "zamba2": _zamba2}
