"""Structured logs: a JSON object a line, never a prompt, an answer or a key."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import TextIO


class Lines(logging.Handler):
    """What the HTTP library has to say, as our own events: what went wrong, without what was sent."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One event, with the kind of the error and where it was raised."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        told = {} if error is None else _kind_and_place(error)
        self._log.event("http", what=str(record.msg)[:80], **told)


def _kind_and_place(error: BaseException) -> dict[str, object]:
    """The kind of an error and where it was raised; not its words, which may hold what was sent."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else None
    return {"error": type(error).__name__, "where": where}


def http_logger(log: Log) -> logging.Logger:
    """A logger of its own for one gateway."""
    found = logging.Logger("cotenant.http", logging.WARNING)
    found.addHandler(Lines(log))
    return found


class Log:
    """Lines to a stream; `quiet` leaves requests out."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream, self._quiet = stream or sys.stderr, quiet

    def event(self, event: str, **told: object) -> None:
        """Something about engines or the gateway."""
        line = {"time": round(time.time(), 6), "event": event, **{k: v for k, v in told.items() if v is not None}}
        try:
            self._stream.write(json.dumps(line, ensure_ascii=True, default=str) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._quiet = True  # nobody reads any more: serving goes on

    def fault(self, what: str, error: BaseException) -> None:
        """Something went wrong that should not have: a fault of ours, and not the end."""
        self.event("fault", what=what, **_kind_and_place(error))

    def request(self, **told: object) -> None:
        """One request that ended."""
        if not self._quiet:
            self.event("request", **told)
