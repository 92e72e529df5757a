"""A worker process of the page's server: `python -m cotenant.web.worker`, told over its standard streams.

In: pickles of (kind, asked, known), from the server alone. Out: JSON lines, {"progress": {...}}, and last for
each question {"result": TEXT} or {"status": 422, "errors": [...]}. What libraries print goes to standard
error, as do our own faults. When the server goes away, so does the worker, whatever it is at.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, NoReturn

_Question = tuple[str, Mapping[str, Any], Mapping[str, Any]]


def main(most_bytes: int, nice: int, empty: str) -> None:
    """Answer one question after another, with at most `most_bytes` of memory of our own (0: no limit), `nice`
    steps behind the server, in an `empty` folder of the server's, so that no name is by chance a file's."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends us
    _limit(most_bytes, nice)
    asked: queue.SimpleQueue[_Question] = queue.SimpleQueue()
    os.chdir(empty)
    threading.Thread(target=_read, args=(sys.stdin.buffer, asked, empty), daemon=True).start()
    while True:
        _answer(asked.get(), answers)


def _read(source: IO[bytes], asked: queue.SimpleQueue[_Question], folder: str) -> None:
    try:
        while True:
            asked.put(pickle.load(source))  # our own server's
    except (EOFError, OSError):
        _leave(folder)


def _leave(folder: str) -> NoReturn:
    """At once, whatever the other thread is at; only the folder is taken along."""
    with suppress(OSError):
        os.rmdir(folder)
    os._exit(0)


def _answer(question: _Question, answers: IO[str]) -> None:
    from cotenant.errors import CotenantError
    from cotenant.web.outcomes import broken, refused, too_much
    from cotenant.web.work import JOBS

    kind, asked, known = question

    def tell(message: Mapping[str, Any]) -> None:
        print(json.dumps({"progress": message}), file=answers, flush=True)

    try:
        last: Mapping[str, Any] = {"result": JOBS[kind](asked, known, tell).decode()}
    except CotenantError as error:
        last = refused(error)
    except MemoryError:
        last = too_much()
    except Exception as error:  # whatever it is, the question has an answer, and the next one a worker
        traceback.print_exc()
        last = broken(error)
    print(json.dumps(last), file=answers, flush=True)


def _limit(most_bytes: int, nice: int) -> None:
    """Bound private memory (RLIMIT_DATA counts it on Linux); elsewhere there is no such bound."""
    try:
        import resource

        if most_bytes and sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
        if hasattr(os, "nice"):
            os.nice(nice)
    except (ImportError, OSError, ValueError):
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
