"""Many hands for large fleets: who works out parts of a plan, if not this process alone.

A plan asks the crew in force for independent parts of its work. What comes back is the same whoever did it, so a
plan does not depend on how many there are. The crew itself is made outside (`edge.crews`), where processes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Crew(Protocol):
    """Whoever works."""

    @property
    def members(self) -> int:
        """How many work at once."""
        ...

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """`function` of each item, in order; both must pickle."""
        ...


_IN_FORCE: ContextVar[Crew | None] = ContextVar("crew", default=None)


@contextmanager
def working(crew: Crew | None) -> Iterator[None]:
    """Plans made inside have this crew; None: this process alone."""
    token = _IN_FORCE.set(crew)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def crew_in_force() -> Crew | None:
    """The crew at hand, of two members or more."""
    crew = _IN_FORCE.get()
    return crew if crew is not None and crew.members > 1 else None
