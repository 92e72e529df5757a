"""Tables and paragraphs as all reports set them: no frames, dim heads, figures to the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

INDENT = 2


def table(*columns: str, left: Sequence[str] = (), wrap: str = "", gap: int = 2) -> Table:
    """An empty table. The first column and those in `left` are set to the left, the column `wrap` may wrap;
    `gap` spaces stand between two columns."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        to_left = number == 0 or column in left or column == wrap
        grid.add_column(column, justify="left" if to_left else "right", no_wrap=column != wrap, overflow="fold")
    return grid


def pairs(facts: Iterable[tuple[str, str]]) -> Table:
    """Names and what is said of each, which wraps beside its name."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, said in facts:
        grid.add_row(name, said)
    return grid


def print_paragraph(console: Console, text: str, *, style: str = "", indent: int = INDENT) -> None:
    """`text` wrapped to the width of the console, every line indented."""
    from textwrap import wrap

    margin = " " * indent
    for line in wrap(text, max(20, console.width - indent), break_on_hyphens=False):
        console.print(margin + line, style=style)


def print_sources(console: Console, timed: Iterable[tuple[str, str]]) -> None:
    """(replica, where its step times come from): each text once, where the roofline is not the only source."""
    told: dict[str, list[str]] = {}
    for replica, source in timed:
        if ";" in source:
            told.setdefault(source, []).append(replica)
    for source, replicas in told.items():
        print_paragraph(
            console, f"{', '.join(filter(None, replicas)) or 'times'}: {source}", style="dim", indent=0
        )


def print_command(console: Console, words: Sequence[str], *, style: str = "") -> None:
    """A command whole on its line, however long: it is there to be copied."""
    import shlex

    console.print(shlex.join(words), style=style, soft_wrap=True)


def print_warnings(console: Console, warnings: Sequence[str]) -> None:
    """One line each; copied and searched for, so never cut."""
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow", soft_wrap=True)
