"""A fleet asked again with more or less of something: bars on a terminal, JSON, and a page with plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from cotenant.domain.what_if import Sweep, WhatIfPoint
from cotenant.report.document import Document, header
from cotenant.report.grid import print_table, table
from cotenant.report.page import page, section
from cotenant.report.page import table as html_table
from cotenant.report.plots import Axis, Series, area_plot, line_plot, plain
from cotenant.report.tables import print_paragraph
from cotenant.units import format_price, plural

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 28


def print_what_if(sweep: Sweep, points: Sequence[WhatIfPoint], console: Console) -> None:
    """A line and a bar for each factor, to scale, and why some have no room."""
    most = max((one.value for one in points if one.value is not None), default=0.0)
    grid = table(f"{sweep.name} x", "cost", "", "GPUs", left=("", "GPUs"), wrap="GPUs", spare=(2,))
    for one in points:
        grid.add_row(
            f"{one.factor:.3g}", _cost(one), _bar(one.value, most), _cards(one),
            style="bold" if one.factor == 1 else "",
        )  # fmt: skip
    print_table(grid, console)
    reasons: dict[str, list[str]] = {}
    for one in points:
        if one.lacks:
            reasons.setdefault(one.lacks, []).append(f"{one.factor:.3g}")
    for reason, factors in reasons.items():
        print_paragraph(console, f"No room at {', '.join(factors)}: {reason}.", indent=0)


def _bar(value: float | None, most: float) -> str:
    if value is None or most <= 0:
        return ""
    return "█" * max(1, round(value / most * _BAR))


def _cost(one: WhatIfPoint) -> str:
    if not one.feasible:
        return "no room"
    if one.cost_per_hour is not None:
        return format_price(one.cost_per_hour)
    return plural(round(one.value or 0), "card")


def _cards(one: WhatIfPoint) -> str:
    return " + ".join(f"{count} x {name}" for name, count in one.cards.items())


def what_if_document(
    sweep: Sweep, points: Sequence[WhatIfPoint], *, catalogue: str, input_hash: str = ""
) -> Document:
    """`cotenant/what-if/1`: `points[]` by factor."""
    return {
        **header("what-if", catalogue=catalogue, input_hash=input_hash),
        "what": sweep.what,
        "target": sweep.target,
        "points": [asdict(one) for one in points],
    }


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Each value from half way to its neighbours, in ratio: plans change at once, not little by little."""
    ends = [(one[0] * other[0]) ** 0.5 for one, other in pairwise(points)]
    lefts = [points[0][0], *ends] if points else []
    rights = [*ends, points[-1][0]] if points else []
    return [
        (at, value) for left, right, (_, value) in zip(lefts, rights, points, strict=True) for at in (left, right)
    ]


def what_if_html(sweep: Sweep, points: Sequence[WhatIfPoint], *, title: str) -> str:
    """One page: the cost with its bound, the cards by type, the figures."""
    across = Axis(f"{sweep.name} x", lambda factor: f"{factor:g}", log=True)
    found = [one for one in points if one.value is not None]
    priced = any(one.cost_per_hour is not None for one in found)
    value = Axis("$/h" if priced else "cards", plain)
    lines = [
        Series("cost" if priced else "cards", _steps([(one.factor, one.value or 0.0) for one in found]), 0),
        Series(
            "lower bound",
            _steps([(one.factor, one.lower_bound) for one in found if one.lower_bound is not None]),
            1,
        ),
    ]
    types = list(dict.fromkeys(name for one in found for name in one.cards))
    layers = [
        Series(name, _steps([(one.factor, float(one.cards.get(name, 0))) for one in found]), number)
        for number, name in enumerate(types)
    ]
    rows = [[f"{one.factor:.3g}", _cost(one), _cards(one)] for one in points]
    plots = [line_plot("Cost", lines, across, value), area_plot("Cards by type", layers, across, Axis("cards"))]
    body = [
        f"<h1>{escape(title)}</h1>",
        section("Cost and cards", plots),
        html_table((f"{sweep.name} x", "cost", "GPUs"), rows, left=(0, 2)),
    ]
    return page(title, body)
