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

NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
"""A number as engines print them: 4.75, -3.58, 38,944."""

_VALUE = r"(?:Some\(\s*)?(?:'([^']{0,300})'|\"([^\"]{0,300})\"|(-?[\w./:@+-]{1,200}))"


@dataclass(frozen=True)
class LogLine:
    """One kind of line.

    `keys` reads settings instead of figures: the engine's word -> our word, wherever ``word=value``,
    ``word: value`` or ``'word': value`` stands in the line. `starts`: a process starts here, so a second one is
    another run. `ready`: the engine serves from here on. `failure` names what went wrong. `section` is where the
    figures that follow belong (llama.cpp prints its caches one after the other).
    """

    needle: str
    pattern: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    starts: bool = False
    ready: bool = False
    failure: str = ""
    section: str = ""

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """`pattern` compiled, with N standing for a number."""
        return re.compile(self.pattern.replace("<N>", NUMBER), re.IGNORECASE)

    @cached_property
    def key_regexes(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """For each of `keys` our word and the expression that finds its value."""
        return tuple(
            (ours, re.compile(rf"(?<![\w.-])['\"]?{re.escape(theirs)}['\"]?\s*[=:]\s*{_VALUE}"))
            for theirs, ours in self.keys.items()
        )


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
