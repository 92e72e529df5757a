"""JSON that strangers wrote: strict, and bounded before and after it is parsed.

Refused: duplicate keys, NaN and infinities (RFC 8259 has neither), absurd numbers of values, deep nesting.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from cotenant.errors import FormatError

MAX_VALUES = 2_000_000
MAX_DEPTH = 64


def parse_json(data: bytes | str, *, what: str, path: str = "", max_values: int = MAX_VALUES) -> Any:
    """The value that `data` holds. `what` names it in a refusal, `path` says where it stands.

    Raises FormatError. Memory stays within a small multiple of ``len(data) + 100 B x max_values``: commas and
    opening brackets, of which every value but the first needs one, are counted before anything is built.
    """
    text = _decode(data, what, path)
    if text.count(",") + text.count("[") + text.count("{") > max_values:
        raise FormatError(f"{what} holds more than {max_values:,} values", path=path)
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise FormatError(f"{what} is nested too deeply", path=path) from None
    except ValueError as error:
        raise FormatError(f"{what} is not JSON: {_reason(error)}", hint=_hint(text), path=path) from None
    if _deeper_than(value, MAX_DEPTH):
        raise FormatError(f"{what} is nested more than {MAX_DEPTH} levels deep", path=path)
    return value


def _decode(data: bytes | str, what: str, path: str) -> str:
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{what} is not UTF-8 text (byte {error.start})", path=path) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice[:80]!r} stands there twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    if "integer string conversion" in str(error):  # Python's own words name a setting of Python
        return "it holds a number of thousands of digits"
    return str(error)[:200]


def _hint(text: str) -> str:
    head = text[:512].lstrip().lower()
    if head.startswith("version https://git-lfs"):
        return "this is a Git LFS pointer: fetch the file itself (git lfs pull)"
    if head.startswith(("<!doctype", "<html", "<?xml", "<")):
        return "this is a web page, not the file: download the raw file"
    return ""


def _deeper_than(value: Any, limit: int) -> bool:
    """Whether lists and mappings are nested more than `limit` deep; level by level, so never recursive."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True
