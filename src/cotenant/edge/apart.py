"""The same question of many values, each in a process of its own: as many at once as there are cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_parent() -> None:
    """For a process of a pool at its start: it ends at once when its parent does, however that ends. A pool's
    processes hold both ends of their queue, and would wait at it for ever."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.join,), daemon=True).start()


def _end_after(over: Callable[[], None]) -> None:
    over()
    os._exit(1)


def each_apart(function: Callable[[T], R], items: Sequence[T], *, workers: int | None = None) -> Iterator[R]:
    """`function` of each item, in order. `function` and items must pickle; one worker or one item stays here."""
    count = min(workers or cores(), len(items))
    if count <= 1:
        yield from map(function, items)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        yield from pool.map(function, items)
