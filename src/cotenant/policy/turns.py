"""Whose turn it is: which model wakes next, which one makes room, and who is served next of those that wait."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.policy.kinds import Ints


def least_worth(priorities: Ints, idle: Ints, reload: Ints, evictable: Ints, models: int) -> int:
    """The evictable model (1, not 0) whose place costs least: lowest priority, then the most idle time for each
    unit of time that loading it again takes; of equals the first; `models` where none is.

    Idle time over reload time is GreedyDual's trade of recency against cost (Cao and Irani, USITS '97).
    """
    found = models
    for index in range(models):
        if not evictable[index]:
            continue
        if found == models or priorities[index] < priorities[found]:
            found = index
        elif priorities[index] == priorities[found]:
            ours = (idle[index] + 1) * (reload[found] + 1)
            if ours > (idle[found] + 1) * (reload[index] + 1):
                found = index
    return found


def first_to_wake(priorities: Ints, oldest: Ints, models: int) -> int:
    """Of models that want to wake: the highest priority waiting, then the request that came first."""
    found = 0
    for index in range(1, models):
        higher = priorities[index] > priorities[found]
        if higher or (priorities[index] == priorities[found] and oldest[index] < oldest[found]):
            found = index
    return found


def has_resided(resident: int, minimum: int, priority: int, own_priority: int) -> bool:
    """Whether a model has been awake long enough to be sent away; a higher priority does not wait for it."""
    return resident >= minimum or priority > own_priority


def may_displace(busy: bool, priority: int, own_priority: int) -> bool:
    """Whether a model may be sent away for requests of `priority`: idle ones may, busy ones not by lower ones."""
    return not busy or priority >= own_priority


def patience_for(patience: int, priority: int, own_priority: int) -> int:
    """How long a request waits before a busy model makes room: not at all where it is of higher priority."""
    return 0 if priority > own_priority else patience


def is_expected(weights: Sequence[float], hour: int) -> bool:
    """Whether traffic of that hour is above the day's mean: then a model is worth waking before it comes."""
    return weights[hour % len(weights)] * len(weights) > sum(weights)


def fairest(served: Ints, arrivals: Ints, clients: int) -> int:
    """Whom to serve next: the client served least so far (start-time fair queueing), then the oldest request."""
    found = 0
    for index in range(1, clients):
        less = served[index] < served[found]
        if less or (served[index] == served[found] and arrivals[index] < arrivals[found]):
            found = index
    return found
