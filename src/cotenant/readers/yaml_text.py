"""YAML or JSON text -> plain values, with duplicate keys reported by path and every bomb bounded.

The YAML read here is the safe core: plain scalars resolve as in YAML 1.2 (so `no` and `1:30` stay text),
anchors, aliases, tags, complex keys and several documents in one file are refused. Text of 1 MB at most,
nested at most 32 deep, of 100,000 values at most.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NoReturn

from cotenant.errors import CotenantError, FormatError, InputError

MAX_TEXT_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_NODES = 100_000  # a fleet of a thousand models has about 60,000
_MOST_DUPLICATES = 100
_LONGEST_NUMBER = 30
_CONSTANTS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PARTS = "a thousand models have room: ask of parts of a larger fleet, or write models that are alike as replicas"
_NO_ANCHORS = "write the value out each time it is used"


class _Pairs(list[tuple[str, Any]]):
    """A mapping as it was written: pairs in order, duplicates included."""


@dataclass(slots=True)
class _Open:
    """A container still being read; `key` is the mapping key whose value comes next."""

    items: list[Any]
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """What a text says, and the duplicate keys in it (the first of each is kept)."""

    value: Any
    faults: tuple[CotenantError, ...] = field(default=())


def read_document(text: str, *, path: str = "") -> Document:
    """Read JSON (a `path` that ends in .json, or text that starts with a brace and parses) or YAML.

    Raises FormatError where the text cannot be read at all.
    """
    name = path or "the text"
    _check_size(text, name)
    if path.lower().endswith(".json"):
        tree = _json(text, name)
    else:
        tree = _json_or_none(text) if text.lstrip().startswith("{") else None
        tree = _yaml(text, name) if tree is None else tree
    faults: list[CotenantError] = []
    return Document(_settled(tree, "$", faults, name, 0), tuple(faults))


def join(path: str, key: str | int) -> str:
    """The JSON path of `key` under `path`: ``$.models[2].slo``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{key[:60]!r}]"


def _check_size(text: str, name: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise FormatError(f"{name} is not text: it holds broken characters") from None
    if size > MAX_TEXT_BYTES:
        raise FormatError(f"{name} is {size:,} bytes long; at most {MAX_TEXT_BYTES:,} are read", hint=_PARTS)


def _json_or_none(text: str) -> Any:
    try:
        return _json(text, "")
    except FormatError:
        return None


def _json(text: str, name: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(
            text, object_pairs_hook=_Pairs, parse_int=_int, parse_float=_float, parse_constant=refuse
        )
    except RecursionError:
        raise FormatError(f"{name} is nested too deep", hint=f"at most {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise FormatError(f"{name} is not JSON: {error}") from None


def _int(text: str) -> int | str:
    return int(text) if len(text) <= _LONGEST_NUMBER else text


def _float(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text


def _yaml(text: str, name: str) -> Any:
    import yaml  # not at the top: `cotenant estimate` never needs it

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _built(yaml.parse(text, Loader=loader), name)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        raise FormatError(f"{name} is not YAML: {problem}{where}") from None


def _built(events: Iterable[Any], name: str) -> Any:
    """The tree that parser `events` describe, mappings as `_Pairs`; iterative, so depth costs no stack."""
    root = _Open([])
    stack = [root]
    documents = 0
    for number, event in enumerate(events):
        kind = type(event).__name__
        if number > MAX_NODES:
            raise FormatError(f"{name} holds more than {MAX_NODES:,} values", hint=_PARTS)
        _refuse_hostile(event, kind, name)
        if kind == "DocumentStartEvent":
            documents += 1
            if documents > 1:
                raise FormatError(f"{name} holds several documents (---); only one is read")
        elif kind == "ScalarEvent":
            _put(stack[-1], event.value if _is_key(stack[-1]) else _scalar(event), name)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            child = _Open(_Pairs() if kind == "MappingStartEvent" else [])
            _put(stack[-1], child.items, name)
            stack.append(child)
            if len(stack) > MAX_DEPTH + 1:
                raise FormatError(f"{name} is nested too deep{_line(event)}", hint=f"at most {MAX_DEPTH} levels")
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            stack.pop()
    return root.items[0] if root.items else None


def _refuse_hostile(event: Any, kind: str, name: str) -> None:
    if kind == "AliasEvent" or getattr(event, "anchor", None) is not None:
        raise FormatError(f"{name}: anchors and aliases are not read{_line(event)}", hint=_NO_ANCHORS)
    tag = getattr(event, "tag", None)
    if tag not in (None, "!", "tag:yaml.org,2002:str"):
        raise FormatError(f"{name}: the tag {tag[:60]!r} is not read{_line(event)}", hint="leave it out")


def _line(event: Any) -> str:
    return f" (line {event.start_mark.line + 1})"


def _is_key(target: _Open) -> bool:
    return isinstance(target.items, _Pairs) and target.key is None


def _put(target: _Open, value: Any, name: str) -> None:
    if not isinstance(target.items, _Pairs):
        target.items.append(value)
    elif target.key is not None:
        target.items.append((target.key, value))
        target.key = None
    elif isinstance(value, str):
        target.key = value
    else:
        raise FormatError(f"{name}: a key must be text, not a list or a mapping")


def _scalar(event: Any) -> Any:
    """A plain scalar by the YAML 1.2 core schema, numbers written in decimal; anything quoted is text."""
    text: str = event.value
    if event.style or event.tag is not None:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return _int(text)
    return _float(text) if _FLOAT.fullmatch(text) else text


def _settled(node: Any, path: str, faults: list[CotenantError], name: str, depth: int) -> Any:
    """`node` with its pairs as dicts; each duplicate key becomes a fault with its path."""
    if depth > MAX_DEPTH:
        raise FormatError(f"{name} is nested too deep", hint=f"at most {MAX_DEPTH} levels")
    if isinstance(node, _Pairs):
        mapping: dict[str, Any] = {}
        for key, value in node:
            settled = _settled(value, join(path, key), faults, name, depth + 1)
            if key in mapping and len(faults) < _MOST_DUPLICATES:
                message = f"the key {key[:60]!r} stands here twice"
                faults.append(InputError(message, hint="keep one of them", path=join(path, key)))
            mapping.setdefault(key, settled)
        return mapping
    if isinstance(node, list):
        return [_settled(item, join(path, i), faults, name, depth + 1) for i, item in enumerate(node)]
    return node
