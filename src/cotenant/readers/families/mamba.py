"""Pure state-space models: Mamba, Falcon-Mamba, Mamba 2."""

from __future__ import annotations

from cotenant.readers.blocks import Groups, Structure, norm, vocabulary
from cotenant.readers.config_view import ConfigView
from cotenant.readers.decoder import MOST_WIDTH, Builder, Sizes, structure
from cotenant.readers.recurrent import Mamba2Shape, mamba1, mamba1_state, mamba2, mamba2_state, recurrent_group


def _sizes(config: ConfigView, *, tied: bool, inner: int) -> Sizes:
    layers = config.integer("num_hidden_layers", "n_layer", most=10_000)
    hidden = config.integer("hidden_size", "d_model", most=MOST_WIDTH)
    vocab = config.integer("vocab_size", most=2**24)
    flag = config.flag("tie_word_embeddings", default=tied)
    return Sizes(tuple(range(layers)), hidden, 1, 1, 1, inner, vocab, flag)


def _shell(sizes: Sizes) -> Groups:
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied)
    return groups + norm("norm", sizes.hidden, layers=sizes.layers) + norm("norm_f", sizes.hidden)


def _mamba(config: ConfigView) -> Structure:
    hidden = config.integer("hidden_size", "d_model", most=MOST_WIDTH)
    inner = config.integer("intermediate_size", "d_inner", default=hidden * config.integer("expand", default=2))
    sizes = _sizes(config, tied=True, inner=inner)
    state, kernel = config.integer("state_size", default=16), config.integer("conv_kernel", default=4)
    rank = (
        -(-hidden // 16)
        if config.raw("time_step_rank") == "auto"
        else config.integer("time_step_rank", default=-(-hidden // 16))
    )
    groups = mamba1(
        sizes.layers, hidden, inner, state=state, rank=rank, kernel=kernel,
        conv_bias=config.flag("use_conv_bias", default=True), bias=config.flag("use_bias"),
    )  # fmt: skip
    caches = recurrent_group(sizes.layers, mamba1_state(inner, state, kernel))
    return structure(sizes, _shell(sizes) + groups, caches)


def _mamba2(config: ConfigView) -> Structure:
    heads, head_dim = config.integer("num_heads", default=128), config.integer("head_dim", default=64)
    sizes = _sizes(config, tied=False, inner=heads * head_dim)
    shape = Mamba2Shape(
        heads, head_dim, config.integer("n_groups", default=8), config.integer("state_size", default=128),
        config.integer("conv_kernel", default=4), config.integer("mamba_chunk_size", "chunk_size", default=256),
    )  # fmt: skip
    groups = mamba2(
        sizes.layers, sizes.hidden, shape, conv_bias=config.flag("use_conv_bias", default=True),
        bias=config.flag("use_bias"),
    )  # fmt: skip
    return structure(sizes, _shell(sizes) + groups, recurrent_group(sizes.layers, mamba2_state(shape)))


BUILDERS: dict[str, Builder] = {
    "MambaForCausalLM": _mamba,
    "mamba": _mamba,
    "FalconMambaForCausalLM": _mamba,
    "falcon_mamba": _mamba,
    "Mamba2ForCausalLM": _mamba2,
    "mamba2": _mamba2,
}
