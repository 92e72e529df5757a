"""The blocks of one replica by name: who holds which, and which free ones still hold what they held.

As vLLM's pool (v1/core/block_pool.py): a block that nobody holds stays findable until it is taken for something
else, the one that was freed longest ago first; of one sequence's blocks the last goes first, since the others are
worth nothing without those before them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import islice


class PrefixCache:
    """`count` blocks, numbered from 0."""

    def __init__(self, count: int) -> None:
        """All of them are free and hold nothing."""
        self._holders = [0] * count
        self._name: list[Hashable | None] = [None] * count
        self._named: dict[Hashable, dict[int, None]] = {}
        self._idle: dict[int, None] = dict.fromkeys(range(count))  # in the order in which they will be taken

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._idle)

    def hits(self, names: Iterable[Hashable]) -> list[int]:
        """The blocks of the first of `names`, up to the first that is not there."""
        found: list[int] = []
        for name in names:
            blocks = self._named.get(name)
            if not blocks:
                break
            found.append(next(iter(blocks)))
        return found

    def idle_among(self, blocks: Sequence[int]) -> int:
        """How many of them nobody holds."""
        return sum(self._holders[block] == 0 for block in blocks)

    def held_once(self, blocks: Sequence[int]) -> int:
        """How many of them have one holder."""
        return sum(self._holders[block] == 1 for block in blocks)

    def hold(self, blocks: Sequence[int]) -> None:
        """One more holder of each."""
        for block in blocks:
            self._holders[block] += 1
            self._idle.pop(block, None)

    def take(self, count: int) -> list[int]:
        """So many free blocks, which lose what they held."""
        found = list(islice(self._idle, count))
        for block in found:
            self._forget(block)
        self.hold(found)
        return found

    def name(self, block: int, name: Hashable) -> None:
        """The block is full, and holds this from now on."""
        self._name[block] = name
        self._named.setdefault(name, {})[block] = None

    def give_back(self, blocks: Sequence[int]) -> None:
        """One holder less of each; who has none is free, the last of `blocks` first."""
        for block in reversed(blocks):
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._idle[block] = None

    def clear(self) -> None:
        """Nothing is remembered; blocks that are held stay held."""
        self._named.clear()
        self._name = [None] * len(self._name)

    def _forget(self, block: int) -> None:
        name = self._name[block]
        if name is None:
            return
        self._name[block] = None
        del self._named[name][block]
        if not self._named[name]:
            del self._named[name]
