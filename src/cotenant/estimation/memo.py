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
        full = (*map(id, objects), key)
        entry = self._entries.get(full)
        if entry is not None:
            return entry[1]
        value = compute()
        self._entries[full] = (objects, value)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return value
