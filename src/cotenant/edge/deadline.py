"""An answer within a time, or none: worked out in a process that can be ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cotenant.edge.apart import end_with_parent

R = TypeVar("R")


def within(seconds: float, function: Callable[[], R]) -> R | None:
    """What `function` returns (it must pickle, and so must that), or None where it takes longer. What it raises is
    raised here."""
    from multiprocessing import TimeoutError as Late
    from multiprocessing import get_context

    with get_context("spawn").Pool(1, end_with_parent) as pool:
        try:
            return pool.apply_async(function).get(seconds)
        except Late:
            return None
