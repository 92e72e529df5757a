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
from cotenant.report.page import notes, page, section
from cotenant.report.page import table as html_table
from cotenant.report.plots import Axis, Series, area_plot, line_plot, plain
from cotenant.report.tables import print_paragraph, print_warnings
from cotenant.units import format_percent, format_price, plural

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 28
_WORD = 20  # a column that wraps may be as narrow: longer names would be cut


def print_what_if(sweep: Sweep, points: Sequence[WhatIfPoint], console: Console) -> None:
    """A line and a bar for each factor, to scale, what becomes of promises, and why some have no room."""
    most = max((one.value for one in points if one.value is not None), default=0.0)
    promised = any(one.promised for one in points)
    heads = (f"{sweep.name} x", "cost", "", "GPUs", *(("SLO",) if promised else ()))
    long = any(len(word) > _WORD for one in points for word in promise_words(one).split())
    grid = table(*heads, left=("", "GPUs", "SLO"), wrap="GPUs" if long else heads[-1], spare=(2,))
    for one in points:
        grid.add_row(
            f"{one.factor:.3g}", _cost(one), _bar(one.value, most), _cards(one),
            *((promise_words(one),) if promised else ()), style="bold" if one.factor == 1 else "",
        )  # fmt: skip
    print_table(grid, console)
    reasons: dict[str, list[str]] = {}
    for one in points:
        if one.lacks:
            reasons.setdefault(one.lacks, []).append(f"{one.factor:.3g}")
    for reason, factors in reasons.items():
        print_paragraph(console, f"No room at {', '.join(factors)}: {reason}.", indent=0)
    print_warnings(console, _warnings(points))


def promise_words(one: WhatIfPoint) -> str:
    """What becomes of the SLOs: as replayed, else as estimated."""
    if not one.feasible or not one.promised:
        return "-"
    if one.attainment is not None:
        least = min(one.attainment.values(), default=1.0)
        told = (f"{name} {format_percent(one.attainment[name], digits=1)}" for name in one.missed)
        return (
            f"missed: {', '.join(told)}" if one.missed else f"held, {format_percent(least, digits=1)} at the least"
        )
    risky = [name for name in one.at_risk if name not in one.strained]
    words = [f"breaks beside busy neighbours: {', '.join(one.strained)}"] if one.strained else []
    words += [f"may not hold: {', '.join(risky)}"] if risky else []
    return "; ".join(words) or "held by estimate"


def _warnings(points: Sequence[WhatIfPoint]) -> list[str]:
    """With their figures, at the first factor at which each model comes into question; those of others are in the
    JSON."""
    found: dict[tuple[str, str], str] = {}
    for one in points:
        for text in one.warnings:
            name = text.split(" ", 1)[0].rstrip(":")
            kind = "beside" if " at their peak: " in text else text.partition(" is ")[0]
            found.setdefault((name, kind), f"at {one.factor:.3g}, {text}")
    return list(found.values())


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
    """One page: the cost with its bound, the cards by type, promises where they were replayed, the figures."""
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
    rows = [[f"{one.factor:.3g}", _cost(one), _cards(one), promise_words(one)] for one in points]
    plots = [line_plot("Cost", lines, across, value), area_plot("Cards by type", layers, across, Axis("cards"))]
    reasons = dict.fromkeys(f"no room at {one.factor:.3g}: {one.lacks}" for one in points if one.lacks)
    body = [
        f"<h1>{escape(title)}</h1>",
        section("Cost and cards", [*plots, *_promises_plot(points, across)]),
        html_table((f"{sweep.name} x", "cost", "GPUs", "SLO"), rows, left=(0, 2, 3)),
        notes([*reasons, *_warnings(points)]),
    ]
    return page(title, body)


def _promises_plot(points: Sequence[WhatIfPoint], across: Axis) -> list[str]:
    """What share of each model's requests kept its SLO, where plans were replayed."""
    replayed = [(one.factor, one.attainment) for one in points if one.attainment is not None]
    if not replayed:
        return []
    lines = [
        Series(name, [(factor, shares[name]) for factor, shares in replayed if name in shares], number)
        for number, name in enumerate(dict.fromkeys(name for _, shares in replayed for name in shares))
    ]
    return [line_plot("Requests within their SLO", lines, across, Axis("share", format_percent))]
