"""Rows of a benchmark: a value beside what it must reach, and one function that says whether it does."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_REACH = re.compile(r"(<=|>=|==|<|>)\s*(-?[0-9.]+)")
Measuring = Callable[[], float | tuple[float, Mapping[str, object]]]

_FOLDERS = ("shared", "vidur", "distserve", "aegaeon", "melange", "muxserve")


class CannotRunError(Exception):
    """This row cannot be measured here and now; the message says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure. `reach` is a comparison such as ``<= 0.5`` (empty: nothing is asked of it); `value` is
    None where it could not be measured, and `reason` then says why."""

    id: str
    value: float | bool | None
    unit: str
    reach: str
    reason: str = ""
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def holds(self) -> bool | None:
        """Whether `value` reaches; None without a value or a reach."""
        return holds(self.value, self.reach)

    def document(self) -> dict[str, object]:
        """The row as JSON."""
        return {
            "id": self.id,
            "value": self.value,
            "unit": self.unit,
            "reach": self.reach,
            "holds": self.holds,
            "reason": self.reason,
            **self.details,
        }


def holds(value: float | None, reach: str) -> bool | None:
    """Compare `value` with `reach`; the only place where a benchmark decides whether it passed."""
    if value is None or not reach:
        return None
    match = _REACH.fullmatch(reach.strip())
    if match is None:
        raise ValueError(f"{reach!r} is not a comparison such as '<= 0.5'")
    sign, bound = match.group(1), float(match.group(2))
    return {
        "<=": value <= bound,
        ">=": value >= bound,
        "<": value < bound,
        ">": value > bound,
        "==": value == bound,
    }[sign]


def measured(name: str, unit: str, reach: str, measure: Measuring) -> Row:
    """Run `measure` (a value, or a value and details). A failure becomes a row without a value, never an abort."""
    try:
        found = measure()
    except Exception as error:  # whatever it was, the row stays in the list with the reason
        reason = str(error) if isinstance(error, CannotRunError) else f"{type(error).__name__}: {error}"
        return Row(name, None, unit, reach, reason.splitlines()[0] if reason else type(error).__name__)
    value, details = found if isinstance(found, tuple) else (found, {})
    return Row(name, value, unit, reach, details=details)


def some(asked: Iterable[tuple[str, str, str, Measuring]], only: Sequence[str] = ()) -> list[Row]:
    """The rows measured, in their order; with `only` those of them."""
    return [measured(*one) for one in asked if not only or one[0] in only]


def arguments(
    description: str, argv: Sequence[str] | None = None, *, some_rows: bool = False
) -> argparse.Namespace:
    """`--json`, the folders of data and third-party programs that benchmarks may be given, and where a benchmark
    knows how, `--only` some of its rows."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="a list of rows instead of a table")
    for name in _FOLDERS:
        parser.add_argument(f"--{name}", metavar="DIR", type=Path, default=None)
    if some_rows:
        parser.add_argument("--only", metavar="ID,ID", type=lambda text: text.split(","), default=[])
    return parser.parse_args(argv)


def show(rows: Iterable[Row], *, as_json: bool) -> int:
    """Print the rows; the exit status is 0 unless a row does not hold."""
    listed = list(rows)
    if as_json:
        json.dump([row.document() for row in listed], sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(text(listed))
    return int(any(row.holds is False for row in listed))


def text(rows: Sequence[Row]) -> str:
    """Rows as aligned columns."""
    cells = [("id", "value", "unit", "reach", "holds", "")]
    verdict = {True: "yes", False: "NO", None: "-"}
    for row in rows:
        notes = row.reason or ", ".join(f"{key} {value}" for key, value in row.details.items())
        cells.append((row.id, _number(row.value), row.unit, row.reach or "-", verdict[row.holds], notes))
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = ("  ".join([*map(str.ljust, line[:5], widths), line[5]]).rstrip() for line in cells)
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    if value is None or isinstance(value, bool):
        return "-" if value is None else str(value).lower()
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
