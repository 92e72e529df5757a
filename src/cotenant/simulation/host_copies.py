"""Where a preempted sequence's cache goes to host memory instead of being dropped, and comes back from there.

As vLLM's V0 engine had it under ``--preemption-mode swap`` (vllm/core/scheduler.py, `_preempt_by_swap`,
`_schedule_swapped`): its blocks are copied before the step of that moment, one after the other over the link, and
so lengthen that step; who comes back goes on where it was, without computing anything again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.simulation.sequence import Sequence


@dataclass(slots=True, eq=False)
class HostCopies:
    """Room for `blocks` blocks in host memory, femtoseconds to move one either way, and who is there."""

    blocks: int
    block_fs: int
    away: dict[int, tuple[Sequence, int]] = field(default_factory=dict)  # by request, with its blocks
    kept: int = 0  # sequences that went there
    full: int = 0  # sequences for which there was no room: they compute again
    _moved: int = 0

    def has_room(self, blocks: int) -> bool:
        """Whether so many blocks more find a place."""
        return blocks <= self.blocks and blocks <= self.blocks - sum(held for _, held in self.away.values())

    def keep(self, one: Sequence, blocks: int) -> None:
        """A sequence's blocks go there, if there is room; its own count of them is none from now on."""
        one.blocks = one.chunk = 0
        if blocks < 1 or not self.has_room(blocks):
            self.full += 1
            return
        self.away[one.request] = one, blocks
        self.kept += 1
        self._moved += blocks

    def bring_back(self, request: int) -> Sequence:
        """One that is there comes back."""
        one, blocks = self.away.pop(request)
        self._moved += blocks
        return one

    def drop(self, request: int) -> None:
        """A request has left; its copy, if there is one, is worth nothing."""
        self.away.pop(request, None)

    def take_time(self) -> int:
        """Femtoseconds of all that moved since it was asked last."""
        moved, self._moved = self._moved, 0
        return moved * self.block_fs
