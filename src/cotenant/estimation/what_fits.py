"""What would fit where an estimate does not: the most sequences, or the longest, with all else equal."""

from __future__ import annotations

from collections.abc import Callable

from cotenant.domain.estimate import Estimate
from cotenant.errors import UnsupportedError

_BLOCK = 16  # lengths are offered in whole blocks, as they are reserved

Judge = Callable[[int], Estimate]


def fitting_settings(found: Estimate, with_sequences: Judge, with_length: Judge) -> str:
    """``fits with max_num_seqs 12``, else ``fits with max_model_len 8,192``; "" where it fits or neither helps."""
    if found.fits:
        return ""
    sequences, length = found.settings.max_num_seqs or 1, found.settings.max_model_len or 1
    most = most_that(_fits(with_sequences), sequences - 1)
    if most:
        return f"fits with max_num_seqs {most:,}"
    blocks = most_that(_fits(lambda count: with_length(count * _BLOCK)), (length - 1) // _BLOCK)
    return f"fits with max_model_len {blocks * _BLOCK:,}" if blocks else ""


def fitting_concurrency(found: Estimate, concurrent: int, with_concurrency: Judge) -> str:
    """``fits with concurrent 11``; "" where it fits or not even one does."""
    most = 0 if found.fits else most_that(_fits(with_concurrency), concurrent - 1)
    return f"fits with concurrent {most:,}" if most else ""


def most_that(holds: Callable[[int], bool], most: int) -> int:
    """The largest whole number from 1 to `most` that holds, 0 where none does; what holds, holds for fewer."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _fits(judge: Judge) -> Callable[[int], bool]:
    def holds(count: int) -> bool:
        try:
            return judge(count).fits
        except UnsupportedError:  # the engine would not start with it at all
            return False

    return holds
