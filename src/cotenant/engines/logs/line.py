"""What an engine's own log says, as data: which lines carry figures, and what each figure is called.

A line is found by plain text that always stands in it (`needle`: a search through a block of bytes, no regular
expression) and read by `pattern`. The names of the pattern's groups are the names of the figures; a group
``X_unit`` beside a group ``X`` holds the unit in which X was printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

NUMBER = r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?"
"""A number as engines print them: 4.75, -3.58, 38,944."""

_UNIT = "GiB"
_VALUE = r"(?:Some\(\s*)?(?:'([^']{0,300})'|\"([^\"]{0,300})\"|(-?[\w./:@+-]{1,200}))"


@dataclass(frozen=True)
class LogLine:
    """One kind of line.

    `keys` reads settings: the engine's word -> our word, wherever ``word=value``, ``word: value`` or
    ``'word': value`` stands in the line; `flags` likewise for ``--word value`` and ``--word=value``. `starts`: a
    process starts here, so a second one is another run. `ready`: the engine serves from here on. `failure` names
    what went wrong. `section` is where the figures that follow belong (llama.cpp prints its caches one after the
    other); "draft" counts only once the model itself is loaded. `anchor`: a shorter text that stands in such
    lines as well, where several share it.
    """

    needle: str
    pattern: str = ""
    anchor: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    starts: bool = False
    ready: bool = False
    failure: str = ""
    section: str = ""

    @cached_property
    def searched(self) -> str:
        """What a block is searched for: few texts that serve for many lines, none that stands in the lines that an
        engine prints while it serves."""
        return self.anchor or (_UNIT if _UNIT in without_optional(self.pattern) else self.needle)

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """`pattern` compiled, with N standing for a number."""
        return re.compile(self.pattern.replace("<N>", NUMBER), re.IGNORECASE)

    @cached_property
    def setting_regexes(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """For each of `keys` and `flags` our word and the expression that finds its value."""
        keys = [
            (ours, rf"(?<![\w.-])['\"]?{re.escape(theirs)}['\"]?\s*[=:]\s*{_VALUE}")
            for theirs, ours in self.keys.items()
        ]
        flags = [
            (ours, rf"(?<![\w-])--?{re.escape(theirs).replace('_', '[-_]')}(?:=|\s+){_VALUE}")
            for theirs, ours in self.flags.items()
        ]
        return tuple((ours, re.compile(expression)) for ours, expression in (*keys, *flags))


@dataclass(frozen=True)
class EngineLog:
    """The lines of one engine. `signs` are words that give the engine away in a traceback; `styles` say, for a
    log that does not print its version, which release prints such a line (the first that stands in the log
    counts)."""

    engine: str
    title: str
    lines: tuple[LogLine, ...]
    signs: tuple[str, ...] = ()
    styles: tuple[tuple[str, str], ...] = ()


def without_optional(pattern: str) -> str:
    """A pattern without its groups that may be absent or offer a choice: what stands in every match."""
    parts: list[str] = [""]
    place, in_class = 0, False
    while place < len(pattern):
        mark = pattern[place : place + 2] if pattern[place] == "\\" else pattern[place]
        place += len(mark)
        if mark in "[]" and len(mark) == 1:
            in_class = mark == "["
        if mark == "(" and not in_class:
            parts.append("")
        elif mark == ")" and not in_class and len(parts) > 1:
            group = parts.pop()
            optional = pattern[place : place + 1] in ("?", "*")
            place += optional
            if "|" not in group and not optional:
                parts[-1] += group
        else:
            parts[-1] += mark
    return parts[0]
