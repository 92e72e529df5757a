"""How a plan that was replayed came about: a line for each plan that was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cotenant.domain.plan import Plan, PlanRound
from cotenant.report.grid import print_table, table
from cotenant.units import format_percent, format_price

if TYPE_CHECKING:
    from rich.console import Console

_NAMED = 4


def print_rounds(plan: Plan, console: Console) -> None:
    """Cost, and who missed an SLO, round by round; nothing where no plan was replayed."""
    if not plan.rounds:
        return
    console.print()
    words = "Replayed:" if len(plan.rounds) == 1 else "Replayed, tightened where an SLO broke, planned again:"
    console.print(words, style="bold")
    grid = table("round", "cards", "cost", "replays", "requests", "within the SLO", wrap="within the SLO")
    for one in plan.rounds:
        cost = format_price(one.cost_per_hour) if one.cost_per_hour is not None else "-"
        counts = str(one.replays), f"{one.requests:,}"
        grid.add_row(str(one.number), f"{one.cards:,}", cost, *counts, _attained(one))
    print_table(grid, console)


def _attained(one: PlanRound) -> str:
    if not one.missed:
        name = min(one.attainment, key=lambda name: one.attainment[name], default="")
        return f"every SLO held: {name} {format_percent(one.attainment[name], digits=1)} at the least"
    worst = sorted(one.missed, key=lambda name: one.attainment[name])
    told = [f"{name} {format_percent(one.attainment[name], digits=1)}" for name in worst[:_NAMED]]
    rest = len(worst) - _NAMED
    return "missed: " + ", ".join(told) + (f" and {rest} more" if rest > 0 else "")
