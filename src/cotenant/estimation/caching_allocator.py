"""What PyTorch's caching allocator holds after an eager run: more than the tensors that were alive at once.

    segment = 2 MiB for tensors up to 1 MiB, 20 MiB below 10 MiB, else the tensor in steps of 2 MiB
    block   = the smallest free one that holds the tensor, split where more than 1 MiB is left (small: 512 B)

A freed block goes back to its segment, never to the driver, so that an engine that asks the driver what is free
pays for every segment (c10/cuda/CUDACachingAllocator.cpp: get_allocation_size, get_free_block, should_split). Only
when a segment cannot be had are unused ones given back first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.units import MIB

_SMALL = MIB
_MIDDLE = 10 * MIB
_STEP = 2 * MIB
_ROUND = 512


@dataclass(slots=True, eq=False)
class Block:
    """A part of a segment, between its neighbours."""

    size: int
    small: bool
    free: bool = True
    before: Block | None = None
    after: Block | None = None


@dataclass(slots=True)
class CachingAllocator:
    """Bytes that tensors take now and took at most, and those of all segments."""

    reserved_bytes: int = 0
    allocated_bytes: int = 0
    peak_bytes: int = 0
    _free: list[Block] = field(default_factory=list)

    def take(self, size: float) -> Block:
        """A tensor of that many bytes; the block is what `give` takes back."""
        rounded = max(_ROUND, -(-round(size) // _ROUND) * _ROUND)
        small = rounded <= _SMALL
        fitting = (one for one in self._free if one.small is small and one.size >= rounded)
        block = min(fitting, key=lambda one: one.size, default=None)
        if block is None:
            block = Block(_segment_size(rounded), small)
            self.reserved_bytes += block.size
        else:
            self._free.remove(block)
        self._split(block, rounded)
        block.free = False
        self.allocated_bytes += block.size
        self.peak_bytes = max(self.peak_bytes, self.allocated_bytes)
        return block

    def give(self, *blocks: Block) -> None:
        """Tensors that nothing refers to any more."""
        for block in blocks:
            self.allocated_bytes -= block.size
            block.free = True
            for other in (block.before, block.after):
                if other is not None and other.free:
                    self._free.remove(other)
                    _join(block, other)
            self._free.append(block)

    def _split(self, block: Block, size: int) -> None:
        rest = block.size - size
        if rest < _ROUND or (not block.small and rest <= _SMALL):
            return
        other = Block(rest, block.small, before=block, after=block.after)
        if block.after is not None:
            block.after.before = other
        block.size, block.after = size, other
        self._free.append(other)


def _segment_size(size: int) -> int:
    if size <= _SMALL:
        return _STEP
    return 2 * _MIDDLE if size < _MIDDLE else -(-size // _STEP) * _STEP


def _join(block: Block, other: Block) -> None:
    """`block` takes over its free neighbour."""
    block.size += other.size
    if other is block.before:
        block.before = other.before
        if other.before is not None:
            other.before.after = block
    else:
        block.after = other.after
        if other.after is not None:
            other.after.before = block
