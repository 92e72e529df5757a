"""docs/accuracy.md: the table of figures, and every row that is still wrong with its reason.

Reasons stand in `accuracy_reasons.json` by record id: the engine's mechanism, or what the record does not say.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_REASONS = Path(__file__).with_name("accuracy_reasons.json")
_FRESH = Path(__file__).with_name("accuracy_fresh.json")
_ACCOUNT = Path(__file__).with_name("accuracy_account.md")
_LINE = 115
_APART = "kept apart: not looked into"
_OPEN = "not explained yet"
_NAMES = {"kv": "KV bytes", "weights": "weights", "pool": "pool", "outcome": "outcome", "compute": "compute"}
# Beyond these shares a row counts as wrong here: the reaches of the metrics.
_LIMITS = {"kv": 0.01, "weights": 0.02, "pool": 0.04, "outcome": 0.0, "llama kv": 0.002, "compute": 0.15}

_HEAD = """# Accuracy

How near the estimates come to what engines printed, over public logs and reports. This page is written by
`python -m bench.accuracy --gpu-records FILE --llama-records FILE --configs DIR --write docs/accuracy.md`; the
records are not part of the repository. Ids, eligibility and denominators: a refusal counts as wrong, `uncertain`
counts half in false_oom only, a pool's error is a share of the card's capacity. Input fields alone make the
estimate; a record without a version is answered for every version that prints its fields. Where a post does not
show its flags, the interval also holds what the batch may have been (16,384 tokens and 1,024 sequences, 2,048 and
64), and a context that it does not tell may have been cut to 32,768. A random fifth of the rows (by id) was kept
apart while rules were written, and is shown beside the rest.
"""


@dataclass(frozen=True, slots=True)
class WrongRow:
    """One row beyond a metric's reach. `error` None: no answer was given, and `why` is the refusal."""

    id: str
    engine: str
    model: str
    metric: str
    error: float | None
    held_out: bool
    why: str = ""

    @property
    def printed(self) -> str:
        """The error as the page shows it."""
        if self.error is None:
            return "refused"
        if self.metric == "outcome":
            return "uncertain" if self.error == 0.5 else "the opposite"
        return f"{self.error:+.1%}"


def is_wrong(metric: str, error: float | None) -> bool:
    """Whether an error of that metric is beyond its reach."""
    return error is None or abs(error) > _LIMITS[metric]


def page(parts: Mapping[str, Sequence[Mapping[str, Any]]], wrong: Iterable[WrongRow]) -> str:
    """The whole page: a table for each part, what falls short and was tried, then the rows that are wrong."""
    tables = (f"## {_capital(title)}\n\n{_table(entries)}" for title, entries in parts.items())
    account = _ACCOUNT.read_text(encoding="utf-8")
    return "\n".join((_HEAD, *tables, account, fresh_logs(), _rows(list(wrong))))


def fresh_logs() -> str:
    """How the rules did at first sight on logs that they were not written from, and once mended: a table for each
    time that such logs were gathered."""
    rounds: list[dict[str, Any]] = json.loads(_FRESH.read_text(encoding="utf-8"))
    return "\n".join(("## Fresh logs\n", *map(_fresh_round, rounds)))


def _fresh_round(fresh: Mapping[str, Any]) -> str:
    lines = [
        f"{textwrap.fill(fresh['what'], _LINE)}\n",
        f"| id | {' | '.join(fresh['columns'])} |",
        f"|---|{'---:|' * len(fresh['columns'])}",
        *(f"| {metric} | {' | '.join(cells)} |" for metric, cells in fresh["figures"].items()),
    ]
    return "\n".join((*lines, "", textwrap.fill(fresh["still"], _LINE), ""))


def _capital(title: str) -> str:
    """A heading; an engine's own spelling is kept."""
    return f"All{title[3:]}" if title.startswith("all") else title


def _table(entries: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| id | value | reach | holds | eligible | answered |", "|---|---:|---:|---|---:|---:|"]
    for entry in entries:
        if not entry["eligible"]:
            continue
        held = {True: "yes", False: "no", None: "-"}[entry["holds"]]
        lines.append(
            f"| {entry['id']} | {_figure(entry)} | {_reach(entry)} | {held} "
            f"| {entry['eligible']} | {entry['answered']} |"
        )
    return "\n".join(lines) + "\n"


def _figure(entry: Mapping[str, Any]) -> str:
    value = entry["value"]
    if value is None:
        return "-"
    return f"{value:.0f}" if entry["unit"] == "rows" else f"{value:.1%}"


def _reach(entry: Mapping[str, Any]) -> str:
    return f"{entry['reach']:.0f}" if entry["unit"] == "rows" else f"{entry['reach']:.1%}"


def _rows(wrong: list[WrongRow]) -> str:
    lines = [
        "## Rows that are still wrong\n",
        "| row | engine | model | metric | error | reason |",
        "|---|---|---|---|---:|---|",
    ]
    for row in wrong:
        name = _NAMES.get(row.metric.removeprefix("llama "), row.metric)
        lines.append(f"| {row.id} | {row.engine} | {row.model} | {name} | {row.printed} | {_reason(row)} |")
    return "\n".join(lines) + "\n"


def _reason(row: WrongRow) -> str:
    """By metric where the row has several reasons."""
    if row.held_out:
        return _APART
    told = _reasons().get(row.id, "")
    if isinstance(told, dict):
        told = told.get(row.metric, told.get("", ""))
    return told or row.why.replace("|", "/") or _OPEN


@lru_cache(maxsize=1)
def _reasons() -> Mapping[str, Any]:
    reasons: Mapping[str, Any] = json.loads(_REASONS.read_text(encoding="utf-8"))
    return reasons
