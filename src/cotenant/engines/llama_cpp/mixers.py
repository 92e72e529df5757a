"""Mixers that keep no plain keys and values: MLA's compressed rows, and recurrent states of three kinds."""

from __future__ import annotations

from typing import Protocol

from cotenant.engines.llama_cpp.ggml import Graph, Tensor
from cotenant.engines.llama_cpp.shape import GraphShape, Mixer, Recurrence
from cotenant.engines.llama_cpp.worst_case import Reserve

_ROTARY = 64
_CHOSEN = 2048  # cells that an indexer leaves (index_topk of all models that have one)


class Builder(Protocol):
    """What a mixer needs of the graph that it is part of."""

    graph: Graph
    shape: GraphShape
    reserve: Reserve
    positions: Tensor
    state_ids: Tensor
    key_rows: dict[bool, Tensor]
    indexed: bool
    index_mask: Tensor
    index_rows: Tensor
    index_turn: Tensor
    chosen: Tensor | None

    def norm(self, stream: Tensor) -> Tensor:
        """rms_norm, then its weight."""

    def mask(self, window: bool) -> Tensor:
        """The mask of full or of sliding layers."""


def latent(builder: Builder, cur: Tensor, mixer: Mixer) -> Tensor:
    """MLA with absorbed projections: queries meet the compressed cache, values are decompressed after
    (src/models/deepseek2.cpp). The rotary part stood first until values became a view of the keys."""
    g, r, hidden = builder.graph, builder.reserve, builder.shape.hidden
    heads, wide, up = mixer.heads, mixer.key_width, mixer.up_width or 128
    low = wide - _ROTARY
    query = cur
    if mixer.low_rank:
        query = builder.norm(g.new((mixer.low_rank, r.tokens), cur))
    if mixer.index_width:
        builder.chosen = _choice(builder, cur, query, mixer)
    query = g.new((mixer.queries or heads * (up + _ROTARY), r.tokens), query)
    compressed = g.new((wide, r.tokens), cur)
    turned = g.new((_ROTARY, heads, r.tokens), g.view(query, _ROTARY, heads, r.tokens), builder.positions)
    key_turned = g.new((_ROTARY, r.tokens), g.view(compressed, _ROTARY, r.tokens), builder.positions)
    normed = g.inplace(g.new((low, r.tokens), g.view(compressed, low, r.tokens)))
    absorbed = g.view(g.new((low, r.tokens, heads), g.view(query, up, r.tokens, heads)), low, heads, r.tokens)
    parts = [(turned, absorbed), (key_turned, normed)]
    queries, keys = parts if r.rotary_first else [(second, first) for first, second in parts]
    joined, key = g.new((wide, heads, r.tokens), *queries), g.new((wide, 1, r.tokens), *keys)
    for result in (joined, normed, key):
        g.expand(result)
    g.store(key, builder.key_rows[False])
    mask = builder.mask(False)
    if builder.indexed:
        mask = _chosen_mask(builder, mask)
    if r.flash:
        mixed = g.new((low, heads, r.tokens), joined, mask)
        back = g.new((up, r.tokens, heads), g.view(mixed, low, r.tokens, heads))
    else:
        scores = g.inplace(g.new((r.cells, r.tokens, heads), g.view(joined)), mask)
        back = g.new((up, r.tokens, heads), g.new((low, r.tokens, heads), scores))
    flat = g.expand(g.new((up * heads, r.tokens), g.view(back)))
    return g.new((hidden, r.tokens), flat)


def _choice(builder: Builder, cur: Tensor, query: Tensor, mixer: Mixer) -> Tensor:
    """The cells that the lightning indexer chooses: a score of every cell for every token, by one operation
    (src/models/deepseek32.cpp, glm-dsa.cpp)."""
    g, r, width = builder.graph, builder.reserve, mixer.index_width
    heads = mixer.index_heads or 1
    asked = g.inplace(g.new((width * heads, r.tokens), query), builder.positions, op="rope")
    key = g.inplace(builder.norm(g.new((width, r.tokens), cur)), op="add")
    key = g.inplace(key, builder.positions, op="rope")
    asked = g.new((width * heads, r.tokens), builder.index_turn, g.view(asked))
    stored = g.store(g.view(g.new((width, r.tokens), builder.index_turn, g.view(key))), builder.index_rows)
    weights = g.inplace(g.view(g.new((heads, r.tokens), cur)))
    score = g.new((r.cells, r.tokens), g.view(asked), g.again(stored), weights, builder.index_mask)
    rows = (min(_CHOSEN, r.cells), r.tokens)
    return g.new(rows, g.new(rows, score))


def _chosen_mask(builder: Builder, mask: Tensor) -> Tensor:
    """A mask of its own that leaves the chosen cells, the given one added; layers without an indexer take what an
    earlier one chose."""
    g, r = builder.graph, builder.reserve
    rows = (min(_CHOSEN, r.cells), r.tokens)
    if builder.chosen is None:
        builder.chosen = g.input(*rows)
    zeros = g.new(rows)
    whole = g.new(
        mask.shape, g.view(builder.chosen), mask, element=max(1, mask.size // max(1, r.cells * r.tokens))
    )
    left = Tensor(whole.shape, whole.size, (zeros, builder.chosen, whole), base=whole)
    return g.inplace(left, mask)


def recurrent(builder: Builder, cur: Tensor, mixer: Mixer) -> Tensor:
    """A mixer with a state."""
    if mixer.recurrence is Recurrence.SCAN:
        return _scan(builder, cur, mixer)
    if mixer.recurrence is Recurrence.CONVOLUTION:
        return _convolution(builder, cur, mixer)
    return _delta_net(builder, cur, mixer)


def _history(builder: Builder, mixer: Mixer) -> Tensor:
    """The last inputs of the convolution of every sequence."""
    g, r = builder.graph, builder.reserve
    return g.expand(g.new(((mixer.kernel - 1) * mixer.channels, r.sequences), builder.state_ids))


def _convolved(builder: Builder, states: Tensor, mixed: Tensor, mixer: Mixer) -> Tensor:
    """Inputs behind the last ones, and the last of them stored for the next batch."""
    g, r = builder.graph, builder.reserve
    history = (mixer.kernel - 1) * r.sequences
    joined = g.new((r.tokens + history, mixer.channels), g.view(states), mixed)
    g.store(g.view(joined, mixer.kernel - 1, mixer.channels))
    return joined


def _convolution(builder: Builder, cur: Tensor, mixer: Mixer) -> Tensor:
    """A short gated convolution (src/models/lfm2.cpp)."""
    g, r, hidden = builder.graph, builder.reserve, builder.shape.hidden
    wide = (hidden, r.tokens)
    states = _history(builder, mixer)
    inputs = g.new((3 * hidden, r.tokens), cur)
    gated = g.new(wide, g.view(inputs, *wide), g.view(inputs, *wide))
    joined = _convolved(builder, states, g.view(gated), mixer)
    output = g.inplace(g.new(wide, joined), g.view(inputs, *wide))
    return g.new(wide, output)


def _scan(builder: Builder, cur: Tensor, mixer: Mixer) -> Tensor:
    """A selective scan (src/models/mamba-base.cpp, build_mamba2_layer)."""
    g, r = builder.graph, builder.reserve
    inner, wide = mixer.inner, (mixer.inner, r.tokens)
    states = _history(builder, mixer)
    inputs = g.new((mixer.queries, r.tokens), cur)
    joined = _convolved(builder, states, g.view(inputs, mixer.channels, r.tokens), mixer)
    convolved = g.inplace(g.inplace(g.new((mixer.channels, r.tokens), joined)))
    part = g.view(convolved, *wide)
    steps = g.inplace(g.new((max(1, inner // 64), r.tokens), g.view(inputs, max(1, inner // 64), r.tokens)))
    result = g.expand(
        g.new((inner * r.tokens + mixer.state * r.sequences,), part, steps, g.view(convolved), g.view(convolved))
    )
    g.store(g.view(result, mixer.state, r.sequences))
    summed = g.inplace(g.new(wide, g.view(convolved, *wide)), g.view(result, *wide))
    gated = g.new(wide, g.new(wide, g.view(inputs, *wide)), summed)
    normed = g.inplace(g.new(wide, g.view(gated)))
    return g.new((builder.shape.hidden, r.tokens), g.view(normed))


def _delta_net(builder: Builder, cur: Tensor, mixer: Mixer) -> Tensor:
    """A gated delta net (src/models/qwen35.cpp, delta-net-base.cpp)."""
    g, r = builder.graph, builder.reserve
    channels, inner = mixer.channels, mixer.inner
    keys = (channels - inner) // 2
    mixed = g.new((channels, r.tokens), cur)
    z = g.new((inner, r.tokens), cur)
    heads = max(1, inner // 128)
    beta = g.inplace(g.view(g.new((heads, r.tokens), cur)))
    alpha = g.inplace(g.inplace(g.inplace(g.view(g.new((heads, r.tokens), cur)))))
    history = (mixer.kernel - 1) * r.sequences
    states = g.expand(g.new(((mixer.kernel - 1) * channels, r.sequences), builder.state_ids))
    joined = g.new((r.tokens + history, channels), g.view(states), g.view(mixed))
    g.store(g.view(joined, mixer.kernel - 1, channels))
    state = g.expand(g.new((mixer.state, r.sequences), builder.state_ids))
    convolved = g.inplace(g.new((channels, r.tokens), joined))
    query = _unit(g, g.view(convolved, keys, r.tokens))
    key = _unit(g, g.view(convolved, keys, r.tokens))
    value = g.view(convolved, inner, r.tokens)
    if not r.fused_recurrence:
        return _chunked(builder, query, key, value, alpha, beta, state, z, mixer)
    result = g.new((inner * r.tokens + mixer.state * r.sequences,), query, key, value, alpha, beta, g.view(state))
    g.store(g.view(result, mixer.state, r.sequences))
    output = g.view(result, inner, r.tokens)
    normed = g.inplace(g.new((inner, r.tokens), output))
    gated = g.inplace(normed, g.inplace(g.view(z)))
    return g.new((builder.shape.hidden, r.tokens), g.view(gated, inner, r.tokens))


def _chunked(
    builder: Builder, query: Tensor, key: Tensor, value: Tensor, alpha: Tensor, beta: Tensor,
    state: Tensor, z: Tensor, mixer: Mixer,
) -> Tensor:  # fmt: skip
    """Without the fused operation: chunks of 64 tokens, each intermediate of its own."""
    g, r = builder.graph, builder.reserve
    wide = (mixer.inner, r.tokens)
    repeated = [g.new(wide, part) for part in (query, key)]
    flat = [g.new(wide, part) for part in (*repeated, value)]
    scaled = g.new(wide, flat[1], beta)
    weighted = g.new(wide, flat[2], beta)
    decays = g.new((64, mixer.inner // 128, r.tokens), alpha)
    solved = g.new(wide, weighted, scaled, decays, flat[0], g.view(state))
    gated = g.inplace(g.inplace(g.new(wide, solved)), g.inplace(g.view(z)))
    return g.new((builder.shape.hidden, r.tokens), g.view(gated))


def _unit(g: Graph, part: Tensor) -> Tensor:
    return g.new(part.shape, part)
