"""The plain decoder that most families vary: its sizes from the config, and its assembly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cotenant.domain.model import LayerGroup, Role, Split
from cotenant.readers.blocks import (
    Groups,
    Layers,
    Structure,
    attention,
    cache_groups,
    experts,
    gated_mlp,
    linear,
    norm,
    plain_mlp,
    router,
    split_layers,
    vocabulary,
)
from cotenant.readers.config_view import MOST_LAYERS, ConfigView

Builder = Callable[[ConfigView], Structure]
Windows = Sequence[int | None]

MOST_WIDTH = 2**20
MOST_HEADS = 2**14


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that nearly every config states; `inner` is the feed-forward width."""

    layers: Layers
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    tied: bool

    @property
    def count(self) -> int:
        """Layers."""
        return len(self.layers)


def read_sizes(config: ConfigView, *, tied: bool = False, inner: int | None = None) -> Sizes:
    """The sizes under the names that the families use. `tied` and `inner` are the family's defaults."""
    hidden = config.integer("hidden_size", "n_embd", "d_model", "hidden_dim", most=MOST_WIDTH)
    heads = config.integer("num_attention_heads", "n_head", "n_heads", most=MOST_HEADS)
    kv_heads = config.integer("num_key_value_heads", "num_kv_heads", "n_head_kv", default=heads, most=MOST_HEADS)
    layers = config.integer("num_hidden_layers", "n_layer", "n_layers", "num_layers", most=MOST_LAYERS)
    head_dim = config.optional_integer("head_dim", least=1, most=2**16)
    if head_dim is None:
        head_dim = max(1, hidden // heads)
        if hidden % heads and not config.has_faults:
            config.fault("num_attention_heads", f"is {heads}, which does not divide hidden_size {hidden}")
    width = config.integer(
        "intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", default=inner, most=MOST_WIDTH
    )
    vocab = config.integer("vocab_size", most=2**24)
    flag = config.flag("tie_word_embeddings", default=tied)
    if kv_heads > heads or heads % kv_heads:
        config.fault("num_key_value_heads", f"is {kv_heads}, which does not divide {heads} attention heads")
    return Sizes(tuple(range(layers)), hidden, heads, kv_heads, head_dim, width, vocab, flag)


def dense(
    config: ConfigView,
    *,
    sizes: Sizes | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    mlp_bias: bool = False,
    qk_norm: str = "",
    qk_norm_bias: bool = False,
    sinks: bool = False,
    norms: int = 2,
    norm_bias: bool = False,
    norm_weight: bool = True,
    gated: bool = True,
    tied: bool = False,
    head_bias: bool = False,
    windows: Windows | None = None,
    feed_forward: Groups | None = None,
    caches: tuple[LayerGroup, ...] | None = None,
    extra: Groups = (),
    num_experts: int = 0,
    experts_per_token: int = 0,
) -> Structure:
    """A decoder of equal layers: embedding, attention, feed-forward, `norms` norms a layer, a last norm, head.

    `feed_forward` replaces the MLP (experts), `extra` adds tensors. `windows` has one item a layer.
    """
    sizes = read_sizes(config, tied=tied) if sizes is None else sizes
    mlp = gated_mlp if gated else plain_mlp
    groups = vocabulary(sizes.vocab, sizes.hidden, tied=sizes.tied, head_bias=head_bias)
    groups += attention(
        sizes.layers, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, qkv_bias=qkv_bias,
        out_bias=out_bias, qk_norm=qk_norm, norm_bias=qk_norm_bias, sinks=sinks,
    )  # fmt: skip
    if feed_forward is None:
        feed_forward = mlp(sizes.layers, sizes.hidden, sizes.inner, bias=mlp_bias)
    groups += feed_forward
    if norm_weight and norms:
        groups += norm("layernorm", sizes.hidden, layers=sizes.layers, bias=norm_bias, copies=norms)
    if norm_weight:
        groups += norm("norm", sizes.hidden, bias=norm_bias)
    if caches is None:
        every: Windows = [None] * sizes.count if windows is None else windows
        caches = cache_groups(every, sizes.heads, sizes.kv_heads, sizes.head_dim)
    return structure(sizes, groups + extra, caches, num_experts=num_experts, experts_per_token=experts_per_token)


def structure(
    sizes: Sizes,
    parameters: Groups,
    caches: tuple[LayerGroup, ...],
    *,
    num_experts: int = 0,
    experts_per_token: int = 0,
    notes: tuple[str, ...] = (),
) -> Structure:
    """A Structure from its parts."""
    return Structure(
        parameters, caches, sizes.count, sizes.hidden, sizes.inner, sizes.vocab,
        num_experts=num_experts, experts_per_token=experts_per_token, notes=notes,
    )  # fmt: skip


def layer_windows(
    config: ConfigView, count: int, *, pattern: int | None = None, default: int | None = None
) -> Windows:
    """One window a layer from `layer_types`, else every `pattern`-th layer full (`sliding_window_pattern`).

    Without either, all layers share `sliding_window` (null: none).
    """
    window = config.optional_integer("sliding_window", least=1) or default
    longest = config.optional_integer("max_position_embeddings", least=1)
    if window is not None and longest is not None and window >= longest:
        window = None  # it never bites
    kinds = config.texts("layer_types")
    if kinds:
        if len(kinds) != count:
            config.fault("layer_types", f"names {len(kinds)} layers of {count}")
            return [None] * count
        return [window if kind in ("sliding_attention", "chunked_attention") else None for kind in kinds]
    if pattern is None or window is None:
        return [window] * count
    return [None if (number + 1) % pattern == 0 else window for number in range(count)]


def sparse_feed_forward(
    sizes: Sizes,
    sparse: Layers,
    *,
    count: int,
    inner: int,
    shared: int = 0,
    shared_gate: bool = False,
    correction: bool = False,
    router_bias: bool = False,
    bias: bool = False,
    gated: bool = True,
    plain_inner: int | None = None,
    plain: Layers | None = None,
) -> Groups:
    """Routed experts of width `inner` in the `sparse` layers, an MLP in the others (or in `plain`).

    `shared` is the width of all shared experts together; `shared_gate` a gate of one output beside them.
    """
    _, others = split_layers(sizes.layers, sparse)
    others = others if plain is None else plain
    groups: Groups = ()
    mlp = gated_mlp if gated else plain_mlp
    if sparse:
        groups += router(sparse, sizes.hidden, count, bias=router_bias, correction=correction)
        groups += experts(sparse, sizes.hidden, inner, count, gated=gated, bias=bias)
        if shared:
            groups += mlp(sparse, sizes.hidden, shared, name="shared_experts", bias=bias and gated)
        if shared and shared_gate:
            groups += linear(
                "shared_expert_gate", 1, sizes.hidden, role=Role.ROUTER, layers=sparse, split=Split.NONE
            )
    if others:
        groups += mlp(others, sizes.hidden, sizes.inner if plain_inner is None else plain_inner)
    return groups
