"""Which resident models make room for another one."""

from __future__ import annotations

from cotenant.policy.kinds import Ints, Marks
from cotenant.policy.turns import has_resided, least_worth, may_displace, patience_for

WORTH, RECENT = 0, 1
"""Rules by which they are chosen: `least_worth`, as the gateway does; `least_recent`, as llama-swap and Run:ai."""


def least_recent(idle: Ints, evictable: Ints, models: int) -> int:
    """The evictable model (1, not 0) that was idle for longest, of equals the first; `models` where none is."""
    found = models
    for index in range(models):
        if evictable[index] and (found == models or idle[index] > idle[found]):
            found = index
    return found


def make_room(
    rule: int, room: int, wanted: int, priorities: Ints, idle: Ints, reload: Ints, frees: Ints, evictable: Ints,
    goes: Marks, models: int,
) -> int:  # fmt: skip
    """Choose who makes room, one after the other, until there is as much as is wanted; the room that is then.

    `frees`: bytes that come free when a model goes; `idle` and `reload` in one unit of time. `goes` is marked
    where a model is chosen; who is marked already is not asked again. Where the room is less than `wanted` all of
    them would not be enough, and nobody should go.
    """
    while room < wanted:
        allowed = [evictable[index] if goes[index] == 0 else 0 for index in range(models)]
        if rule == RECENT:
            place = least_recent(idle, allowed, models)
        else:
            place = least_worth(priorities, idle, reload, allowed, models)
        if place == models:
            return room
        goes[place] = 1
        room += frees[place]
    return room


def may_swap(wait: int, own_wait: int, idle: bool, patience: int, hold: int = 0) -> bool:
    """Whether a model's turn is over: it has no work and another model's request has waited for `hold`, or it has
    and the other one has waited `patience` and `hold`, or more.

    With a hold a swap comes as late as whoever waits allows: what is asked of the model meanwhile needs no swap of
    its own, and whoever waits first in each turn waits alike, instead of for all or none of it.

    Without patience every request of another model would force a swap, and a card would only load (thrash). The
    other must have waited longer than any of its own (`own_wait`), else a model could be sent away before it
    served anything, and nobody would ever be served.
    """
    if idle:
        return wait >= hold
    return wait >= max(patience, hold) and wait > own_wait


def may_go(
    busy: bool,
    priority: int,
    own_priority: int,
    resident: int,
    minimum: int,
    wait: int,
    own_wait: int,
    patience: int,
    hold: int = 0,
) -> bool:
    """Whether a model that is awake may be sent away for a request of `priority` that has waited for `wait`.

    It has been awake for `resident`, and must be for `minimum`; its own oldest request waits for `own_wait` (-1:
    none does); `hold` is what the other must have waited though it is idle. All in one unit of time. A higher
    priority waits for none of them.
    """
    if not may_displace(busy, priority, own_priority) or not has_resided(
        resident, minimum, priority, own_priority
    ):
        return False
    own = -1 if priority > own_priority else own_wait  # a higher priority does not queue behind its requests
    patience, hold = patience_for(patience, priority, own_priority), patience_for(hold, priority, own_priority)
    return may_swap(wait, own, not busy, patience, hold)
