"""What weights reserve of the card, where an engine reads them off as a difference of free memory.

The tensors are taken one after another as a model's classes make them, what stands outside of the layers first,
then layer by layer; a segment that only one of them uses counts whole (`caching_allocator`).
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.estimation.caching_allocator import CachingAllocator

_MANY = 8192  # beyond it the share that every segment leaves unused is what it is for the average
_STEP = 2 * 1024**2  # vectors share segments of 2 MiB


def reserved(once: Sequence[float], layered: Sequence[tuple[float, int]], vectors: float) -> int | None:
    """Bytes of all segments: tensors outside of layers, (bytes, how many) of those in layers, and bytes of vectors
    together. None for more tensors than are worth following."""
    if sum(many for _, many in layered) > _MANY:
        return None
    allocator = CachingAllocator()
    for size in once:
        allocator.take(size)
    rounds = max((many for _, many in layered), default=0)
    for turn in range(rounds):
        for size, many in layered:  # a kind with fewer layers comes as evenly as it can
            for _ in range((turn + 1) * many // rounds - turn * many // rounds):
                allocator.take(size)
    return allocator.reserved_bytes + -(-round(vectors) // _STEP) * _STEP
