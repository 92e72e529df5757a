"""Each device's compute buffer: the worst-case graph of its part, through ggml's allocator.

Layers that repeat leave the arena as they found it, so only the first ones of each shape and the last are laid
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from cotenant.engines.llama_cpp.ggml import buffer_bytes
from cotenant.engines.llama_cpp.graph import GraphBuilder
from cotenant.engines.llama_cpp.reorder import vulkan_order
from cotenant.engines.llama_cpp.shape import GraphShape, LayerShape
from cotenant.engines.llama_cpp.worst_case import Part, Reserve

_REPEATS = 2  # layers of one shape that are laid out before the last


@lru_cache(maxsize=512)
def compute_bytes(
    shape: GraphShape, reserve: Reserve, part: Part, *, alignment: int = 128, copies: int = 1
) -> int:
    """Bytes of one device's compute buffer."""
    graph = GraphBuilder(shape, reserve).build(replace(part, layers=shortened(part.layers)))
    if part.inputs_apart:
        for tensor in {id(source): source for node in graph.nodes for source in node.sources}.values():
            tensor.size = 0 if tensor.is_input else tensor.size
    if part.reordered:
        graph.order = vulkan_order(graph.nodes)
    return buffer_bytes(graph, alignment=alignment, copies=copies)


def host_bytes(
    shape: GraphShape,
    reserve: Reserve,
    *,
    copies: int = 1,
    output_on_host: bool = False,
    inputs_apart: bool = False,
) -> int:
    """Bytes of the host's compute buffer when every layer runs elsewhere: the program's inputs (unless they lie
    apart), the rows of the embedding, and where the head stayed on the host its logits."""
    builder = GraphBuilder(shape, reserve)
    graph = builder.graph
    for tensor in () if inputs_apart else builder.program_inputs():
        graph.hold(tensor)
    rows = graph.expand(builder.embedding_rows())
    ends = [rows]
    if shape.per_layer_width:
        ends.append(graph.expand(graph.new((shape.per_layer_width, reserve.tokens))))
    if output_on_host:
        normed = graph.expand(graph.new((shape.hidden, reserve.outputs), rows))
        ends.append(graph.expand(graph.new((shape.vocab, reserve.outputs), normed)))
    graph.expand(graph.new((0,), *ends))
    return buffer_bytes(graph, alignment=32, copies=copies)


def shortened(layers: Sequence[LayerShape]) -> tuple[LayerShape, ...]:
    """The first layers of every shape in their order, and the last one."""
    counts: dict[LayerShape, int] = {}
    kept = []
    for number, layer in enumerate(layers):
        counts[layer] = counts.get(layer, 0) + 1
        if counts[layer] <= _REPEATS or number == len(layers) - 1:
            kept.append(layer)
    return tuple(kept)
