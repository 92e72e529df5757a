"""Typed, bounded reading of a config.json: every fault is noted with its path, and all are raised together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cotenant.errors import CotenantError, FormatError, InputErrors

LARGEST = 2**31
MOST_LAYERS = 10_000


class ConfigView:
    """One JSON object of a config, read key by key.

    A key that is null counts as missing. A missing or insane value is noted and replaced by a harmless one, so
    that one reading finds every fault; `raise_faults` then raises them. Sections share their parent's list.
    """

    __slots__ = ("_document", "_faults", "_path", "_values")

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        path: str = "$",
        faults: list[CotenantError] | None = None,
        document: str = "config.json",
    ):
        self._document = document
        self._values = values
        self._path = path
        self._faults: list[CotenantError] = [] if faults is None else faults

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    @property
    def has_faults(self) -> bool:
        """Whether anything read so far was wrong, so that values derived from it mean nothing."""
        return bool(self._faults)

    def fault(self, key: str, problem: str, *, hint: str = "") -> None:
        """Note that the value under `key` cannot be used."""
        path = f"{self._path}.{key}"
        self.note(FormatError(f"{self._document}: {path} {problem}", hint=hint, path=path))

    def note(self, error: CotenantError) -> None:
        """Keep an error to be raised with the others; the same one twice counts once."""
        if all((error.path, error.message) != (known.path, known.message) for known in self._faults):
            self._faults.append(error)

    def raise_faults(self) -> None:
        """Raise what was noted: one FormatError, or InputErrors with all of them."""
        if len(self._faults) == 1:
            raise self._faults[0]
        if self._faults:
            raise InputErrors(self._faults)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Every key with its value as it stands."""
        return self._values.items()

    def raw(self, key: str) -> Any:
        """The value as it stands, or None."""
        return self._values.get(key)

    def integer(self, *keys: str, default: int | None = None, least: int = 1, most: int = LARGEST) -> int:
        """The first of `keys` that is there, a whole number in [least, most]; a fault without one or a default."""
        for key in keys:
            value = self._values.get(key)
            if value is not None:
                return self._checked(key, value, least, most)
        if default is not None:
            return default
        self.fault(keys[0], "is missing")
        return least

    def optional_integer(self, *keys: str, least: int = 0, most: int = LARGEST) -> int | None:
        """As `integer`, or None where none of `keys` is there."""
        if any(key in self for key in keys):
            return self.integer(*keys, least=least, most=most)
        return None

    def _checked(self, key: str, value: object, least: int, most: int) -> int:
        if isinstance(value, float) and value == value and abs(value) <= LARGEST and value == int(value):
            value = int(value)  # some writers print 4096.0
        if isinstance(value, bool) or not isinstance(value, int):
            self.fault(key, f"must be a whole number, not {_shown(value)}")
        elif not least <= value <= most:
            self.fault(key, f"is {_shown(value)}; it must lie in {least:,} to {most:,}")
        else:
            return value
        return least

    def side(self, key: str, *, default: int | None = None, most: int = 2**16) -> int:
        """The side of a square, given once or as [height, width]; only equal sides are read."""
        value = self._values.get(key)
        if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
            return self.replaced(**{key: value[0]}).integer(key, most=most)
        return self.integer(key, default=default, most=most)

    def number(self, key: str, *, default: float) -> float:
        """A positive finite number."""
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float(LARGEST):
            self.fault(key, f"must be a positive number, not {_shown(value)}")
            return default
        return float(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fault(key, f"must be true or false, not {_shown(value)}")
            return default
        return value

    def text(self, key: str, *, default: str = "") -> str:
        """A short text."""
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > 1000:
            self.fault(key, f"must be a short text, not {_shown(value)}")
            return default
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of short texts; empty where missing."""
        return tuple(item for item in self._items(key, str, "texts") if isinstance(item, str))

    def integers(self, key: str, *, least: int = 0, most: int = LARGEST) -> tuple[int, ...]:
        """A list of whole numbers in [least, most]; empty where missing."""
        items = self._items(key, int, "whole numbers")
        if any(isinstance(item, bool) or not least <= item <= most for item in items):
            self.fault(key, f"holds a number outside {least:,} to {most:,}")
            return ()
        return items

    def _items(self, key: str, kind: type, what: str) -> tuple[Any, ...]:
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > MOST_LAYERS or not all(isinstance(v, kind) for v in value):
            self.fault(key, f"must be a list of at most {MOST_LAYERS:,} {what}")
            return ()
        return tuple(value)

    def section(self, *keys: str) -> ConfigView:
        """The object under the first of `keys` that is there; an empty one where none is."""
        for key in keys:
            value = self._values.get(key)
            if isinstance(value, Mapping):
                return self._like(value, f"{self._path}.{key}")
            if value is not None:
                self.fault(key, f"must be an object, not {_shown(value)}")
        return self._like({}, f"{self._path}.{keys[0]}")

    def text_section(self, key: str = "text_config") -> ConfigView:
        """The language model's object, or the object itself where a flat config holds its sizes at the top."""
        return self if key not in self and "num_hidden_layers" in self else self.section(key)

    def with_defaults(self, **values: Any) -> ConfigView:
        """The same object where keys that are missing take these values (a class default of the family)."""
        present = {key: value for key, value in self._values.items() if value is not None}
        return self._like({**values, **present}, self._path)

    def replaced(self, **values: Any) -> ConfigView:
        """The same object with these values whatever stood there."""
        return self._like({**self._values, **values}, self._path)

    def _like(self, values: Mapping[str, Any], path: str) -> ConfigView:
        return ConfigView(values, path=path, faults=self._faults, document=self._document)


def _shown(value: object) -> str:
    """A value for a message, cut short; huge integers are named by their size instead of printed."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**18:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, (Mapping, list)):
        return "an object" if isinstance(value, Mapping) else "a list"
    return repr(value)[:60]
