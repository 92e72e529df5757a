"""Ways to place one fleet side by side, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.domain.contender import Contender
from cotenant.report.document import Document, header
from cotenant.report.grid import print_table, table
from cotenant.report.tables import print_paragraph
from cotenant.units import format_percent, format_price

if TYPE_CHECKING:
    from rich.console import Console

_MOST_NAMED = 3


def print_contenders(found: Sequence[Contender], console: Console) -> None:
    """A line each; what could not be placed, kept or replayed stands below."""
    cheapest = min((one.cost_per_hour for one in found if one.cost_per_hour), default=None)
    grid = table("plan", "GPUs", "cost", "", "headroom", "attained", "SLO", left=("GPUs", "SLO"))
    for one in found:
        ratio = one.cost_per_hour / cheapest if one.cost_per_hour and cheapest else None
        grid.add_row(
            one.strategy, " + ".join(f"{count} x {name}" for name, count in one.cards.items()),
            format_price(one.cost_per_hour) if one.cost_per_hour is not None else "-",
            f"{ratio:.1f}x" if ratio is not None else "",
            format_percent(one.headroom, digits=1) if one.headroom is not None else "-",
            _least(one), _verdict(one),
        )  # fmt: skip
    print_table(grid, console)
    for one in found:
        for text in _notes(one):
            print_paragraph(console, f"{one.strategy}: {text}", style="dim")


def _least(one: Contender) -> str:
    """The attainment of the model that fares worst."""
    return format_percent(min(one.attainment.values()), digits=1) if one.attainment else "-"


def _verdict(one: Contender) -> str:
    if one.unplaced:
        return f"no place for {_named(one.unplaced)}"
    if one.attainment is None:
        return "?"
    if not one.promised:
        return "none to hold"
    return f"missed by {len(one.missed)} of {len(one.attainment)}" if one.missed else "held"


def _notes(one: Contender) -> list[str]:
    notes = [one.note] if one.note else []
    if one.missed and one.attainment is not None:
        told = (f"{name} {format_percent(one.attainment[name], digits=1)}" for name in one.missed)
        notes.append(f"within their SLO: {', '.join(told)}")
    return notes


def _named(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def contenders_document(found: Sequence[Contender], *, catalogue: str, input_hash: str) -> Document:
    """`cotenant/plan-comparison/1`: `strategies[]`; shares 0..1, costs in dollars an hour."""
    return {
        **header("plan-comparison", catalogue=catalogue, input_hash=input_hash),
        "strategies": [
            {
                "strategy": one.strategy,
                "cards": one.count,
                "gpus": dict(one.cards),
                "cost_per_hour": one.cost_per_hour,
                "lower_bound": one.lower_bound,
                "headroom": one.headroom,
                "attainment": None if one.attainment is None else dict(one.attainment),
                "missed": list(one.missed),
                "unplaced": list(one.unplaced),
                "note": one.note,
            }
            for one in found
        ],
    }
