"""Slips that are made again and again in fleet files, met with the line that was meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cotenant.catalogue.strict import shown

_MEANT: Mapping[str, Callable[[str], str]] = {
    "input_tokens": lambda told: _lengths(told),
    "output_tokens": lambda told: _lengths(told),
    "context_tokens": lambda told: _lengths(told),
    "replicas": lambda told: f"write it as {{min: {told}, max: {told}}}",
    "pin": lambda told: f"write it as {{gpus: [{told}]}}",
    "quality": lambda told: f"write it as {{max_loss: {told}}}",
    "slo": lambda told: f"a target has a name: {{ttft: {told}}} or {{tpot: {told}}}",
    "node": lambda told: f"write it as {{size: {told}}}",
}
"""What to write where a figure or a word stands in place of a mapping."""


def _lengths(told: str) -> str:
    return f"lengths are said by percentiles: {{p50: {told}, p95: ...}}; where all are alike, {{p95: {told}}}"


def in_place_of_mapping(loc: Sequence[int | str], value: Any) -> str:
    """The mapping that was meant by the figure or word `value` at `loc`."""
    meant = _MEANT.get(str(loc[-1])) if loc else None
    if meant is None or isinstance(value, bool) or not isinstance(value, int | float | str):
        return "write it as {key: value}"
    return meant(_told(value))


def in_place_of_list(value: Any) -> str:
    """The list of one that was meant by `value`."""
    scalar = isinstance(value, int | float | str) and not isinstance(value, bool)
    return f"write it as [{_told(value)}]" if scalar else "write it as [a, b]"


def _told(value: float | str) -> str:
    """As a file would have it."""
    return value[:40] if isinstance(value, str) and value.isprintable() else shown(value)


def below_limit(loc: Sequence[int | str], value: Any) -> str:
    """A share where a percentile is asked."""
    share = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1
    if not share or not loc or loc[-1] != "percentile":
        return ""
    return f"did you mean {value * 100:g}? a percentile is out of 100"
