"""KV cache that models on one card lend each other: what each may still take."""

from __future__ import annotations

from cotenant.policy.kinds import Ints


def spare_bytes(capacity_bytes: int, held_bytes: Ints, floor_bytes: Ints, models: int) -> int:
    """What nobody holds and nobody is promised: each of the first `models` models keeps its floor."""
    spare = capacity_bytes
    for index in range(models):
        spare -= max(held_bytes[index], floor_bytes[index])
    return spare


def free_blocks(held_bytes: int, floor_bytes: int, spare: int, block_bytes: int) -> int:
    """Blocks that a model may take now: the rest of its floor, and whatever is spare.

    With a floor of one longest sequence the first of its queue always gets to its end, so that models which
    preempt each other's growth cannot keep each other from finishing.
    """
    return (max(0, floor_bytes - held_bytes) + max(0, spare)) // block_bytes
