"""A small cache for what is computed once per model: keyed by identity, since values are immutable."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class IdentityCache(Generic[T]):
    """Results by the identity of some objects and a plain key; the oldest fall out beyond `size`.

    The objects are kept alive with the result, so an identity cannot be reused while it is a key.
    """

    def __init__(self, size: int = 512) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, tuple[tuple[object, ...], T]] = OrderedDict()

    def get(self, objects: tuple[object, ...], key: Hashable, compute: Callable[[], T]) -> T:
        """The stored result, or that of `compute`."""
        entry = self._entries.get((*map(id, objects), key))
        if entry is not None:
            return entry[1]
        value = compute()
        self.put(objects, key, value)
        return value

    def has(self, objects: tuple[object, ...], key: Hashable) -> bool:
        """Whether a result is stored."""
        return (*map(id, objects), key) in self._entries

    def put(self, objects: tuple[object, ...], key: Hashable, value: T) -> None:
        """Store a result that was come by otherwise."""
        self._entries[(*map(id, objects), key)] = (objects, value)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
