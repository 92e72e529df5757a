"""Tables as all reports set them: no frames, dim heads, figures to the right.

A table never cuts a value. Where it is wider than the console it leaves its spare columns out, takes its short
heads, stands closer, puts each row's name on a line of its own, and at last sets every row as a list of its cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

INDENT = 2
_GAP = 2
_LEAST = 20  # columns that a column that wraps needs to be readable

Line = tuple[str, str]
"""What is printed, and its style."""


@dataclass(slots=True)
class Grid:
    """A table before its width is known. Columns are numbered from 0; those in `spare` may be left out, the first
    of them first."""

    heads: tuple[str, ...]
    left: frozenset[int]
    wrap: int | None = None
    spare: tuple[int, ...] = ()
    short: Mapping[str, str] = field(default_factory=dict)
    rows: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    def add_row(self, *cells: str, style: str = "") -> None:
        """A cell for each column; a row whose first cell is empty goes on with the one above."""
        self.rows.append((tuple(cell.replace("\n", " ") for cell in cells), style))


def table(
    *columns: str,
    left: Sequence[str] = (),
    wrap: str | None = None,
    spare: Sequence[str | int] = (),
    short: Mapping[str, str] | None = None,
) -> Grid:
    """An empty table. The first column and those in `left` are set to the left, the column `wrap` may wrap.

    Where there is no room, heads are those of `short`, and columns of `spare` (by name, or by number where they
    have none) are left out one after the other.
    """
    wide = None if wrap is None else columns.index(wrap)
    to_left = {place for place, name in enumerate(columns) if name in left} | {0}
    places = tuple(
        place if isinstance(place, int) else columns.index(place)
        for place in spare
        if isinstance(place, int) or place in columns
    )
    return Grid(columns, frozenset(to_left if wide is None else to_left | {wide}), wide, places, short or {})


def print_table(grid: Grid, console: Console) -> None:
    """The table in the form that the console has room for, without blanks at the ends of its lines."""
    print_lines(_set(grid, console), console)


def print_lines(lines: Iterable[Line], console: Console) -> None:
    """Lines that are as wide as they shall be."""
    from rich.text import Text

    for line, style in lines:
        console.print(Text(line.rstrip(), style=style), soft_wrap=True)


def _set(grid: Grid, console: Console) -> list[Line]:
    shown, heads = list(range(len(grid.heads))), grid.heads
    shorter = tuple(grid.short.get(head, head) for head in heads)
    fewer = [[place for place in shown if place not in grid.spare[:count]] for count in range(len(grid.spare) + 1)]
    least = fewer[-1]
    attempts = [*((places, heads, _GAP) for places in fewer), (least, shorter, _GAP), (least, shorter, 1)]
    for places, names, gap in attempts:
        sizes = _sizes(grid, places, names, gap, console.width)
        if sizes is not None:
            return list(_flat(grid, places, names, sizes, gap, console))
    for places, names, gap in attempts:
        sizes = _sizes(grid, places[1:], names, gap, console.width - INDENT)
        if sizes is not None:
            return list(_hung(grid, places[1:], names, sizes, gap, console))
    return list(_listed(grid, shown, heads, console))


def _sizes(grid: Grid, places: Sequence[int], heads: Sequence[str], gap: int, width: int) -> list[int] | None:
    """The columns' widths; None where they have no room."""
    from rich.cells import cell_len

    sizes = [max(map(cell_len, (heads[place], *(row[place] for row, _ in grid.rows)))) for place in places]
    over = sum(sizes) + gap * (len(sizes) - 1) - width
    if over > 0 and grid.wrap in places:
        wide = places.index(grid.wrap)
        if sizes[wide] - over >= min(sizes[wide], _LEAST):
            sizes[wide] -= over
            over = 0
    return sizes if over <= 0 else None


def _flat(
    grid: Grid, places: Sequence[int], heads: Sequence[str], sizes: Sequence[int], gap: int, console: Console
) -> Iterator[Line]:
    """A line a row, more where a cell wraps."""
    for cells, style in ((tuple(heads), "dim"), *grid.rows):
        parts = [
            wrapped(cells[place], size, console) if place == grid.wrap else [cells[place]]
            for place, size in zip(places, sizes, strict=True)
        ]
        for number in range(max(map(len, parts))):
            set_cells = (
                _padded(part[number] if number < len(part) else "", size, to_left=place in grid.left)
                for part, size, place in zip(parts, sizes, places, strict=True)
            )
            yield (" " * gap).join(set_cells), style


def _hung(
    grid: Grid, places: Sequence[int], heads: Sequence[str], sizes: Sequence[int], gap: int, console: Console
) -> Iterator[Line]:
    """Each row's name on a line of its own, what is said of it below, in columns."""
    lines = list(_flat(Grid(grid.heads, grid.left, grid.wrap), places, heads, sizes, gap, console))
    yield heads[0], "dim"
    yield from ((" " * INDENT + line, style) for line, style in lines)
    for cells, style in grid.rows:
        one = Grid(grid.heads, grid.left, grid.wrap, rows=[(cells, style)])
        yield from ((line, style) for line in (wrapped(cells[0], console.width, console) if cells[0] else ()))
        below = list(_flat(one, places, heads, sizes, gap, console))[1:]
        yield from ((" " * INDENT + line, style) for line, _ in below)


def _listed(grid: Grid, places: Sequence[int], heads: Sequence[str], console: Console) -> Iterator[Line]:
    """Each row as its name and a list: head, cell."""
    for cells, style in grid.rows:
        yield from ((line, style) for line in (wrapped(cells[0], console.width, console) if cells[0] else ()))
        facts = [(heads[place], cells[place]) for place in places[1:] if cells[place].strip()]
        yield from ((" " * INDENT + line, style) for line in beside(facts, console.width - INDENT, console))


def _padded(cell: str, size: int, *, to_left: bool) -> str:
    from rich.cells import cell_len

    blanks = " " * max(0, size - cell_len(cell))
    return cell + blanks if to_left else blanks + cell


def wrapped(text: str, width: int, console: Console) -> list[str]:
    """`text` in lines of at most `width` cells; words that are longer are folded. Its own line ends stay."""
    from rich.text import Text

    found = Text(text).wrap(console, max(1, width), overflow="fold", no_wrap=False)
    return [line.plain.rstrip() for line in found] or [""]


def beside(facts: Sequence[tuple[str, str]], width: int, console: Console) -> Iterator[str]:
    """Names and what is said of each beside them; below them where there is little room."""
    from rich.cells import cell_len

    margin = max((cell_len(name) for name, _ in facts), default=0) + _GAP
    for name, said in facts:
        if width - margin < _LEAST:
            yield from (name, *(" " * INDENT + line for line in wrapped(said, width - INDENT, console)))
            continue
        for number, line in enumerate(wrapped(said, width - margin, console)):
            yield _padded("" if number else name, margin, to_left=True) + line
