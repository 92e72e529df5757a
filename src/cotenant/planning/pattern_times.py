"""Busy shares in whole cells, for the second bound of `patterns`; plain for lists, compiled for arrays."""

from __future__ import annotations

TIME_CELLS = 256  # of busy share
TIME_UNIT = 64  # of them to a card that is always busy
_TOLERANCE = 2e-9  # twice that of whoever joins


def time_cell(left: float, last: int) -> int:
    """The cell of so much busy share that is left, `last` for all that is more; never below the truth."""
    return last if left * TIME_UNIT >= last else int((left + _TOLERANCE) * TIME_UNIT)
