"""Processes that help to plan a large fleet: started when there is work, kept until all is done."""

from __future__ import annotations

import atexit
import gc
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from cotenant.edge.apart import cores, end_with_parent
from cotenant.errors import InputError, SolverError

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

T = TypeVar("T")
R = TypeVar("R")


class Processes:
    """A crew (`planning.crew.Crew`) of `members` processes."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._pool: ProcessPoolExecutor | None = None

    @property
    def members(self) -> int:
        """How many work at once."""
        return self._members

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """`function` of each item, in order. Raises SolverError where a process is ended from outside."""
        from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
        from multiprocessing import get_context

        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._members, mp_context=get_context("spawn"), initializer=_calm)
        try:
            for found in self._pool.map(partial(_kept, function), items):
                yield found
                gc.freeze()  # what came stays, and a collector of cycles that walks it again and again finds none
        except BrokenExecutor:
            raise SolverError(
                "a process that helped to plan was ended (out of memory?)", hint="allow it more memory"
            ) from None

    def close(self) -> None:
        """Let them go; what is not begun is left."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            gc.unfreeze()


def _kept(function: Callable[[T], R], item: T) -> R:
    """`function` of the item; what is known since stays, and the collector of cycles need not walk it again."""
    found = function(item)
    gc.freeze()
    return found


def _calm() -> None:
    """Ctrl-C is for whoever started this, with whom it ends; at its own end it takes nothing apart that the system
    takes back anyway."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit.register(os._exit, 0)


@contextmanager
def crew_of(workers: int | None) -> Iterator[Processes]:
    """A crew of so many (None: as many as this process has cores). Raises InputError for what is no number of
    processes."""
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InputError(f"{workers!r} is no number of processes", hint="1, or more, or None for one a core")
    crew = Processes(cores() if workers is None else workers)
    try:
        yield crew
    finally:
        crew.close()
