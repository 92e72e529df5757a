"""The text that Prometheus scrapes: samples by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*")
_LABELLED = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{([^\n]*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def samples(text: str, line: re.Pattern[str]) -> Iterator[tuple[str, float]]:
    """(first group, value) of every line that matches whole; what is no finite number is left out."""
    for match, value in _matches(text, line, 2):
        yield match.group(1), value


def labelled(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """(name, labels, value) of every sample; what is no finite number is left out."""
    for match, value in _matches(text, _LABELLED, 3):
        yield match.group(1), {name: _plain(held) for name, held in _LABEL.findall(match.group(2) or "")}, value


def _matches(text: str, line: re.Pattern[str], place: int) -> Iterator[tuple[re.Match[str], float]]:
    for match in filter(None, map(line.fullmatch, text.splitlines())):
        try:
            value = float(match.group(place))
        except ValueError:
            continue
        if isfinite(value):
            yield match, value


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match.group(1) == "n" else match.group(1), text)


def totals(text: str) -> Mapping[str, float]:
    """The sum of each metric's samples over its labels; what is no sample, or no finite number, is left out.

    Counters and gauges of an engine's ranks add up; a histogram's buckets are kept under their own name.
    Source: prometheus.io, exposition formats.
    """
    found: dict[str, float] = {}
    for name, value in samples(text, _LINE):
        found[name] = found.get(name, 0.0) + value
    return found
