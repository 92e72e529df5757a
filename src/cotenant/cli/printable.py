"""Text of anybody's, as a terminal may have it."""

from __future__ import annotations


def one_line(text: str) -> str:
    """`text` with what a terminal would obey spelled out: escapes, line ends, reversed writing."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def lines(text: str) -> str:
    """As `one_line`, for text whose own line ends stay."""
    return "\n".join(one_line(line) for line in text.split("\n"))
