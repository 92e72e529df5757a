"""KV cache that replicas on the same cards lend each other, in blocks of their own sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.policy.elastic import free_blocks, spare_bytes


@dataclass(slots=True, eq=False)
class Borrower:
    """One replica: bytes of a block on each of its cards, the blocks that it is promised, those that it holds."""

    cards: tuple[object, ...]
    block_bytes: int
    floor_blocks: int
    held_blocks: int = 0

    @property
    def held_bytes(self) -> int:
        """Of each of its cards."""
        return self.held_blocks * self.block_bytes

    @property
    def floor_bytes(self) -> int:
        """Of each of its cards."""
        return self.floor_blocks * self.block_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Bytes of KV cache by card, and who takes of them. Floors together must not be more than there is."""

    capacity_bytes: Mapping[object, int]
    borrowers: list[Borrower] = field(default_factory=list)

    def free_blocks(self, one: Borrower) -> int:
        """Blocks that `one` may take now: what its scarcest card has left for it."""
        return min(
            free_blocks(one.held_bytes, one.floor_bytes, self._spare(card), one.block_bytes) for card in one.cards
        )

    def _spare(self, card: object) -> int:
        here: Sequence[Borrower] = [one for one in self.borrowers if card in one.cards]
        held, floors = [one.held_bytes for one in here], [one.floor_bytes for one in here]
        return spare_bytes(self.capacity_bytes[card], held, floors, len(here))
