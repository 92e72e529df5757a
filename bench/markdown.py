"""Pages of docs/ that the program writes: tables, figures, and `--check`, which compares instead of writing."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from cotenant.units import GIB

DOCS = Path(__file__).parent.parent / "docs"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table; the first `left` columns are set to the left, the others to the right."""
    rule = [":---" if number < left else "---:" for number in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rows))


def whole(number: float) -> str:
    """A count or bytes, with thousands."""
    return f"{number:,.0f}"


def gib(size: float, digits: int = 2) -> str:
    """Bytes as GiB (2^30)."""
    return f"{size / GIB:,.{digits}f} GiB"


def gb(size: float, digits: int = 2) -> str:
    """Bytes as GB (10^9)."""
    return f"{size / 1e9:,.{digits}f} GB"


def percent(share: float, digits: int = 1) -> str:
    """A share 0..1 as a percentage."""
    return f"{100 * share:.{digits}f} %"


def equation(left: str, result: float) -> str:
    """`left = result` in code, for a test to work out again."""
    return f"`{left} = {whole(result)}`"


def main(name: str, render: Callable[[], str], description: str, argv: Sequence[str] | None = None) -> int:
    """Write docs/`name`, or with --check say how it differs from what would be written (exit status 1)."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the page instead of writing it")
    options = parser.parse_args(argv)
    path, text = DOCS / name, render()
    if not options.check:
        path.write_text(text, encoding="utf-8")
        return 0
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = list(difflib.unified_diff(old, text.splitlines(), f"docs/{name}", "as computed now", lineterm="", n=0))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(bool(lines))
