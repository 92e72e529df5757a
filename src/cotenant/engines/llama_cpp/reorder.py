"""The order in which Vulkan computes a graph: what does not wait for a result yet to come moves forward.

Since pull 15850 (September 2025) the backend sorts each part of the graph before its tensors are placed, so more
of them are alive at once (ggml/src/ggml-vulkan/ggml-vulkan.cpp, ggml_vk_graph_optimize). Round by round it takes
the next operation and, of the twenty behind it, those that need none of the operations left behind; what one
kernel computes stays together; views follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.engines.llama_cpp.ggml import Tensor

_WINDOW, _NEAR = 20, 15
# Pairs that one kernel computes: the second may follow the first in the same round.
_FUSED = {("norm", "mul"), ("mm", "add"), ("mmid", "add"), ("mmid", "mul")}


def vulkan_order(nodes: Sequence[Tensor]) -> list[Tensor]:
    """The nodes as Vulkan computes them. A layer whose weights are copied over falls into parts of a few nodes,
    each sorted by itself: it stays as it is."""
    copied = [number for number, node in enumerate(nodes) if node.op == "copy"]
    if not copied:
        return _sorted(nodes)
    last = next((number for number in range(copied[-1] + 1, len(nodes)) if nodes[number].op == "norm"), len(nodes))
    return [*nodes[:last], *_sorted(nodes[last:])]


def _sorted(nodes: Sequence[Tensor]) -> list[Tensor]:
    order = _Order(nodes)
    while order.first < len(nodes):
        order.round()
    return [nodes[number] for number in order.found]


class _Order:
    def __init__(self, nodes: Sequence[Tensor]) -> None:
        self.nodes = nodes
        self.used = [False] * len(nodes)
        self.first = 0
        self.found: list[int] = []

    def round(self) -> None:
        """One round: the next unused node, operations that may join it, then views."""
        current = [self.first]
        end = min(self.first + _WINDOW, len(self.nodes))
        for number in range(self.first + 1, end):
            if not self.used[number] and not _is_view(self.nodes[number]) and self._may_join(number, current):
                current.append(number)
                self._pull(number, current)
        if self.nodes[current[-1]].op != "add":
            for number in range(self.first + 1, end):
                if not self.used[number] and _is_view(self.nodes[number]) and self._is_ready(number, current):
                    current.append(number)
        for number in current:
            self.used[number] = True
        self.found += current
        while self.first < len(self.nodes) and self.used[self.first]:
            self.first += 1

    def _may_join(self, number: int, current: list[int]) -> bool:
        node = self.nodes[number]
        for before in range(self.first, number):
            if self.used[before] or not _depends(node, self.nodes[before]):
                continue
            follows = number == before + 1 and before == current[-1]
            if not (follows and (self.nodes[before].op, node.op) in _FUSED):
                return False
        return True

    def _is_ready(self, number: int, current: list[int]) -> bool:
        node = self.nodes[number]
        return not any(
            not self.used[before] and before not in current and _depends(node, self.nodes[before])
            for before in range(self.first, number)
        )

    def _pull(self, number: int, current: list[int]) -> None:
        """What one kernel computes with this operation: a rotation behind a norm, its store, a second sum."""
        node, last = self.nodes[number], number
        behind = self.nodes[number - 1].op
        if (behind, node.op) == ("norm", "mul"):
            turned = self._next(number, "rope", node)
            if turned is not None:
                current.append(turned)
                self.used[turned] = True
                last = turned
        if self.nodes[last].op == "rope":
            self._pull_store(last, current)
        if (behind, node.op) == ("mm", "add"):
            added = self._next(number, "add", node)
            others = self.nodes[added].sources[1:] if added is not None else ()
            if added is not None and all(self._is_done(source) for source in others):
                current.append(added)
                self.used[added] = True

    def _pull_store(self, number: int, current: list[int]) -> None:
        view = self._next(number, "view", self.nodes[number])
        store = self._next(number, "set", self.nodes[view if view is not None else number])
        if store is not None:
            for one in (view, store):
                if one is not None:
                    current.append(one)
                    self.used[one] = True

    def _next(self, number: int, op: str, source: Tensor) -> int | None:
        for near in range(number + 1, min(number + _NEAR, len(self.nodes))):
            node = self.nodes[near]
            named = _is_view(node) if op == "view" else node.op == op
            if named and not self.used[near] and node.sources and node.sources[0] is source:
                return near
        return None

    def _is_done(self, source: Tensor) -> bool:
        return source.is_input or any(self.nodes[number] is source for number in self.found)


def _is_view(node: Tensor) -> bool:
    return node.base is not None and node.op != "set"


def _depends(node: Tensor, before: Tensor) -> bool:
    return any(source is before for source in node.sources) or (node.base or node) is (before.base or before)
