"""Cards that carry nothing yet, found quickly among thousands that a shop offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Node = tuple[int, int]
"""(number of the node, room of its cards): cards of one node may differ in what others hold."""


@dataclass(slots=True)
class Untouched:
    """The empty cards of one offer by node: of nodes that are empty as a whole, and of the others."""

    _whole: dict[int, dict[Node, list[int]]] = field(default_factory=dict)  # by room
    _rest: dict[Node, list[int]] = field(default_factory=dict)

    def add(self, node: Node, card: int) -> None:
        """One more card, before any is opened."""
        self._whole.setdefault(node[1], {}).setdefault(node, []).append(card)

    def fill(self, node: Node, card: int) -> None:
        """That card carries something now."""
        cards = self._rest.pop(node, None)
        if cards is None:
            cards = self._whole[node[1]].pop(node)
        cards.remove(card)
        if cards:
            self._rest[node] = cards

    def all(self) -> Iterator[int]:
        """Every one of them."""
        for nodes in self._whole.values():
            for cards in nodes.values():
                yield from cards
        for cards in self._rest.values():
            yield from cards

    def alike(self, claim_bytes: int, size: int, replicas: int) -> Iterator[int]:
        """With room for `claim_bytes`: those of the first nodes that hold `replicas` groups of `size` cards; of
        nodes where a group may join cards that are open, some of each."""
        for room, nodes in self._whole.items():
            if room >= claim_bytes:
                yield from _first(nodes.values(), size, replicas)
        wide = [cards for (_, room), cards in self._rest.items() if room >= claim_bytes]
        if size == 1:
            yield from _first(wide, size, replicas)
        else:
            for cards in wide:
                yield from cards[: size * replicas]


def _first(nodes: Iterable[list[int]], size: int, replicas: int) -> Iterator[int]:
    left = replicas
    for cards in nodes:
        if left <= 0:
            return
        taken = cards[: size * replicas]
        left -= len(taken) // size
        yield from taken
