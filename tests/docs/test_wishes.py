"""docs/wishes.md: every wish answered, every answer leads to a page that exists."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "wishes.md"


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_wish_is_answered_with_a_page_or_a_reason() -> None:
    found = rows()
    assert [int(row[0]) for row in found] == list(range(1, 38))
    for number, asked, wish, answer in found:
        assert re.search(r"[\w.-]+/[\w.-]+#\d+", asked), number
        assert len(wish) > 20, number
        assert answer.startswith(("done, see [", "no, because ")), number
        links = re.findall(r"\]\(([^)#]+)", answer)
        assert links, number
        for link in links:
            assert (PAGE.parent / link).exists(), f"{number}: {link}"
