"""Which resident model makes room for another one."""

from __future__ import annotations

from cotenant.policy.kinds import Ints


def least_recent(last_used: Ints, evictable: Ints, models: int) -> int:
    """The evictable model (1, not 0) that was used longest ago, of equals the first; `models` where none is."""
    found = models
    for index in range(models):
        if evictable[index] and (found == models or last_used[index] < last_used[found]):
            found = index
    return found


def may_swap(wait: int, own_wait: int, idle: bool, patience: int) -> bool:
    """Whether a model's turn is over: it has no work, or another model's request has waited `patience` or more.

    Without patience every request of another model would force a swap, and a card would only load (thrash). The
    other must have waited longer than any of its own (`own_wait`), else a model could be sent away before it
    served anything, and nobody would ever be served.
    """
    return idle or (wait >= patience and wait > own_wait)
