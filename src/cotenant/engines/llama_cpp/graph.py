"""The worst-case graph that llama.cpp reserves for, as a list of tensors.

Built as src/llama-graph.cpp and src/models/*.cpp build it: one micro-batch of n_ubatch tokens over a full cache,
in the order in which the results are computed.
"""

from __future__ import annotations

from cotenant.domain.model import AttentionKind
from cotenant.engines.llama_cpp.ggml import Graph, Tensor
from cotenant.engines.llama_cpp.mixers import latent, recurrent
from cotenant.engines.llama_cpp.shape import FeedForward, GraphShape, LayerShape, Mixer
from cotenant.engines.llama_cpp.worst_case import Part, Reserve

_HALF, _INDEX = 2, 8  # bytes of f16 and of i64
_POSITIONS = 4  # rotary positions in sections, one for each


class GraphBuilder:
    """One graph; the inputs are made once and shared by the layers."""

    def __init__(self, shape: GraphShape, reserve: Reserve) -> None:
        self.graph = Graph()
        self.shape, self.reserve = shape, reserve
        g, r = self.graph, reserve
        self.tokens = g.input(r.tokens)
        self.positions = g.input(r.tokens * (_POSITIONS if self._sectioned() else 1))
        self.out_ids = g.input(r.outputs)
        self.masks = {
            window: g.input(cells, r.tokens, element=r.mask_bytes)
            for window, cells in ((False, r.tokens if shape.encoder else r.cells), (True, r.window_cells))
        }
        self.key_rows = {window: g.input(r.tokens, element=_INDEX) for window in (False, True)}
        widest = max((layer.mixer.kv_heads * layer.mixer.value_width for layer in shape.layers), default=0)
        spread = 1 if r.flash else widest
        self.value_rows = {window: g.input(r.tokens * spread, element=_INDEX) for window in (False, True)}
        self.state_ids = g.input(r.sequences)
        self.indexed = any(layer.mixer.index_width for layer in shape.layers)
        self.index_mask = g.input(r.cells, r.tokens, element=_HALF)
        self.index_rows = g.input(r.tokens, element=_INDEX)
        self.index_turn = g.input(*(max((layer.mixer.index_width for layer in shape.layers), default=0),) * 2)
        self.chosen: Tensor | None = None  # what the last indexer chose
        self._casts: dict[bool, Tensor] = {}
        self._per_layer: Tensor | None = None
        self._copied = self._copied_experts = 0.0
        self._copied_cache = (0, 0)

    def _sectioned(self) -> bool:
        """Rotary positions in four sections (Qwen's multimodal families)."""
        return any(layer.mixer.kind is AttentionKind.RECURRENT for layer in self.shape.layers)

    def _kinds(self) -> set[AttentionKind]:
        return {layer.mixer.kind for layer in self.shape.layers}

    def program_inputs(self) -> list[Tensor]:
        """Everything that the program fills in before a run."""
        found = [self.tokens, self.positions, self.out_ids]
        found += [self.graph.input(self.shape.hidden, self.reserve.tokens) for _ in range(self.reserve.vectors)]
        for window in (False, True):
            layers = [layer for layer in self.shape.layers if _is_windowed(layer.mixer) == window]
            if any(layer.mixer.heads for layer in layers):
                found.append(self.masks[window])
                if self.reserve.row_stores:
                    found += [self.key_rows[window], self.value_rows[window]]
        if AttentionKind.RECURRENT in self._kinds():
            found.append(self.state_ids)
        if self.indexed:
            found += [self.index_mask, self.index_rows, self.index_turn]
        return found

    def embedding_rows(self) -> Tensor:
        """Rows of the embedding, picked where it lies."""
        return self.graph.new((self.shape.hidden, self.reserve.tokens), self.tokens)

    def build(self, part: Part) -> Graph:
        """The graph of one device."""
        g, r, shape = self.graph, self.reserve, self.shape
        if not part.first and r.flash:  # the first device casts the masks and hands them on
            self._casts = {window: g.input(*mask.shape, element=_HALF) for window, mask in self.masks.items()}
        stream = self._picked() if part.first and part.host else g.input(shape.hidden, r.tokens)
        if part.first and shape.scaled:
            stream = g.inplace(stream)
        if shape.per_layer_width:
            self._per_layer = self._per_layer_inputs(stream)
        for number, layer in enumerate(part.layers):
            last = part.last and number == len(part.layers) - 1
            stream = self._layer(stream, layer, ends=last and not r.late_outputs)
        if part.last:
            stream = self._head(stream, part)
        g.expand(stream)
        return g

    def _picked(self) -> Tensor:
        """The first stream on the host: rows of the embedding, beside vectors held in their stead, and since ids
        and vectors mix in a batch, rows that are stored into a copy of the vectors."""
        g, r = self.graph, self.reserve
        wide = (self.shape.hidden, r.tokens)
        stream = g.expand(self.embedding_rows())
        if r.vectors:
            g.hold(g.input(*wide))
        if r.vectors > 1:
            rows = g.new(wide, g.input(r.tokens))
            copy = g.new(wide, g.input(*wide))
            g.expand(g.view(copy, *wide, beside=(rows, g.input(r.tokens, element=_INDEX))))
        return stream

    def _per_layer_inputs(self, stream: Tensor) -> Tensor:
        """Projection of the stream to every layer's own embedding, added to the rows picked on the host."""
        g, width = self.graph, self.shape.per_layer_width
        projected = g.inplace(g.new((width, self.reserve.tokens), stream))
        normed = self.norm(g.view(projected))
        mixed = g.inplace(g.inplace(normed, g.input(width, self.reserve.tokens)))
        return g.new((width, self.reserve.tokens), mixed)

    def _head(self, stream: Tensor, part: Part) -> Tensor:
        g, r = self.graph, self.reserve
        normed = self.norm(stream)
        if r.late_outputs:
            normed = g.new((self.shape.hidden, r.outputs), normed, self.out_ids)
        if not self.shape.vocab or self.shape.encoder:
            return normed
        sources = [normed]
        if part.head_copy_bytes:
            sources.append(Tensor((part.head_copy_bytes,), part.head_copy_bytes, op="copy"))
            g.expand(sources[-1])
        return g.new((self.shape.vocab, r.outputs), *sources)

    def norm(self, stream: Tensor) -> Tensor:
        """rms_norm, then the weight: the second in place."""
        return self.graph.inplace(self.graph.inplace(stream, op="norm"), op="mul")

    def _product(self, rows: int, source: Tensor, width: int) -> Tensor:
        """A matrix of `rows` x `width` times the source, with a copy of the matrix where it lies elsewhere."""
        shape = (rows, *source.shape[1:]) if len(source.shape) == 2 else (rows, self.reserve.tokens)
        return self.graph.new(shape, source, *self._copy(rows * width * self._copied), op="mm")

    def _copy(self, size: float) -> tuple[Tensor, ...]:
        return (Tensor((int(size),), int(size), op="copy"),) if size else ()

    def _layer(self, stream: Tensor, layer: LayerShape, *, ends: bool) -> Tensor:
        g = self.graph
        self._copied, self._copied_experts = layer.copied, layer.copied_experts
        self._copied_cache = (layer.copied_keys, layer.copied_values)
        residual = stream
        normed = self.norm(stream)
        if layer.mixer.kind is AttentionKind.RECURRENT:
            g.expand(normed)
            mixed = recurrent(self, normed, layer.mixer)
        elif layer.mixer.kind is AttentionKind.LATENT:
            mixed = latent(self, normed, layer.mixer)
        elif layer.mixer.heads:
            mixed = self._attention(normed, layer.mixer)
        else:
            mixed = normed
        if ends:
            rows = (self.shape.hidden, self.reserve.outputs)
            mixed, residual = g.new(rows, mixed, self.out_ids), g.new(rows, residual, self.out_ids)
            normed = g.new(rows, normed, self.out_ids) if layer.norms == 1 else normed
        if layer.norms == 1:  # attention and the rest side by side on one norm (src/models/command-r.cpp)
            beside = g.inplace(self._forward(normed, layer.forward), residual, op="add")
            return g.inplace(beside, mixed, op="add")
        if layer.norms == 4:
            mixed = self.norm(mixed)
        joined = g.inplace(mixed, residual, op="add")
        forward = self._pair(joined, layer.forward) if layer.forward.apart else None
        forward = forward or self._forward(self.norm(joined), layer.forward)
        if layer.norms == 4:
            forward = self.norm(forward)
        out = g.inplace(forward, joined, op="add")
        if self._per_layer is not None:
            out = self._with_per_layer(out, self._per_layer, ends=ends)
        return out

    def _with_per_layer(self, out: Tensor, rows: Tensor, *, ends: bool) -> Tensor:
        g = self.graph
        tokens = self.reserve.outputs if ends else self.reserve.tokens
        width = max(1, self.shape.per_layer_width // max(1, len(self.shape.layers)))
        gate = g.inplace(g.new((width, tokens), out))
        row = g.view(rows, width, self.reserve.tokens)
        if ends:
            row = g.new((width, tokens), row, self.out_ids)
        lifted = self.norm(g.new((self.shape.hidden, tokens), g.inplace(gate, row)))
        return g.inplace(out, lifted)

    def _attention(self, cur: Tensor, mixer: Mixer) -> Tensor:
        g, r = self.graph, self.reserve
        if r.joined or mixer.joined:
            return self._joined_attention(cur, mixer)
        full = self._product(mixer.queries, cur, self.shape.hidden)
        full = g.inplace(full, op="add") if mixer.biased else full
        width = mixer.heads * mixer.key_width
        query = g.view(full, mixer.key_width, mixer.heads, r.tokens)
        if mixer.normed:
            query = g.inplace(g.new(query.shape, query, op="norm"), op="mul")
        gate = g.new((width, r.tokens), g.view(full, width, r.tokens)) if mixer.queries > width else None
        query = g.inplace(query, self.positions, op="rope")
        own = mixer.kind is not AttentionKind.NONE or self.shape.encoder
        key, value = self._keys_and_values(cur, mixer) if own else (None, None)
        if key is not None and value is not None and self.shape.encoder:
            mixed = self._attend_at_once(query, key, value, mixer)
        else:
            mixed = self._attend(query, key, value, mixer)
        if gate is not None:
            mixed = g.inplace(mixed, g.inplace(gate))
        out = self._product(self.shape.hidden, mixed, mixer.heads * mixer.value_width)
        return g.inplace(out, op="add") if mixer.biased else out

    def _joined_attention(self, cur: Tensor, mixer: Mixer) -> Tensor:
        """One matrix for queries, keys and values: turned parts are results of their own, values are stored as
        they lie."""
        g, tokens = self.graph, self.reserve.tokens
        wide = (mixer.heads + mixer.kv_heads) * mixer.key_width + mixer.kv_heads * mixer.value_width
        full = self._product(wide, cur, self.shape.hidden)
        full = g.inplace(full) if mixer.biased else full
        query = g.view(full, mixer.key_width, mixer.heads, tokens)
        key = g.view(full, mixer.key_width, mixer.kv_heads, tokens)
        value = g.view(full, mixer.value_width, mixer.kv_heads, tokens)
        if self.reserve.copies_joined and not self.reserve.joined:
            query, key, value = (g.new(part.shape, part) for part in (query, key, value))
            turned = [g.inplace(g.view(part), self.positions) for part in (query, key)]
        else:
            turned = [g.new(part.shape, part, self.positions) for part in (query, key)]
        mixed = self._attend(turned[0], turned[1], value, mixer)
        out = self._product(self.shape.hidden, mixed, mixer.heads * mixer.value_width)
        return g.inplace(out, op="add") if mixer.biased else out

    def _keys_and_values(self, cur: Tensor, mixer: Mixer) -> tuple[Tensor, Tensor]:
        g, tokens = self.graph, self.reserve.tokens
        key = self._product(mixer.kv_heads * mixer.key_width, cur, self.shape.hidden)
        value = self._product(mixer.kv_heads * mixer.value_width, cur, self.shape.hidden)
        if mixer.biased:
            key, value = g.inplace(key, op="add"), g.inplace(value, op="add")
        key = g.view(key, mixer.key_width, mixer.kv_heads, tokens)
        key = self.norm(key) if mixer.normed else key
        return g.inplace(key, self.positions, op="rope"), g.view(value, mixer.value_width, mixer.kv_heads, tokens)

    def _attend(self, query: Tensor, key: Tensor | None, value: Tensor | None, mixer: Mixer) -> Tensor:
        """Store this batch's keys and values (None: the layer reads another one's cache), then attend over it."""
        g, r = self.graph, self.reserve
        window = _is_windowed(mixer)
        stored: tuple[Tensor, ...] = ()
        g.expand(query)
        if key is not None and value is not None:
            for result in (value, key) if r.values_first else (key, value):
                g.expand(result)
            rows = ((self.key_rows[window],), (self.value_rows[window],)) if r.row_stores else ((), ())
            stored = g.store(g.view(key), *rows[0]), g.store(g.view(value), *rows[1])
        turned = g.view(g.view(query))
        copied = [Tensor((size,), size, op="copy") for size in self._copied_cache if size]
        cached = copied if copied else [g.again(one) for one in stored]
        mask = self.mask(window)
        cells = r.window_cells if window else r.cells
        if r.flash:
            mixed = g.new((mixer.value_width, mixer.heads, r.tokens), turned, *cached, mask)
            mixed.size += self._converted(mixer, cells)
            return g.expand(g.view(mixed, mixer.value_width * mixer.heads, r.tokens))
        scores = g.new((cells, r.tokens, mixer.heads), *cached[:1], turned, op="mm")
        scores = g.inplace(scores, mask)
        mixed = g.new((mixer.value_width, r.tokens, mixer.heads), *cached[1:], scores, op="mm")
        return g.expand(g.new((mixer.value_width * mixer.heads, r.tokens), g.view(mixed)))

    def _attend_at_once(self, query: Tensor, key: Tensor, value: Tensor, mixer: Mixer) -> Tensor:
        """Attention among the tokens of the batch, without a cache (build_attn_inp_no_cache)."""
        g, tokens = self.graph, self.reserve.tokens
        wide = mixer.value_width * mixer.heads
        if self.reserve.values_across:
            key = g.new(key.shape, key)
        else:
            for result in (query, key, value):
                g.expand(result)
        if self.reserve.flash:
            halved = (g.new(part.shape, g.view(part), element=_HALF) for part in (key, value))
            mixed = g.new((mixer.value_width, mixer.heads, tokens), g.view(query), *halved, self.mask(False))
            return g.expand(g.view(mixed, wide, tokens))
        across = g.new(value.shape, g.view(value))
        scores = g.inplace(g.new((tokens, tokens, mixer.heads), g.view(key), g.view(query)), self.mask(False))
        if not self.reserve.values_across:
            g.expand(scores)
        mixed = g.new((mixer.value_width, tokens, mixer.heads), across, scores)
        return g.expand(g.new((wide, tokens), g.view(mixed)))

    def _converted(self, mixer: Mixer, cells: int) -> int:
        """Bytes behind the result for the cache in f16."""
        r = self.reserve
        width = mixer.key_width * r.converts_keys + mixer.value_width * r.converts_values
        return cells * r.streams * mixer.kv_heads * width * _HALF

    def mask(self, window: bool) -> Tensor:
        """The mask as attention wants it: fused attention takes f16, cast once where the program fills f32."""
        mask = self.masks[window]
        if not self.reserve.flash or self.reserve.mask_bytes == _HALF:
            return mask
        if window not in self._casts:
            self._casts[window] = self.graph.new(mask.shape, mask, element=_HALF)
        return self._casts[window]

    def _forward(self, cur: Tensor, forward: FeedForward) -> Tensor:
        if forward.experts:
            mixed = self._experts(cur, forward)
            return self.graph.inplace(mixed, self._dense(cur, forward)) if forward.inner else mixed
        return self._dense(cur, forward) if forward.inner else cur

    def _pair(self, stream: Tensor, forward: FeedForward) -> Tensor:
        """Experts and a dense part side by side, each between norms of its own (src/models/gemma4.cpp)."""
        g = self.graph
        probed = g.inplace(self.graph.inplace(g.inplace(stream)))
        mixed = self._experts(self.norm(stream), forward, probed)
        dense = self.norm(self._dense(self.norm(stream), forward))
        return g.inplace(dense, self.norm(mixed))

    def _dense(self, cur: Tensor, forward: FeedForward) -> Tensor:
        g = self.graph
        tokens = cur.shape[-1]
        if forward.joined:
            both = self._product(2 * forward.inner, cur, self.shape.hidden)
            half = (forward.inner, tokens)
            if self.reserve.glu:
                mixed = g.new(half, both)
            else:
                mixed = g.inplace(g.inplace(g.new(half, g.view(both, *half))), g.new(half, g.view(both, *half)))
            return self._product(self.shape.hidden, mixed, forward.inner)
        up = self._product(forward.inner, cur, self.shape.hidden)
        if not forward.gated:
            return self._product(self.shape.hidden, g.inplace(up), forward.inner)
        gate = self._product(forward.inner, cur, self.shape.hidden)
        inner = (forward.inner, tokens)
        product = g.new(inner, gate, up) if self.reserve.glu else g.inplace(g.inplace(gate), up)
        return self._product(self.shape.hidden, product, forward.inner)

    def _experts(self, cur: Tensor, forward: FeedForward, probed: Tensor | None = None) -> Tensor:
        """Routed experts; `probed` is what the router sees, where that is something else."""
        g = self.graph
        tokens, used = cur.shape[-1], forward.used
        probabilities = g.inplace(g.new((forward.experts, tokens), probed or cur))
        order = g.new((forward.experts, tokens), probabilities)
        chosen = g.view(order, used, tokens)
        weights = g.new((used, tokens), g.view(probabilities), chosen)
        weights = g.expand(g.inplace(g.view(weights), g.inplace(g.new((1, tokens), g.view(weights)))))
        inner = (forward.expert_inner, used, tokens)
        matrices = forward.experts * forward.expert_inner * self.shape.hidden * self._copied_experts
        if forward.weighted_first:  # src/models/llama4.cpp: a token's copies are scaled before its experts
            cur = g.inplace(g.new((self.shape.hidden, used, tokens), g.view(cur)), weights)
        if forward.joined_experts and not self.reserve.joined:
            both = g.new((2 * forward.expert_inner, used, tokens), g.view(cur), chosen, *self._copy(2 * matrices))
            gate, up = g.view(both, *inner), g.view(both, *inner)
        elif self.reserve.joined:
            wide = (2 * forward.expert_inner, used, tokens)
            both = g.inplace(g.new(wide, g.view(cur), chosen, *self._copy(2 * matrices)))
            gate, up = g.new(inner, g.view(both)), g.new(inner, g.view(both))
        else:
            up = g.new(inner, g.view(cur), chosen, *self._copy(matrices), op="mmid")
            gate = g.new(inner, g.view(cur), chosen, *self._copy(matrices), op="mmid")
        product = g.new(inner, gate, up) if self.reserve.glu else g.inplace(g.inplace(gate), up)
        lifted = g.new((self.shape.hidden, used, tokens), product, chosen, *self._copy(matrices), op="mmid")
        if not forward.weighted_first:
            lifted = g.inplace(lifted, g.view(weights), op="mul")
        g.expand(lifted)
        parts = [g.expand(g.view(lifted, self.shape.hidden, tokens)) for _ in range(used)]
        total = parts[0] if used > 1 else g.expand(g.new((self.shape.hidden, tokens), parts[0]))
        for part in parts[1:]:
            total = g.expand(g.inplace(total, part))
        return total


def _is_windowed(mixer: Mixer) -> bool:
    return mixer.kind in (AttentionKind.SLIDING, AttentionKind.CHUNKED)
