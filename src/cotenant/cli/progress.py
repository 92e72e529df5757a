"""A sign of life on stderr for what takes longer than a second, on a terminal only."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

PATIENCE_S = 1.0


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show `what` with a spinner while the block runs, once it has run for a second."""
    if not sys.stderr.isatty():
        yield
        return
    shown: list[Status] = []
    lock = threading.Lock()
    done = False

    def show() -> None:
        from rich.console import Console

        with lock:
            if not done:
                status = Console(stderr=True).status(what)
                status.start()
                shown.append(status)

    timer = threading.Timer(PATIENCE_S, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            done = True
            for status in shown:
                status.stop()
