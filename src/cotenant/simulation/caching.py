"""A replica with a prefix cache: prompts that begin alike share blocks, and read what is new.

Where a request says what its prompt begins with (`Requests.prefixes`), its full blocks are kept after it has left,
until they are needed. What it wrote is its own: only itself finds that again, after a preemption.
"""

from __future__ import annotations

from collections.abc import Hashable

from cotenant.policy.prefixes import full_blocks, most_hits
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.load import Limits, Prefixes, Requests
from cotenant.simulation.prefix_cache import PrefixCache
from cotenant.simulation.replica import Replica
from cotenant.simulation.sequence import Sequence


class CachingReplica(Replica):
    """`Replica` whose blocks have names; its own pool, not one that others share."""

    caches = True

    def __init__(self, requests: Requests, limits: Limits, costs: StepCosts) -> None:
        """Nothing is cached yet."""
        super().__init__(requests, limits, costs)
        self._cache = PrefixCache(limits.num_blocks)
        self._prefixes = requests.prefixes or Prefixes(((),) * len(requests), 1)
        self._blocks: dict[int, list[int]] = {}  # of each running request, in their order
        self._sealed: dict[int, int] = {}  # how many of them are full and named
        self._found: list[int] = []  # the hits of the request that may join next

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds, whether or not they are remembered."""
        return self._cache.free

    def forget(self) -> None:
        """The cache is empty: it was dropped with the model's memory."""
        super().forget()
        self._cache.clear()

    def _hits(self, request: int, known: int) -> tuple[int, int]:
        most = most_hits(known, self.limits.block_size)
        found = self._cache.hits(self._name(request, place) for place in range(most))
        self._found = found
        return len(found), self._cache.idle_among(found)

    def _join(self, one: Sequence, hits: int, blocks: int) -> None:
        self._cache.hold(self._found)
        self._blocks[one.request], self._sealed[one.request] = self._found[:hits], hits
        self._held = self.limits.num_blocks - self._cache.free
        self._give(one, blocks - hits)
        self._seal(one)

    def _give(self, one: Sequence, blocks: int) -> None:
        self._blocks[one.request] += self._cache.take(blocks)
        one.blocks = len(self._blocks[one.request])
        self._held = self.limits.num_blocks - self._cache.free

    def _return(self, one: Sequence, blocks: int) -> None:
        """Blocks of its own, though some of its prompt's may be cached still: those of the copy are filled."""
        self._found = []
        self._join(one, 0, blocks)

    def _release(self, one: Sequence) -> None:
        self._cache.give_back(self._blocks.pop(one.request))
        del self._sealed[one.request]
        self._held = self.limits.num_blocks - self._cache.free

    def _frees(self, one: Sequence) -> int:
        return self._cache.held_once(self._blocks[one.request])

    def _seal(self, one: Sequence) -> None:
        """Name the blocks that the step in progress fills: who joins after it in the same step may share them."""
        full, sealed = full_blocks(one.computed + one.chunk, self.limits.block_size), self._sealed[one.request]
        if full <= sealed:
            return
        blocks = self._blocks[one.request]
        for place in range(sealed, full):
            self._cache.name(blocks[place], self._name(one.request, place))
        self._sealed[one.request] = full

    def _name(self, request: int, place: int) -> Hashable:
        """Of a request's block: by its last token's name in the trace, or its own beyond the prompt."""
        last = (place + 1) * self.limits.block_size - 1
        names, per = self._prefixes.names[request], self._prefixes.tokens
        shared = last < self._inputs[request] and last // per < len(names)
        return (place, names[last // per]) if shared else (place, request, "own")
