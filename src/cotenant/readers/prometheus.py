"""The text that Prometheus scrapes: samples by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*")


def totals(text: str) -> Mapping[str, float]:
    """The sum of each metric's samples over its labels; what is no sample, or no finite number, is left out.

    Counters and gauges of an engine's ranks add up; a histogram's buckets are kept under their own name.
    Source: prometheus.io, exposition formats.
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match.group(2))
        except ValueError:
            continue
        if isfinite(value):
            found[match.group(1)] = found.get(match.group(1), 0.0) + value
    return found
