"""A strict reader of rows: every fault of a row is noted with its path, nothing is coerced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any

from cotenant.errors import CotenantError, InputError, InputErrors


def nearest(word: str, known: Iterable[str]) -> str:
    """The hint for a word that is not known: the nearest of `known`, or all of them where they are few."""
    words = list(known)
    close = get_close_matches(word.lower(), words, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(words)}" if 0 < len(words) <= 16 else ""


class Row:
    """One mapping of a data file. A getter that finds a fault notes it and returns a stand-in of its type."""

    def __init__(self, value: object, path: str, faults: list[CotenantError], keys: Iterable[str]) -> None:
        self.path, self.faults = path, faults
        self.values: Mapping[str, Any] = {}
        if not isinstance(value, Mapping):
            self.note("must be a mapping", value)
            return
        self.values = value
        known = tuple(keys)
        for key in value:
            if key not in known:
                self.faults.append(
                    InputError(
                        f"unknown key {str(key)[:60]!r}", hint=nearest(str(key), known), path=f"{path}.{key}"
                    )
                )

    def note(self, problem: str, value: object, key: str = "") -> None:
        """Record that the value at `key` has a problem."""
        path = f"{self.path}.{key}" if key else self.path
        self.faults.append(InputError(f"{problem}, not {shown(value)}", path=path))

    def has(self, key: str) -> bool:
        """Whether `key` is there and not null."""
        return self.values.get(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """Text; required unless `default` is given."""
        value = self.values.get(key, default)
        if isinstance(value, str) and (value or default == ""):
            return value
        self.note("must be text", value, key)
        return ""

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of text, empty where the key is missing."""
        value = self.values.get(key)
        if value is None:
            return ()
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self.note("must be a list of text", value, key)
        return ()

    def number(self, key: str, *, low: float = 0.0, high: float = 1e15) -> float:
        """A finite number in low..high; required."""
        value = self.values.get(key)
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and isfinite(value)
            and low <= value <= high
        ):
            return float(value)
        self.note(f"must be a number from {low:g} to {high:g}", value, key)
        return low

    def number_or_none(self, key: str, *, low: float = 0.0, high: float = 1e15) -> float | None:
        """A number, or None where the key is missing or null."""
        return self.number(key, low=low, high=high) if self.has(key) else None

    def flag(self, key: str) -> bool:
        """True or false; required."""
        value = self.values.get(key)
        if isinstance(value, bool):
            return value
        self.note("must be true or false", value, key)
        return False

    def row(self, key: str, keys: Iterable[str]) -> Row:
        """The mapping at `key`, as a row of its own."""
        return Row(self.values.get(key), f"{self.path}.{key}", self.faults, keys)


def shown(value: object) -> str:
    """A value as an error shows it, cut short."""
    if value is None:
        return "nothing"
    if isinstance(value, (Mapping, list, tuple)):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return "a huge number"
    return repr(value)[:60]


def raise_faults(faults: list[CotenantError]) -> None:
    """Raise all faults at once, if there are any."""
    if faults:
        raise InputErrors(faults)
