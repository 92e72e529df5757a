"""Replicas of a plan that share cards, through the fast core of many: what each of them made of its requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.simulation import fleet
from cotenant.simulation import fleet_state as at
from cotenant.simulation.costs import FS_PER_NS
from cotenant.simulation.fleet import Fleet, Site
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.kernel import Host
from cotenant.simulation.load import Ints, Outcome, Requests, Status, sorted_log


def can_serve(requests: int, least: int) -> bool:
    """Whether so many requests are worth compiling for, and numba is there to do it."""
    if requests < least:
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def serve(
    works: Sequence[Requests], places: Sequence[Sequence[int]], hosts: Sequence[Host], hostings: Sequence[Hosting],
    until_ns: int, dispatch: str,
) -> dict[int, Outcome]:  # fmt: skip
    """Outcomes by place; `places` lists those of each model, `dispatch` is one of `fleet`'s. Times of work stand
    in `hosts` afterwards."""
    numbers = {card: number for number, card in enumerate(dict.fromkeys(c for one in hostings for c in one.cards))}
    sites = [Site(one.limits, one.costs, tuple(numbers[card] for card in one.cards)) for one in hostings]
    found = fleet.simulate(fleet.merged(works), sites, places, dispatch=dispatch, until_ns=until_ns)
    outcomes: dict[int, Outcome] = {}
    for model, own in enumerate(places):
        table = found.table[found.table[:, at.MODEL] == model]
        for place in own:
            outcomes[place] = _outcome(table, found, place, place == own[0])
            _keep_time(found.state[place], hosts[place])
    return outcomes


def _outcome(table: Ints, found: Fleet, place: int, first: bool) -> Outcome:
    """Of one replica; the `first` of a model also stands for requests that were refused or not answered."""
    done = (table[:, at.FINISH] >= 0) & (table[:, at.LINK] == place)
    began = (table[:, at.FIRST] >= 0) & (done | (first & (table[:, at.FINISH] < 0)))
    status = np.where(done, int(Status.FINISHED), int(Status.UNFINISHED))
    if first:
        status[table[:, at.FINISH] == at.REFUSED] = int(Status.REFUSED)
    row = found.state[place]
    return Outcome(
        status=status,
        first_token_ns=np.where(began, table[:, at.FIRST], 0),
        has_first=began,
        finish_ns=np.where(done, table[:, at.FINISH], 0),
        preemptions=int(row[at.PREEMPTIONS]),
        steps=int(row[at.STEP]),
        busy_ns=int(row[at.BUSY]),
        end_ns=int(row[at.LAST]),
        kv_high_water_blocks=int(row[at.NUM_BLOCKS] - row[at.LEAST_FREE]),
        log=sorted_log(np.zeros((0, 4), np.int64)),
    )


def _keep_time(row: Ints, host: Host) -> None:
    host.busy_fs = int(row[at.BUSY]) * FS_PER_NS + int(row[at.BUSY_REST])
    host.alone_fs = int(row[at.ALONE_NS]) * FS_PER_NS + int(row[at.ALONE_REST])
    host.last_fs = int(row[at.LAST]) * FS_PER_NS + int(row[at.LAST_REST])
    host.replica.taken = int(row[at.TAKEN])
