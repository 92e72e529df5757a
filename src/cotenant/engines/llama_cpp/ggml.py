"""ggml's graph allocator, replayed: how large one device's compute buffer must be for a graph.

llama.cpp builds its worst-case graph once at start and reserves what ggml-alloc needs for it, so the buffer
follows from the order of the operations, which of them work in place, and best-fit placement in one arena
(ggml/src/ggml-alloc.c; the scheduler's copies of inputs: ggml/src/ggml-backend.cpp). Nothing is computed here:
a tensor is its shape, its sources and its flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

_ENDLESS = 1 << 62


@dataclass(eq=False, slots=True)
class Tensor:
    """One tensor of the graph. `shape` is in elements; `layout` is what two tensors must share to trade places;
    a view has no memory of its own but that of `base`. `op` is "norm", "mul", "add", "mm" (a matrix), "mmid" (one
    of many), "rope", "set" (a store into a cache), "copy" (a matrix copied over) or unsaid."""

    shape: tuple[int, ...]
    size: int  # bytes
    sources: tuple[Tensor, ...] = ()
    base: Tensor | None = None
    in_place: bool = False
    is_input: bool = False
    op: str = ""  # the operation, where its order depends on it
    offset: int = -1  # place in the arena while it is alive
    users: int = 0
    views: int = 0

    @property
    def layout(self) -> tuple[tuple[int, ...], int]:
        """Two tensors of one layout may share memory."""
        return self.shape, self.size


@dataclass(slots=True)
class Graph:
    """Tensors in the order in which they are computed: `expand` appends a result after all it depends on."""

    nodes: list[Tensor] = field(default_factory=list)
    order: list[Tensor] | None = None  # another order in which a backend computes them
    held: list[Tensor] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def input(self, *shape: int, element: int = 4) -> Tensor:
        """Set by the program before each run, or copied from another device."""
        return Tensor(shape, prod(shape) * element, is_input=True)

    def new(self, shape: Sequence[int], *sources: Tensor, element: int = 4, op: str = "") -> Tensor:
        """A result with memory of its own."""
        return Tensor(tuple(shape), prod(shape) * element, sources, op=op)

    def inplace(self, *sources: Tensor, op: str = "") -> Tensor:
        """An element-wise result shaped like its first source, which may take over a source's memory."""
        return Tensor(sources[0].shape, sources[0].size, sources, in_place=True, op=op)

    def view(self, source: Tensor, *shape: int, beside: Sequence[Tensor] = ()) -> Tensor:
        """Part of `source`, or all of it in another shape; a write into it reads others `beside`."""
        base = source.base or source
        return Tensor(shape or source.shape, 4 * prod(shape or source.shape), (*beside, source), base=base)

    def store(self, *sources: Tensor) -> Tensor:
        """Write into a cache: the result is a view of memory outside the graph."""
        return self.expand(Tensor((0,), 0, sources, base=Tensor((0,), 0), op="set"))

    def again(self, stored: Tensor) -> Tensor:
        """The cache behind a store, read through two views."""
        part = Tensor((0,), 0, (), base=stored.base)
        return Tensor((0,), 0, (part,), base=stored.base)

    def hold(self, tensor: Tensor) -> None:
        """Keep a place for a tensor that nothing reads."""
        self.held.append(tensor)

    def expand(self, result: Tensor) -> Tensor:
        """Append `result` and whatever it needs, depth first, sources in order (ggml_build_forward_expand)."""
        if result.is_input or id(result) in self._seen:
            return result
        self._seen.add(id(result))
        for source in result.sources:
            self.expand(source)
        self.nodes.append(result)
        return result


class _Arena:
    """Free blocks of one buffer, best fit; the last block is endless."""

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._free: list[list[int]] = [[0, _ENDLESS]]  # [offset, size], by offset
        self.peak = 0

    def take(self, size: int) -> int:
        size = self._aligned(size)
        fitting = [block for block in self._free[:-1] if block[1] >= size]
        # of equal blocks ggml takes the later one
        block = min(reversed(fitting), key=lambda found: found[1]) if fitting else self._free[-1]
        offset = block[0]
        block[0] += size
        block[1] -= size
        if not block[1]:
            self._free.remove(block)
        self.peak = max(self.peak, offset + size)
        return offset

    def give(self, offset: int, size: int) -> None:
        size = self._aligned(size)
        if not size:
            return
        for number, block in enumerate(self._free):
            if block[0] + block[1] == offset:
                block[1] += size
                self._join(number)
                return
            if offset + size == block[0]:
                block[0], block[1] = offset, block[1] + size
                return
            if block[0] > offset:
                self._free.insert(number, [offset, size])
                return

    def _join(self, number: int) -> None:
        block = self._free[number]
        if number + 1 < len(self._free) and block[0] + block[1] == self._free[number + 1][0]:
            block[1] += self._free.pop(number + 1)[1]

    def _aligned(self, size: int) -> int:
        return -(-size // self._alignment) * self._alignment


def buffer_bytes(graph: Graph, *, alignment: int = 128, copies: int = 1, host: bool = False) -> int:
    """Bytes that the graph's buffer takes. The inputs come first, in the order in which they are used: as they
    are on the device that holds them (`host`), else as copies made when its part of the graph starts. With
    `copies` above 1 (pipeline over several GPUs) every input is held so many times and never freed."""
    for node in graph.nodes:
        node.users = node.views = 0
    inputs = [*graph.held, *_count(graph.nodes)]
    arena = _Arena(alignment)
    alive: set[int] = set()
    for tensor in inputs:
        for _ in range(copies):
            tensor.offset = arena.take(tensor.size)
        alive.add(id(tensor))
    kept = {id(tensor) for tensor in inputs} if copies > 1 else set()
    for node in graph.order or graph.nodes:
        _place(node, arena, alive, kept)
        for source in node.sources:
            source.users -= 1
            _release(source, arena, alive, kept)
    return arena.peak


def _count(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Inputs in order of first use; users and views of every tensor are counted on the way."""
    inputs: dict[int, Tensor] = {}
    for node in nodes:
        for source in node.sources:
            if source.is_input and id(source) not in inputs:
                inputs[id(source)] = source
                source.users = source.views = 0
    for node in nodes:
        if node.base is not None:
            node.base.views += 1
        for source in node.sources:
            source.users += 1
    return list(inputs.values())


def _place(node: Tensor, arena: _Arena, alive: set[int], kept: set[int]) -> None:
    if node.base is not None:
        return
    if node.in_place:
        for source in node.sources:
            if _taken_over(node, source, alive, kept):
                return
    node.offset = arena.take(node.size)
    alive.add(id(node))


def _taken_over(node: Tensor, source: Tensor, alive: set[int], kept: set[int]) -> bool:
    """Whether the node may live where its source does: a tensor of its own (views are never taken over), of the
    same layout, whose last user the node is."""
    if source.base is not None or id(source) in kept or id(source) not in alive:
        return False
    if source.layout != node.layout or source.users != 1 or source.views:
        return False
    node.offset = source.offset
    alive.discard(id(source))
    alive.add(id(node))
    return True


def _release(source: Tensor, arena: _Arena, alive: set[int], kept: set[int]) -> None:
    if source.users or source.views:
        return
    owner = source
    if source.base is not None:
        owner = source.base
        owner.views -= 1
        if owner.views or owner.users:
            return
    if id(owner) in alive and id(owner) not in kept:
        alive.discard(id(owner))
        arena.give(owner.offset, owner.size)
