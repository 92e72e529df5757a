"""No table cuts a value, whatever the console's width: laws over tables that are drawn by chance."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from cotenant.report.grid import Grid, print_table, table
from cotenant.report.tables import print_pairs

WORDS = st.text(st.sampled_from("abcxyz0189.,%$/~"), min_size=1, max_size=12)
CELLS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
NAMES = st.text(st.sampled_from("abc-模型"), min_size=1, max_size=63)
WIDTHS = st.integers(40, 160)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    columns = draw(st.lists(WORDS, min_size=1, max_size=9, unique=True))
    some = st.lists(st.sampled_from(columns), unique=True)
    wrap = draw(st.none() | st.sampled_from(columns[1:])) if len(columns) > 1 else None
    spare = [name for name in draw(some) if name not in (columns[0], wrap)]
    found = table(*columns, left=draw(some), wrap=wrap, spare=spare)
    for _ in range(draw(st.integers(1, 4))):
        found.add_row(draw(NAMES), *(draw(CELLS) for _ in columns[1:]))
    return found


def printed(grid: Grid, width: int) -> list[str]:
    out = io.StringIO()
    print_table(grid, Console(file=out, width=width, highlight=False, emoji=False, markup=False))
    return out.getvalue().splitlines()


@settings(max_examples=60)
@given(grids(), WIDTHS)
def test_every_cell_is_whole_and_no_line_runs_over(grid: Grid, width: int) -> None:
    lines = printed(grid, width)
    assert all(cell_len(line) <= width and line == line.rstrip() for line in lines)
    text = " ".join(lines).split()
    told = "".join(text)
    for cells, _ in grid.rows:
        assert all(part in told for part in cells[0].split())
        for place, cell in enumerate(cells[1:], 1):
            if place not in grid.spare:
                assert all(word in text for word in cell.split())


def test_a_table_takes_the_best_form_that_the_width_allows() -> None:
    grid = table("model", "requests", "TTFT", "extra", spare=("extra",))
    grid.add_row("a-long-name", "1,234", "25.2 ms", "1.00")
    assert printed(grid, 40) == [
        "model        requests     TTFT  extra",
        "a-long-name     1,234  25.2 ms   1.00",
    ]
    assert printed(grid, 34) == ["model        requests     TTFT", "a-long-name     1,234  25.2 ms"]
    assert printed(grid, 28) == ["model       requests    TTFT", "a-long-name    1,234 25.2 ms"]
    assert printed(grid, 27) == [
        "model",
        "  requests     TTFT  extra",
        "a-long-name",
        "     1,234  25.2 ms   1.00",
    ]
    assert printed(grid, 14) == [
        "a-long-name",
        "  requests",
        "    1,234",
        "  TTFT",
        "    25.2 ms",
        "  extra",
        "    1.00",
    ]


@given(st.lists(st.tuples(WORDS, CELLS), min_size=1), WIDTHS)
def test_pairs_lose_nothing(facts: list[tuple[str, str]], width: int) -> None:
    out = io.StringIO()
    print_pairs(facts, Console(file=out, width=width, highlight=False, emoji=False, markup=False))
    assert all(len(line) <= width for line in out.getvalue().splitlines())
    assert out.getvalue().split() == [word for name, said in facts for word in (name, *said.split())]
