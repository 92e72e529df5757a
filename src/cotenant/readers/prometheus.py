"""The text that Prometheus scrapes: samples by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*")


def samples(text: str, line: re.Pattern[str]) -> Iterator[tuple[str, float]]:
    """(first group, value) of every line that matches whole; what is no finite number is left out."""
    for match in filter(None, map(line.fullmatch, text.splitlines())):
        try:
            value = float(match.group(2))
        except ValueError:
            continue
        if isfinite(value):
            yield match.group(1), value


def totals(text: str) -> Mapping[str, float]:
    """The sum of each metric's samples over its labels; what is no sample, or no finite number, is left out.

    Counters and gauges of an engine's ranks add up; a histogram's buckets are kept under their own name.
    Source: prometheus.io, exposition formats.
    """
    found: dict[str, float] = {}
    for name, value in samples(text, _LINE):
        found[name] = found.get(name, 0.0) + value
    return found
