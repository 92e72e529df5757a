"""The same question of many values, each in a process of its own: as many at once as there are cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_apart(function: Callable[[T], R], items: Sequence[T], *, workers: int | None = None) -> Iterator[R]:
    """`function` of each item, in order. `function` and items must pickle; one worker or one item stays here."""
    count = min(workers or cores(), len(items))
    if count <= 1:
        yield from map(function, items)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        yield from pool.map(function, items)
