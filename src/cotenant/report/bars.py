"""Bars to scale, in characters: every GPU as one line of cells.

The fill says which term a cell is, the colour which replica, so that nothing is said by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cotenant.units import format_gib

if TYPE_CHECKING:
    from rich.text import Text

FILLS = {"weights": "█", "kv_cache": "▓", "activations": "▒", "runtime": "░", "used": "╳", "headroom": "·"}
COLOURS = ("bright_blue", "bright_magenta", "bright_cyan", "bright_yellow", "bright_green", "bright_red")


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a bar: whose it is (an index for the colour, -1 for nobody), which term, how many bytes."""

    owner: int
    term: str
    bytes: int


def cells(sizes: Sequence[int], width: int) -> list[int]:
    """Whole cells for each size, `width` in all, by largest remainder: no part is off by a whole cell."""
    whole = sum(sizes)
    if whole <= 0:
        return [0] * len(sizes)
    exact = [size * width / whole for size in sizes]
    given = [int(share) for share in exact]
    order = sorted(range(len(sizes)), key=lambda part: (given[part] - exact[part], part))
    for part in order[: width - sum(given)]:
        given[part] += 1
    return given


def bar(segments: Sequence[Segment], width: int, fills: Mapping[str, str] = FILLS) -> Text:
    """The line itself. What overflows the card must be left out by the caller: sizes are >= 0."""
    from rich.text import Text

    line = Text()
    for segment, count in zip(segments, cells([max(0, one.bytes) for one in segments], width), strict=True):
        line.append(fills[segment.term] * count, style=colour(segment.owner))
    return line


def captions(parts: Sequence[tuple[str, int, int]], width: int) -> Text:
    """A line of names above a bar, each cut to the cells of its part: (name, owner, bytes)."""
    from rich.text import Text

    line = Text()
    for (name, owner, _), count in zip(parts, cells([size for _, _, size in parts], width), strict=True):
        line.append(shortened(name, count - 1).ljust(count), style=colour(owner))
    line.rstrip()
    return line


def shortened(name: str, width: int) -> str:
    """`name` in at most `width` characters, its middle cut out: beginnings and ends tell names apart."""
    if len(name) <= width:
        return name
    if width < 3:
        return "…"[: max(0, width)]
    head = (width - 1) // 2
    return f"{name[:head]}…{name[len(name) - (width - 1 - head) :]}"


def colour(owner: int) -> str:
    """The colour of a replica; dim for what belongs to nobody."""
    return COLOURS[owner % len(COLOURS)] if owner >= 0 else "dim"


def legend(width_bytes: int | None, *, used: bool = False) -> str:
    """What the fills mean and how much one cell is (None: bars of several scales, each with its own word)."""
    parts = [
        f"{fill} {term.replace('_', ' ').replace('kv', 'KV')}"
        for term, fill in FILLS.items()
        if used or term != "used"
    ]
    return "  ".join(parts) + (f"   {cell_words(width_bytes)}" if width_bytes is not None else "")


def cell_words(width_bytes: int) -> str:
    """How much one cell is."""
    return f"1 cell = {format_gib(width_bytes)}"
