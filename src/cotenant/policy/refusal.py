"""When a request is refused at the door, and when it may come again."""

from __future__ import annotations

_SECOND = 1_000_000_000


def expected_wait(ahead: int, slots: int, service_ns: int) -> int:
    """Nanoseconds until a slot is free for a request with `ahead` others before it, all slots busy meanwhile."""
    return (ahead * service_ns) // slots if slots > 0 else 0


def must_refuse(ahead: int, most_waiting: int, wait_ns: int, limit_ns: int) -> bool:
    """Whether the queue is full, or longer than the request can wait."""
    return ahead >= most_waiting or wait_ns > limit_ns


def retry_after_s(wait_ns: int, limit_ns: int) -> int:
    """Whole seconds after which the wait has shrunk to what is allowed; at least one."""
    return max(1, -((limit_ns - wait_ns) // _SECOND))


def backoff_ns(failures: int, first_ns: int, most_ns: int) -> int:
    """How long an engine rests after so many failures in a row: doubled each time, up to `most_ns`."""
    return min(most_ns, first_ns << min(failures - 1, 40)) if failures > 0 else 0
