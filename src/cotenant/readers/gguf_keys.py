"""Typed access to a GGUF file's metadata: whole numbers, per-layer lists, and refusals that name the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.errors import FormatError

_LARGEST = 2**40
_MAX_LAYERS = 1024


class GgufKeys:
    """The keys ``<arch>.*`` of one file. A key that is absent gives the default; a wrong type is refused."""

    def __init__(self, architecture: str, metadata: Mapping[str, Any]) -> None:
        self.architecture = architecture
        self._metadata = metadata
        self.num_blocks = self.required("block_count")
        if not 1 <= self.num_blocks <= _MAX_LAYERS:
            raise FormatError(f"GGUF header: {architecture}.block_count is {self.num_blocks:,}")

    def raw(self, key: str) -> Any:
        """The value as stored, None where the key is absent."""
        return self._metadata.get(f"{self.architecture}.{key}")

    def required(self, key: str) -> int:
        """A whole number that the architecture cannot do without."""
        value = self.number(key)
        if value is None:
            raise FormatError(f"GGUF header has no {self.architecture}.{key}", hint="convert the model again")
        return value

    def number(self, key: str, default: int | None = None) -> int | None:
        """A whole number 0..2^40; of a per-layer list, the largest."""
        value = self.raw(key)
        if isinstance(value, tuple) and value and all(type(item) is int for item in value):
            value = max(value)
        if value is None:
            return default
        if type(value) is not int or not 0 <= value < _LARGEST:
            raise FormatError(f"GGUF header: {self.architecture}.{key} is not a whole number below 2^40")
        return value

    def size(self, key: str, default: int = 0) -> int:
        """A whole number with a default."""
        value = self.number(key, default)
        return default if value is None else value

    def per_layer(self, key: str, default: int) -> tuple[int, ...]:
        """One whole number a block, whether the file gives one for all or a list."""
        value = self.raw(key)
        if not isinstance(value, tuple):
            return (self.size(key, default),) * self.num_blocks
        if len(value) < self.num_blocks or not all(type(item) is int and 0 <= item < _LARGEST for item in value):
            raise FormatError(f"GGUF header: {self.architecture}.{key} is not {self.num_blocks} whole numbers")
        return value[: self.num_blocks]

    def flags(self, key: str) -> tuple[bool, ...] | None:
        """One flag a block, None where the key is absent or holds a single number."""
        value = self.raw(key)
        if not isinstance(value, tuple):
            return None
        if len(value) < self.num_blocks or not all(isinstance(item, (bool, int)) for item in value):
            raise FormatError(f"GGUF header: {self.architecture}.{key} is not {self.num_blocks} flags")
        return tuple(bool(item) for item in value[: self.num_blocks])
