"""A sign of life on stderr for what takes longer than a second: a spinner on a terminal, lines elsewhere.

COTENANT_QUIET=1 keeps lines away, for whoever is mailed what stands on stderr.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from cotenant.cli.printable import one_line

if TYPE_CHECKING:
    from rich.status import Status

PATIENCE_S = 1.0
EVERY_S = 2.0  # between two lines where nobody watches


@contextmanager
def progress(*, lines: bool = True) -> Iterator[Callable[[str], None]]:
    """Says what is being done, while it takes time. Where stderr is no terminal: what is done after a second, then
    what has changed every two; nothing if `lines` is false (stderr is a log of something else)."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("starting") as status:
            yield lambda words: status.update(f"{words} ...")
    elif lines and not os.environ.get("COTENANT_QUIET"):
        with _Lines() as told:
            yield told.tell
    else:
        yield lambda _: None


class _Lines:
    """The newest words, written now and then by a thread of their own as long as the block lasts."""

    def __init__(self) -> None:
        self._words = ""
        self._done = threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> _Lines:
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._writer.join()

    def tell(self, words: str) -> None:
        self._words = words

    def _write(self) -> None:
        said, wait = "", PATIENCE_S
        while not self._done.wait(wait):
            words, wait = self._words, EVERY_S
            if words == said:
                continue
            said = words
            try:
                click.echo(one_line(f"{words} ..."), err=True)
            except (OSError, ValueError):  # nobody reads it any more: the answer may still be wanted
                return


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show `what` while the block runs, once it has run for a second."""
    if not sys.stderr.isatty():
        with progress() as tell:
            tell(what)
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
