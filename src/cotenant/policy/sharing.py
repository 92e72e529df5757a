"""How much slower a step is beside the steps of other models on the same card."""

from __future__ import annotations

ALONE = 1000  # per mille
SLICES = 1000  # processes that take turns: a neighbour's step costs its whole turn, whatever it does
SPATIAL = 200  # multiprocessors shared: a neighbour that wants another resource costs a fifth of a turn


def slowdown(reading: bool, neighbours_reading: int, neighbours_decoding: int, cross: int) -> int:
    """Per mille of its time alone that a step takes beside others' steps on its card.

    Reading prompts is bound by arithmetic and decoding by memory, so neighbours of its own kind cost a step a
    whole turn each, and those of the other kind `cross` per mille of one: `SLICES` where processes take turns in
    time, `SPATIAL` where they run side by side (MuxServe, arXiv 2404.02015, section 3).
    """
    alike = neighbours_reading if reading else neighbours_decoding
    other = neighbours_decoding if reading else neighbours_reading
    return ALONE + SLICES * alike + cross * other


def stretched(work: int, permille: int) -> int:
    """`work` at that pace. Whole where the pace is whole, or where `work` is whole in thousands."""
    if permille % ALONE == 0:
        return work * (permille // ALONE)
    return work // ALONE * permille
