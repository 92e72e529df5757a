"""Processes that help to plan a large fleet: started when there is work, kept until all is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from cotenant.edge.apart import cores
from cotenant.errors import InputError

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
        """`function` of each item, in order."""
        if self._pool is None:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            self._pool = ProcessPoolExecutor(self._members, mp_context=get_context("spawn"))
        return self._pool.map(function, items)

    def close(self) -> None:
        """Let them go; what is not begun is left."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


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
