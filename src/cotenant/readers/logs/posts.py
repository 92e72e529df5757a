"""Tables that people post of what an engine printed: the head names figures, each row is a run of its own.

    | precision        | KV tokens | weights/GPU |   the first cell names the run
    | start order      | ASR KV    | aligner KV  |   columns of two models

Such tables name no engine; the words are vLLM's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cotenant.engines.logs.line import NUMBER

ENGINE = "vllm"
HEADS = ("KV |", "KV cache |", "KV tokens |", "weights/GPU |", "Available KV |")
"""What the first line of such a table has in it."""

_MOST_ROWS = 64
_FIGURES = (
    ("kv_cache_tokens", re.compile(r"(?:GPU )?KV(?: cache)? tokens", re.IGNORECASE)),
    ("available_kv_gib", re.compile(r"(?:(?P<who>[\w .-]{1,40}?) )?KV(?: cache| pool)?", re.IGNORECASE)),
    ("weights_gib", re.compile(r"weights(?:/GPU)?", re.IGNORECASE)),
    ("activation_peak_gib", re.compile(r"(?:peak )?activations?", re.IGNORECASE)),
    ("cudagraph_gib", re.compile(r"CUDA ?graphs?", re.IGNORECASE)),
    ("gpu_blocks", re.compile(r"(?:GPU )?blocks", re.IGNORECASE)),
)
_UNIT = re.compile(r"\s*[(\[]?(GiB|GB|MiB|MB)[)\]]?$")
_CELL = re.compile(rf"[*`_~ ]*(?P<number>{NUMBER})(?: ?(?P<unit>GiB|GB|MiB|MB)\b)?")
_IN_GIB = {"GiB": 1.0, "GB": 1.0, "MiB": 2.0**-10, "MB": 2.0**-10}


@dataclass(frozen=True, slots=True)
class Row:
    """One run of a table: `label` is its first cell, `who` the model that its columns name ("" for none);
    `figures` are (name, value, text)."""

    label: str
    who: str
    figures: tuple[tuple[str, float, str], ...]


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    who: str
    unit: str


class Table:
    """The table that the lines of a log are in, if any. `read` is given line by line."""

    def __init__(self) -> None:
        self._columns: tuple[_Column | None, ...] = ()
        self._rows = 0

    def read(self, text: str) -> tuple[Row, ...] | None:
        """The runs of a row, none for a head; None for a line that is no part of such a table."""
        cells = _cells(text)
        if len(cells) < 2:
            self._columns = () if text.strip() else self._columns
            return None
        head = tuple(map(_column, cells[1:]))
        if any(head):
            self._columns, self._rows = head, 0
            return ()
        if len(cells) - 1 != len(self._columns) or self._rows >= _MOST_ROWS:
            return None
        self._rows += 1
        return self._runs(cells)

    def _runs(self, cells: list[str]) -> tuple[Row, ...]:
        found: dict[str, list[tuple[str, float, str]]] = {}
        for column, cell in zip(self._columns, cells[1:], strict=True):
            figure = None if column is None else _figure(column, cell)
            if column is not None and figure is not None:
                found.setdefault(column.who, []).append(figure)
        label = cells[0].strip("*`_ ")[:60]
        return tuple(Row(label, who, tuple(figures)) for who, figures in found.items())


def _cells(text: str) -> list[str]:
    line = text.strip()
    if not (line.startswith("|") and line.endswith("|") and len(line) < 2000):
        return []
    return [cell.strip() for cell in line[1:-1].split("|")]


def _column(cell: str) -> _Column | None:
    plain = cell.strip("*`_ ")
    unit = _UNIT.search(plain)
    words = plain[: unit.start()] if unit else plain
    for name, expression in _FIGURES:
        match = expression.fullmatch(words)
        if match is not None:
            return _Column(name, match.groupdict().get("who") or "", unit.group(1) if unit else "")
    return None


def _figure(column: _Column, cell: str) -> tuple[str, float, str] | None:
    """A size needs a unit, in its cell or in the head; a count has none."""
    match = _CELL.match(cell)
    if match is None:
        return None
    text = match["number"]
    value = float(text.replace(",", "").replace("−", "-"))
    unit = match["unit"] or column.unit
    if not column.name.endswith("_gib"):
        return None if unit else (column.name, value, text)
    return (column.name, value * _IN_GIB[unit], text) if unit else None
