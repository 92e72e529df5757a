"""Text that stays what it is: in YAML, in a shell, in a systemd unit.

Values are quoted whenever any reader could take them for something else: YAML 1.1 and 1.2 differ over `1e3`, `0o7`
and `on`, so everything but plain words is quoted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from cotenant.errors import UnsupportedError

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf"])
_SAFE_IN_UNIT = re.compile(r"[A-Za-z0-9_./:=@,+-]+")


class Lines(str):
    """A text of several lines that is written as a block."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Block style, strings quoted unless they are plain words, no aliases, lists indented."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=None if plain else '"')


def _lines(dumper: yaml.SafeDumper, text: Lines) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")


_Dumper.add_representer(str, _string)
_Dumper.add_representer(Lines, _lines)


def to_yaml(value: Mapping[str, Any]) -> str:
    """The document in block style, keys in their own order, lines not folded."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20)
    return text


def shell(text: str) -> str:
    """One word of POSIX sh."""
    return shlex.quote(text)


def unit(text: str, *, expands: bool = True) -> str:
    """One word of a systemd unit: specifiers doubled, what would break a line spelled out, `$` doubled where the
    directive expands variables."""
    doubled = text.replace("%", "%%")
    if expands:
        doubled = doubled.replace("$", "$$")
    if _SAFE_IN_UNIT.fullmatch(doubled):
        return doubled
    escaped = doubled.replace("\\", "\\\\").replace('"', '\\"')
    spelled = "".join(c if c >= " " and c != "\x7f" else f"\\x{ord(c):02x}" for c in escaped)
    return f'"{spelled}"'


def check_text(text: str, what: str) -> str:
    """`text`, where some file can hold it at all. Raises UnsupportedError for a NUL or half a character."""
    if "\x00" in text or not _encodes(text):
        raise UnsupportedError(f"{what} holds what no file can: {text[:60]!r}", hint="rename it")
    return text


def check_printable(text: str, what: str, target: str) -> str:
    """`text`, where it stays on one line. Raises UnsupportedError for control characters."""
    if not text.isprintable():
        raise UnsupportedError(
            f"{target} cannot hold {what} {text[:60]!r}", hint="rename it without control characters"
        )
    return text


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
