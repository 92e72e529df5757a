"""The fast core of many replicas: groups that share cards, moment by moment, and a choice at every arrival.

Replicas that share no card do not know of each other, so each group of sharers has a clock of its own and is only
moved on when a request may go to it. Within a group a moment is as in `kernel`: all steps end that end then, then
requests arrive, then steps begin. Steps that are alike are made in one go, and are cut short when a request comes
that could join, or when the pace changes because a neighbour begins or ends its work.
"""

from __future__ import annotations

from typing import Any

from cotenant.policy.admission import can_serve
from cotenant.policy.dispatch import least_loaded, round_robin
from cotenant.policy.sharing import slowdown
from cotenant.simulation import fleet_state as at
from cotenant.simulation.fleet_steps import begin, cut_short, deliver, queue_up, stop, take_time
from cotenant.simulation.load import NEVER

ROUND_ROBIN, LEAST_LOADED = 0, 1


def advance(
    state: Any, requests: Any, log: Any, groups: Any, members: Any, cards: Any, crowd: Any, cross: int,
    group: int, to_ns: int, to_rest: int,
) -> None:  # fmt: skip
    """All that happens in a group before a moment, and what ends at it."""
    while True:
        if groups[group, at.RIPE] and (
            groups[group, at.RIPE_AT] < to_ns
            or (groups[group, at.RIPE_AT] == to_ns and groups[group, at.RIPE_REST] < to_rest)
        ):
            groups[group, at.RIPE] = 0
            begin_all(state, requests, log, groups, members, cards, crowd, cross, group)
        now, rest = groups[group, at.NEXT], groups[group, at.NEXT_REST]
        if now > to_ns or (now == to_ns and rest > to_rest):
            return
        for place in range(groups[group, at.MEMBERS], groups[group, at.MEMBERS_END]):
            replica = members[place]
            if (
                state[replica, at.KIND] != at.RESTING
                and state[replica, at.END] == now
                and state[replica, at.END_REST] == rest
            ):
                deliver(state, requests, log, replica)
        groups[group, at.RIPE], groups[group, at.RIPE_AT], groups[group, at.RIPE_REST] = 1, now, rest
        groups[group, at.NEXT] = NEVER


def begin_all(
    state: Any, requests: Any, log: Any, groups: Any, members: Any, cards: Any, crowd: Any, cross: int, group: int
) -> None:  # fmt: skip
    """Every resting replica of a group that has work begins; those whose pace has changed begin anew."""
    now, rest = groups[group, at.RIPE_AT], groups[group, at.RIPE_REST]
    start, end = groups[group, at.MEMBERS], groups[group, at.MEMBERS_END]
    changed = False
    for place in range(start, end):
        replica = members[place]
        if state[replica, at.KIND] == at.RESTING and state[replica, at.LOAD] > 0:
            state[replica, at.NOW], state[replica, at.REST] = now, rest
            begin(state, requests, log, replica)
            state[replica, at.PACE] = 0
        if state[replica, at.KIND] != state[replica, at.COUNTED]:
            changed = True
            recount(state, cards, crowd, replica)
    next_ns, next_rest = NEVER, 0
    for place in range(start, end):
        replica = members[place]
        if state[replica, at.KIND] == at.RESTING:
            continue
        if changed or state[replica, at.PACE] == 0:
            keep_pace(state, requests, log, replica, pace_of(state, cards, crowd, cross, replica), now, rest)
        ends = state[replica, at.END]
        if ends < next_ns or (ends == next_ns and state[replica, at.END_REST] < next_rest):
            next_ns, next_rest = ends, state[replica, at.END_REST]
    groups[group, at.NEXT], groups[group, at.NEXT_REST] = next_ns, next_rest


def keep_pace(state: Any, requests: Any, log: Any, replica: int, pace: int, now: int, rest: int) -> None:
    """Steps that begin at this moment take that pace; steps in progress end with the one that they began with."""
    if state[replica, at.PACE] == pace:
        return
    if state[replica, at.PACE] != 0:
        cut_short(state, replica, now, rest)
        if state[replica, at.END] != now or state[replica, at.END_REST] != rest:
            return
        deliver(state, requests, log, replica)
        begin(state, requests, log, replica)
    take_time(state, replica, pace)


def recount(state: Any, cards: Any, crowd: Any, replica: int) -> None:
    """Tell the cards of a replica what it does now."""
    before, after = state[replica, at.COUNTED], state[replica, at.KIND]
    for place in range(cards[0, replica], cards[0, replica + 1]):
        card = cards[1, place]
        if before != at.RESTING:
            crowd[card, before] -= 1
        if after != at.RESTING:
            crowd[card, after] += 1
    state[replica, at.COUNTED] = after


def pace_of(state: Any, cards: Any, crowd: Any, cross: int, replica: int) -> int:
    """Per mille of the time alone, on the busiest of its cards."""
    kind, found = state[replica, at.KIND], 0
    for place in range(cards[0, replica], cards[0, replica + 1]):
        card = cards[1, place]
        reading, decoding = crowd[card, at.READING], crowd[card, at.DECODING]
        if kind == at.READING:
            reading -= 1
        else:
            decoding -= 1
        found = max(found, slowdown(kind == at.READING, reading, decoding, cross))
    return found


def take(state: Any, requests: Any, log: Any, groups: Any, replica: int, request: int) -> None:
    """A replica takes a request that has just come, or refuses it."""
    state[replica, at.TAKEN] += 1
    given, written = requests[request, at.INPUT], requests[request, at.OUTPUT]
    if not can_serve(
        given, written, state[replica, at.LONGEST], state[replica, at.SIZE], state[replica, at.NUM_BLOCKS]
    ):
        requests[request, at.FINISH] = at.REFUSED
        return
    state[replica, at.LOAD] += 1
    queue_up(state, requests, replica, request)
    group, now = state[replica, at.GROUP], requests[request, at.ARRIVAL]
    if state[replica, at.OPEN]:
        cut_short(state, replica, now, 0)
        ends, rest = state[replica, at.END], state[replica, at.END_REST]
        if ends == now and rest == 0:
            deliver(state, requests, log, replica)
        elif ends < groups[group, at.NEXT] or (
            ends == groups[group, at.NEXT] and rest < groups[group, at.NEXT_REST]
        ):
            groups[group, at.NEXT], groups[group, at.NEXT_REST] = ends, rest
    if state[replica, at.KIND] == at.RESTING:
        groups[group, at.RIPE], groups[group, at.RIPE_AT], groups[group, at.RIPE_REST] = 1, now, 0


USED = (can_serve, least_loaded, round_robin, slowdown, advance, begin_all, keep_pace, recount, pace_of, take)
"""What the core calls, beside `fleet_steps`: compiled along with it."""


def build(stamp: int) -> Any:
    """The core. `stamp` stands for the code of all that it calls: a compiler's cache knows it by that."""

    def core(
        state: Any, requests: Any, log: Any, groups: Any, members: Any, cards: Any, crowd: Any,
        hosts: Any, turns: Any, loads: Any, dispatch: int, cross: int, until_ns: int,
    ) -> int:  # fmt: skip
        """Serve `requests` (in order of arrival) until `until_ns`; everything is written into the tables.

        `hosts`: two rows, where each model's replicas begin, and the replicas. `cards`: the same of each replica.
        """
        for request in range(len(requests)):
            now = requests[request, at.ARRIVAL]
            if now > until_ns:
                break
            model = requests[request, at.MODEL]
            first, replicas = hosts[0, model], hosts[0, model + 1] - hosts[0, model]
            for place in range(replicas):
                replica = hosts[1, first + place]
                group = state[replica, at.GROUP]
                if groups[group, at.RIPE] or groups[group, at.NEXT] <= now:
                    advance(state, requests, log, groups, members, cards, crowd, cross, group, now, 0)
                loads[place] = state[replica, at.LOAD]
            if dispatch == ROUND_ROBIN:
                chosen = round_robin(turns[model], replicas)
                turns[model] += 1
            else:
                chosen = least_loaded(loads, replicas)
            take(state, requests, log, groups, hosts[1, first + chosen], request)
        for group in range(len(groups)):  # what ends at the last moment still does, and steps still begin
            advance(state, requests, log, groups, members, cards, crowd, cross, group, until_ns, 0)
            if groups[group, at.RIPE]:
                begin_all(state, requests, log, groups, members, cards, crowd, cross, group)
        for replica in range(len(state)):
            if state[replica, at.KIND] != at.RESTING:
                stop(state, requests, log, replica, until_ns)
        return stamp

    return core
