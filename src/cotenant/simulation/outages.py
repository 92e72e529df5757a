"""Replicas that fail: what they were answering is lost, what had no answer yet begins anew on another.

A request whose first token was sent cannot be sent again without its reader noticing, so it is lost, as the
gateway has it (it tries again only as long as no byte was passed on). Where no replica of a model is up, its
requests wait for one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Away:
    """Host `place` is away from one moment to another, in femtoseconds."""

    place: int
    from_fs: int
    until_fs: int


@dataclass(slots=True, eq=False)
class Outages:
    """All that will happen, in order, and who is away just now."""

    planned: Iterable[Away]
    away: dict[int, int] = field(default_factory=dict)  # until when, by host
    failures: dict[int, int] = field(default_factory=dict)  # how often, by host
    retried: dict[int, int] = field(default_factory=dict)  # requests that began anew, by model
    orphans: deque[tuple[int, int, int | None]] = field(
        default_factory=deque
    )  # (model, request, host that had it)
    _left: deque[Away] = field(init=False)

    def __post_init__(self) -> None:
        self._left = deque(self.planned)

    def next_change(self) -> int | None:
        """When the next replica fails or comes back."""
        moments = [*self.away.values(), *([self._left[0].from_fs] if self._left else [])]
        return min(moments, default=None)

    def due(self, now: int) -> list[int]:
        """Hosts that fail at this moment; those that come back are back."""
        for place in [place for place, until in self.away.items() if until <= now]:
            del self.away[place]
        found = []
        while self._left and self._left[0].from_fs <= now:
            one = self._left.popleft()
            self.away[one.place] = one.until_fs
            self.failures[one.place] = self.failures.get(one.place, 0) + 1
            found.append(one.place)
        return found
