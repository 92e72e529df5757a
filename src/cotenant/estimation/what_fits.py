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
    surely = min(rank.kv_cache.bytes.low for rank in found.per_gpu)
    near = concurrent * surely // (found.kv_cache.needed_bytes or 1)
    most = 0 if found.fits else most_that(_fits(with_concurrency), concurrent - 1, near)
    return f"fits with concurrent {most:,}" if most else ""


def most_that(holds: Callable[[int], bool], most: int, near: int | None = None) -> int:
    """The largest whole number from 1 to `most` that holds, 0 where none does; what holds, holds for fewer.

    Asked in halves; from `near` outwards, in steps that double, where the answer is likely to be close to it.
    """
    low, high = 0, most
    step, place = 1, (most + 1) // 2 if near is None else max(1, min(near, most))
    while low < high:
        middle = (low + high + 1) // 2
        asked = middle if near is None or not low < place <= high else place
        if holds(asked):
            low, place = asked, asked + step
        else:
            high, place = asked - 1, asked - step
        step *= 2
    return low


def _fits(judge: Judge) -> Callable[[int], bool]:
    def holds(count: int) -> bool:
        try:
            return judge(count).fits
        except UnsupportedError:  # the engine would not start with it at all
            return False

    return holds
