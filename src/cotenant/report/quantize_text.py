"""The decision matrix: every format, best first, with what runs it, what it costs and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cotenant.domain.matrix import PrecisionMatrix
from cotenant.domain.quantization import Advice, PrecisionChoice, QualityFigure
from cotenant.report.grid import Grid, print_table, table
from cotenant.report.tables import print_paragraph, print_warnings
from cotenant.units import format_gib

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {Advice.USE: "bold green", Advice.POSSIBLE: "yellow", Advice.REFUSED: "dim"}
_REFERENCES = ("bf16", "fp16")  # what losses are measured against
_WIDE = 140  # columns from which the checkpoint stands in the table


def print_matrix(matrix: PrecisionMatrix, console: Console) -> None:
    """Write the whole answer."""
    choices, sizes = matrix.choices, matrix.bytes_by_format
    title = (
        f"{matrix.model} on {matrix.gpu}, {matrix.engine} {matrix.engine_version}".rstrip()
        + f", for {matrix.task}: at most {matrix.max_loss_percent:g}% may be lost"
    )
    print_paragraph(console, title, style="bold", indent=0)
    console.print()
    print_table(_matrix(choices, sizes, console.width), console)
    console.print()
    for choice in choices:
        if choice.advice is not Advice.REFUSED:
            text = f"{choice.format}: {_because(choice, console.width)}"
            print_paragraph(console, text, style=_STYLES[choice.advice], indent=0)
    _print_refusals(choices, console)
    _print_figures(choices, console)
    print_warnings(console, [choice.warning for choice in choices if choice.warning])


def _matrix(choices: Sequence[PrecisionChoice], sizes: Mapping[str, int], width: int) -> Grid:
    """The formats that may run; the checkpoint, for which few consoles have room, stands in the sentences else."""
    wide = width >= _WIDE
    columns = ["format", "verdict", "weights", "kernel", "speed", "loss"] + (["checkpoint"] if wide else [])
    rows = table(*columns, left=("verdict", "kernel", "speed", "checkpoint"), wrap="kernel")
    for choice in choices:
        if choice.advice is Advice.REFUSED:
            continue
        size = sizes.get(choice.format)
        cells = [choice.format, str(choice.advice), format_gib(size) if size is not None else "-"]
        cells += [choice.kernel.kernel if choice.kernel else "-", _speed(choice), _loss(choice)]
        rows.add_row(*cells, *([_checkpoint(choice)] if wide else []), style=_STYLES[choice.advice])
    return rows


def _because(choice: PrecisionChoice, width: int) -> str:
    """The reason, with the checkpoint where the table has no room for it."""
    held = _checkpoint(choice)
    return choice.reason if width >= _WIDE or held == "-" else f"{choice.reason}; {held}"


def _speed(choice: PrecisionChoice) -> str:
    if choice.kernel is None:
        return "-"
    return "memory only" if choice.memory_only else str(choice.kernel.speed)


def _loss(choice: PrecisionChoice) -> str:
    """The deciding loss; one that is only shown stands in brackets."""
    figure = choice.quality
    if figure is None or figure.loss_percent is None:
        return "-" if choice.format in _REFERENCES else "?"
    loss = f"{figure.loss_percent:g}%"
    return loss if choice.quality_known else f"({loss})"


def _checkpoint(choice: PrecisionChoice) -> str:
    if choice.checkpoint:
        return choice.checkpoint
    return "made while loading" if choice.online else "-"


def _print_refusals(choices: Sequence[PrecisionChoice], console: Console) -> None:
    """Formats that were refused for the same reason share a line."""
    reasons: dict[str, list[str]] = {}
    for choice in choices:
        if choice.advice is Advice.REFUSED:
            reasons.setdefault(choice.reason, []).append(choice.format)
    if reasons:
        console.print()
        print_paragraph(console, "Refused:", style="bold", indent=0)
    for reason, names in reasons.items():
        print_paragraph(console, f"{', '.join(names)}: {reason}", style="dim")


def _print_figures(choices: Sequence[PrecisionChoice], console: Console) -> None:
    """Where the figures come from: metric, model and source, which are never compared with each other."""
    shown = [choice for choice in choices if choice.quality is not None and choice.advice is not Advice.REFUSED]
    if not shown:
        return
    console.print()
    print_paragraph(console, "Published losses; those in brackets are only shown, not compared:", indent=0)
    for choice in shown:
        if choice.quality is not None:
            print_paragraph(console, f"{choice.format}: {_cited(choice.quality)}", style="dim")


def _cited(figure: QualityFigure) -> str:
    return f"{figure.loss_percent:g}% on {figure.metric}, {figure.model} ({figure.task}); {figure.source}"
