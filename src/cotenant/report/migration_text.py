"""The way from the plan that runs to the next one: what stays, what changes, the steps in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cotenant.domain.migration import Migration, MigrationStep
from cotenant.report.tables import print_paragraph
from cotenant.units import format_gib, format_price, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

_WORDS = ("kept", "restarted", "moved", "started", "stopped")


def print_migration(migration: Migration, cost: float | None, console: Console) -> None:
    """One sentence, then a line a step."""
    console.print()
    told = [f"{word} {', '.join(names)}" for word in _WORDS if (names := getattr(migration, word))]
    before = migration.previous_cost
    price = f", {format_price(before)} -> {format_price(cost)}" if before is not None and cost is not None else ""
    console.print(f"From the plan that runs{price}:", style="bold")
    print_paragraph(console, "; ".join(told) or "nothing to do")
    for number, step in enumerate(migration.steps):
        print_paragraph(console, f"{number + 1}. {_step(step)}")
    if migration.downtimes:
        print_paragraph(console, f"answers less meanwhile: {', '.join(migration.downtimes)}", style="yellow")


def _step(step: MigrationStep) -> str:
    cards = ", ".join(device.label for device in step.devices)
    if step.action == "start":
        return (
            f"start {step.replica} on {cards}: {format_gib(step.needed_bytes)} free a card while it loads, "
            f"~{format_seconds(step.seconds)} to its first answer"
        )
    words = f"stop {step.replica} on {cards}: {format_gib(step.freed_bytes)} a card come free"
    return f"{words} (before its successor starts)" if step.downtime else words
