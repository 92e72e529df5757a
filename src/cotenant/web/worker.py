"""A worker process of the page's server: `python -m cotenant.web.worker`, told over its standard streams.

In: pickles of (kind, asked, uploads), from the server alone. Out: JSON lines, {"progress": {...}}, and last for
each question {"result": TEXT} or {"errors": [...]}. What libraries print goes to standard error. When the server
goes away, so does the worker, whatever it is at.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import IO, Any

_Question = tuple[str, Mapping[str, Any], Mapping[str, Any]]


def main(most_bytes: int) -> None:
    """Answer one question after another, with at most `most_bytes` of memory of our own (0: no limit)."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    _limit(most_bytes)
    asked: queue.SimpleQueue[_Question] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="cotenant-ui-") as empty:
        os.chdir(empty)  # so that no name is by chance a file's
        threading.Thread(target=_read, args=(sys.stdin.buffer, asked, empty), daemon=True).start()
        while True:
            _answer(asked.get(), answers)


def _read(source: IO[bytes], asked: queue.SimpleQueue[_Question], folder: str) -> None:
    try:
        while True:
            asked.put(pickle.load(source))  # our own server's
    except (EOFError, OSError):
        with_suppressed_rmdir(folder)
        os._exit(0)


def with_suppressed_rmdir(folder: str) -> None:
    """Take the empty folder away, if it is empty."""
    try:
        os.rmdir(folder)
    except OSError:
        return


def _answer(question: _Question, answers: IO[str]) -> None:
    from cotenant.errors import CotenantError
    from cotenant.report.document import error_document
    from cotenant.web.work import JOBS

    kind, asked, uploads = question

    def tell(message: Mapping[str, Any]) -> None:
        print(json.dumps({"progress": message}), file=answers, flush=True)

    try:
        last: dict[str, Any] = {"result": JOBS[kind](asked, uploads, tell).decode()}
    except CotenantError as error:
        last = error_document(error)
    except MemoryError:
        last = {
            "errors": [
                {
                    "error": "this took more memory than a job may",
                    "hint": "ask for less, or start cotenant ui with --job-memory",
                    "path": "",
                }
            ]
        }
    print(json.dumps(last), file=answers, flush=True)


def _limit(most_bytes: int) -> None:
    """Bound private memory (RLIMIT_DATA counts it on Linux); elsewhere there is no such bound."""
    try:
        import resource

        if most_bytes and sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
        if hasattr(os, "nice"):
            os.nice(5)
    except (ImportError, OSError, ValueError):
        return


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
