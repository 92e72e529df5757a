"""What decisions are made over."""

from __future__ import annotations

from typing import Protocol


class Ints(Protocol):
    """A list or a one-dimensional array of integers."""

    def __getitem__(self, index: int, /) -> int: ...


class Marks(Ints, Protocol):
    """The same, to be written into."""

    def __setitem__(self, index: int, value: int, /) -> None: ...
