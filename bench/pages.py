"""All pages that the program writes: `python -m bench.pages [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench import adapters, claims, worked_example


def run(argv: Sequence[str] | None = None) -> int:
    """Write or check every page; the exit status is 1 where one differs."""
    return max(worked_example.run(argv), claims.run(argv), adapters.run(argv))


if __name__ == "__main__":
    sys.exit(run())
