"""Many replicas beside each other, fast: `kernel.run` without sleepers and closed loops, from event to event.

The same answers as the plain kernel, event for event; compiled where numba is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np

from cotenant.errors import InputError
from cotenant.policy.sharing import SLICES, stretched
from cotenant.simulation import core, fast, fleet_core, fleet_steps
from cotenant.simulation import fleet_state as at
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.load import NEVER, Ints, Limits, Outcome, Requests, Status, sorted_log

DISPATCH = {"round_robin": fleet_core.ROUND_ROBIN, "least_loaded": fleet_core.LEAST_LOADED}


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One replica: its limits, the times of its steps, the cards that it sits on, by number from 0."""

    limits: Limits
    costs: StepCosts
    cards: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """What became of everybody. `table` has a row for each request, `state` one for each site (`fleet_state`);
    `log`'s rows are (site, step, ns, event, request), after a first row that counts them."""

    table: Ints
    state: Ints
    log: Ints

    def outcome(self, model: int, sites: Sequence[int]) -> Outcome:
        """One model's requests, which those sites served."""
        table = self.table[self.table[:, at.MODEL] == model]
        rows = self.state[list(sites)]
        finish, first = table[:, at.FINISH], table[:, at.FIRST]
        status = np.where(finish >= 0, int(Status.FINISHED), int(Status.UNFINISHED))
        status[finish == at.REFUSED] = int(Status.REFUSED)
        own = self.log[1:][np.isin(self.log[1:, 0], list(sites))]
        return Outcome(
            status=status,
            first_token_ns=np.maximum(first, 0),
            has_first=first >= 0,
            finish_ns=np.maximum(finish, 0),
            preemptions=int(rows[:, at.PREEMPTIONS].sum()),
            steps=int(rows[:, at.STEP].sum()),
            busy_ns=int(rows[:, at.BUSY].sum()),
            end_ns=int(rows[:, at.LAST].max(initial=0)),
            kv_high_water_blocks=int((rows[:, at.NUM_BLOCKS] - rows[:, at.LEAST_FREE]).max(initial=0)),
            log=sorted_log(own[:, 1:]),
        )


def merged(streams: Sequence[Requests]) -> Ints:
    """The table of all requests, in order of arrival; of equals by model, then as listed."""
    sizes = [len(one) for one in streams]
    arrivals = np.concatenate([one.arrival_ns for one in streams]) if sizes else np.zeros(0, np.int64)
    order = np.argsort(arrivals, kind="stable")
    table = np.zeros((len(arrivals), 8), np.int64)
    table[:, at.ARRIVAL] = arrivals[order]
    table[:, at.MODEL] = np.repeat(np.arange(len(sizes)), sizes)[order]
    for column, name in ((at.INPUT, "input_tokens"), (at.OUTPUT, "output_tokens")):
        if sizes:
            table[:, column] = np.concatenate([getattr(one, name) for one in streams])[order]
    table[:, at.FIRST] = table[:, at.FINISH] = at.ABSENT
    return table


def simulate(
    table: Ints,
    sites: Sequence[Site],
    hosts: Sequence[Sequence[int]],
    *,
    dispatch: str = "least_loaded",
    cross: int = SLICES,
    until_ns: int = NEVER - 1,
    log: bool = False,
    with_numba: bool = True,
) -> Fleet:
    """Serve the requests of `table` (`merged`; filled in place) on `sites`; `hosts` lists those of each model.

    Without `log` the log stays empty. Raises InputError where a single step could leave 64 bits of femtoseconds,
    and where a model that has requests has no site.
    """
    _check(table, sites, hosts)
    copy = table.copy() if log else table
    rows = _run(table, sites, hosts, DISPATCH[dispatch], cross, until_ns, 0, with_numba)
    if not log:
        return rows
    return _run(copy, sites, hosts, DISPATCH[dispatch], cross, until_ns, int(rows.log[0, 0]), with_numba)


def _run(
    table: Ints, sites: Sequence[Site], hosts: Sequence[Sequence[int]], dispatch: int, cross: int, until_ns: int,
    rows: int, with_numba: bool,
) -> Fleet:  # fmt: skip
    group_of, groups, members = _groups(sites)
    state, log = _state(sites, group_of), np.zeros((rows + 1, 5), np.int64)
    cards = 1 + max((card for one in sites for card in one.cards), default=0)
    compiled(with_numba)(
        state, table, log, groups, members, _lists([one.cards for one in sites]),
        np.zeros((cards, 3), np.int64), _lists(hosts), np.zeros(len(hosts), np.int64),
        np.zeros(1 + max(map(len, hosts), default=0), np.int64), dispatch, cross, min(until_ns, NEVER - 1),
    )  # fmt: skip
    return Fleet(table, state, log)


def _state(sites: Sequence[Site], group_of: Sequence[int]) -> Ints:
    """A row for each replica at rest, with room for its sequences."""
    width = max(one.limits.max_num_seqs for one in sites) + 1
    costs = at.SLOTS + 4 * width + max(one.limits.block_size for one in sites)
    state = np.zeros((len(sites), costs + max(len(one.costs.packed) for one in sites)), np.int64)
    for row, one, group in zip(state, sites, group_of, strict=True):
        row[: at.GROUP] = astuple(one.limits)
        row[at.COSTS], row[costs : costs + len(one.costs.packed)] = costs, one.costs.packed
        row[at.GROUP], row[at.WIDTH] = group, width
        row[at.FREE] = row[at.LEAST_FREE] = one.limits.num_blocks
        row[at.NEXT_END] = NEVER
        row[[at.READER, at.HEAD, at.TAIL]] = at.NOBODY
    return state


def _groups(sites: Sequence[Site]) -> tuple[list[int], Ints, Ints]:
    """Replicas that share cards, directly or through others: the group of each, the groups, their members."""
    leader = list(range(len(sites)))
    first: dict[int, int] = {}

    def find(one: int) -> int:
        while leader[one] != one:
            one = leader[one]
        return one

    for number, site in enumerate(sites):
        for card in site.cards:
            low, high = sorted((find(first.setdefault(card, number)), find(number)))
            leader[high] = low
    heads = sorted({find(one) for one in range(len(sites))})
    group_of = [heads.index(find(one)) for one in range(len(sites))]
    members = sorted(range(len(sites)), key=lambda one: (group_of[one], one))
    groups = np.zeros((len(heads), 7), np.int64)
    groups[:, at.NEXT] = NEVER
    ends = np.cumsum([group_of.count(group) for group in range(len(heads))])
    groups[:, at.MEMBERS_END], groups[1:, at.MEMBERS] = ends, ends[:-1]
    return group_of, groups, np.array(members, np.int64)


def _lists(lists: Sequence[Sequence[int]]) -> Ints:
    """Two rows: where each list begins in the second row, and all of them one after the other."""
    flat = [item for one in lists for item in one]
    found = np.zeros((2, max(len(flat), len(lists) + 1)), np.int64)
    found[0, 1 : len(lists) + 1] = np.cumsum([len(one) for one in lists])
    found[1, : len(flat)] = flat
    return found


def _check(table: Ints, sites: Sequence[Site], hosts: Sequence[Sequence[int]]) -> None:
    most = max((len(site.cards) for site in sites), default=1) * len(sites)
    for site in sites:
        fast.check(site.limits, site.costs.each(lambda cost: stretched(cost, 1000 * most)))
    empty = [model for model, one in enumerate(hosts) if not len(one)]
    if empty and np.isin(table[:, at.MODEL], empty).any():
        raise InputError("a model that has requests has no replica")


SIGNED = {fleet_steps.note: "void(int64[:,::1], int64, int64, int64, int64, int64)"}
"""As `fast.SIGNED`."""


@lru_cache(maxsize=2)
def compiled(with_numba: bool = True) -> Any:
    """The core as a function; `with_numba` false leaves it as Python.

    Calls are laid into one function, and nothing in it counts references (it makes no object): that is half the
    speed.
    """
    used: tuple[Any, ...] = (*dict.fromkeys((*core.USED, *fleet_steps.USED, *fleet_core.USED, stretched)),)
    stamp = crc32(repr([fast.OPTIONS, *((one.__code__.co_code, one.__code__.co_consts) for one in used)]).encode())
    plain = fleet_core.build(stamp)
    if not with_numba:
        return plain
    try:
        from numba import njit
    except ImportError:
        return plain
    calls = fast.called(used, lambda one: njit(SIGNED.get(one), forceinline=True, **fast.HELPERS))
    return njit(fast.bound(plain, calls), cache=True, **fast.OPTIONS)
