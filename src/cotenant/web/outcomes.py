"""How a question may end badly, and the HTTP status of each: whose fault it is decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.errors import CheckError, CotenantError, EngineError, SolverError

REFUSED, OURS, BUSY, TOO_MUCH, TOO_LONG = 422, 500, 503, 507, 504


class NeedsKeyError(EngineError):
    """The gateway does not answer without a key, or not with this one."""


def status_of(error: CotenantError) -> int:
    """422 what the house refuses; 401 and 502 where a gateway wants a key or is silent; 500 a fault of ours."""
    if isinstance(error, NeedsKeyError):
        return 401
    if isinstance(error, EngineError):
        return 502
    return OURS if isinstance(error, (CheckError, SolverError)) else REFUSED


def failed(status: int, error: str, hint: str = "") -> Mapping[str, Any]:
    """An outcome as a worker tells it: `{status, errors}` with one fault."""
    return {"status": status, "errors": [{"error": error, "hint": hint, "path": ""}]}


def refused(error: CotenantError) -> Mapping[str, Any]:
    """The same for what was refused, with every fault that it names."""
    from cotenant.report.document import error_document

    return {"status": status_of(error), "errors": error_document(error)["errors"]}


def broken(error: BaseException) -> Mapping[str, Any]:
    """A fault of ours, by its kind alone: what it says may hold what somebody else sent."""
    return failed(OURS, f"a fault of ours ({type(error).__name__})", "please report what was asked")


def too_much() -> Mapping[str, Any]:
    """Out of memory."""
    return failed(
        TOO_MUCH, "this took more memory than a job may", "ask for less, or start cotenant ui with --job-memory"
    )


def too_long(seconds: float) -> Mapping[str, Any]:
    """Out of time."""
    return failed(TOO_LONG, f"not done within {seconds:g} s", "ask for less, or give a time_limit")


def died(code: int | None) -> Mapping[str, Any]:
    """A worker that ended before it answered; `code` as a process tells it, below zero for a signal. Killed or
    aborted it was most likely out of memory: libraries end so where none is given to them."""
    if code is not None and code < 0:
        return failed(
            TOO_MUCH,
            "the worker ended before it answered: out of memory, most likely",
            "ask for less, or start cotenant ui with a larger --job-memory",
        )
    return failed(OURS, "the worker ended before it answered", "please report what was asked")
