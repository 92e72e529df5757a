"""Paragraphs, pairs, commands and warnings as all reports set them; tables are in `grid`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cotenant.report.grid import INDENT, beside, print_lines

if TYPE_CHECKING:
    from rich.console import Console


def print_pairs(facts: Sequence[tuple[str, str]], console: Console) -> None:
    """Names and what is said of each, which wraps beside its name."""
    print_lines(((line, "") for line in beside(facts, console.width, console)), console)


def print_paragraph(console: Console, text: str, *, style: str = "", indent: int = INDENT) -> None:
    """`text` wrapped to the width of the console, every line indented; a word that is longer runs over."""
    from textwrap import wrap

    margin = " " * indent
    lines = wrap(text, max(20, console.width - indent), break_on_hyphens=False, break_long_words=False)
    print_lines(((margin + line, style) for line in lines), console)


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
    """A paragraph each."""
    for warning in warnings:
        print_paragraph(console, f"warning: {warning}", style="yellow", indent=0)
