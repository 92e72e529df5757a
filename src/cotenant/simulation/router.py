"""Which host takes a request, and what becomes of those whose host fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cotenant.policy.best_fit import fullest
from cotenant.policy.dispatch import least_loaded, round_robin
from cotenant.simulation.best_fit import NO_TARGETS, Targets, can_take, fullness_of
from cotenant.simulation.load import NEVER, Requests
from cotenant.simulation.outages import Outages
from cotenant.simulation.replica import Replica


@dataclass(slots=True, eq=False)
class Host:
    """A replica on its cards, with its clock: when its step ends, how long it has worked, and would have alone."""

    replica: Replica
    cards: tuple[object, ...]
    ends_fs: int | None = None
    busy_fs: int = 0
    alone_fs: int = 0
    last_fs: int = 0
    step_fs: int = 0  # of the step in progress
    alone_step_fs: int = 0  # the same, had it been alone

    def begin(self, now: int, work: int, took: int) -> None:
        """A step begins that would take `work` alone, and takes `took` beside the neighbours."""
        self.ends_fs, self.step_fs, self.alone_step_fs = now + took, took, work
        self.busy_fs += took
        self.alone_fs += work

    def break_off(self, now: int) -> None:
        """The step in progress, if there is one, counts as far as it went: by both clocks the same part of it."""
        if self.ends_fs is None:
            return
        left = self.ends_fs - now
        self.busy_fs -= left
        self.alone_fs -= self.alone_step_fs * left // self.step_fs
        self.ends_fs = None


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The requests of one model and the hosts (by number) that may serve it.

    With `users` the loop is closed: that many requests come at once, and the next one whenever one leaves before
    `until_ns`. `came_ns` then says when each of them came; those beyond never did.
    """

    requests: Requests
    hosts: tuple[int, ...]
    dispatch: str = "least_loaded"  # or "round_robin", "best_fit"
    targets: Targets = NO_TARGETS
    users: int = 0
    until_ns: int = NEVER
    timeout_ns: int = NEVER  # of a user of a closed loop; others have it in their requests
    came_ns: list[int] = field(default_factory=list)


class Router:
    """Sends requests to hosts that are up."""

    def __init__(self, hosts: Sequence[Host], streams: Sequence[Stream], outages: Outages) -> None:
        """Everybody is up at first."""
        self._hosts, self._streams, self._outages = hosts, streams, outages
        self._turns = [0] * len(streams)
        self._model_of = {place: model for model, stream in enumerate(streams) for place in stream.hosts}

    def next_moment(self, moment: int | None) -> int | None:
        """The next one at which anything happens, outages among them while somebody is there to notice."""
        change = self._outages.next_change()
        if change is None or (moment is None and not self._outages.orphans):
            return moment
        return change if moment is None else min(moment, change)

    def orphans(self, model: int) -> int:
        """Requests of a model that wait for a host."""
        return sum(one == model for one, _, _ in self._outages.orphans)

    def update(self, now: int) -> None:
        """Hosts fail and come back; whoever had one that failed, or none, goes to one that is up."""
        outages = self._outages
        for place in outages.due(now):
            host, model = self._hosts[place], self._model_of.get(place)
            host.break_off(now)
            again = host.replica.fail(now)
            if model is not None:
                outages.retried[model] = outages.retried.get(model, 0) + len(again)
                outages.orphans.extend((model, request, place) for request in again)
        for _ in range(len(outages.orphans)):
            self._place(*outages.orphans.popleft(), now)

    def is_up(self, place: int) -> bool:
        """Whether that host works."""
        return place not in self._outages.away

    def send(self, model: int, request: int, now: int) -> None:
        """A request has come."""
        self._place(model, request, None, now)

    def _place(self, model: int, request: int, before: int | None, now: int) -> None:
        places = [one for one in self._streams[model].hosts if self.is_up(one)]
        if not places:
            self._outages.orphans.append((model, request, before))
            return
        replica = self._hosts[self._choose(model, places, request, now)].replica
        if before is None:
            replica.arrive(request)
        else:
            replica.take_over(request, self._hosts[before].replica)

    def _choose(self, model: int, places: Sequence[int], request: int, now: int) -> int:
        """The host among `places` that takes this request."""
        stream, count = self._streams[model], len(places)
        if stream.dispatch == "round_robin":
            self._turns[model] += 1
            return places[round_robin(self._turns[model] - 1, count)]
        if stream.dispatch == "best_fit":
            found = fullest(
                [self._fits(place, request, stream.targets, now) for place in places],
                [fullness_of(self._hosts[place].replica) for place in places],
                count,
            )
            if found < count:
                return places[found]
        return places[least_loaded([self._hosts[one].replica.load for one in places], count)]

    def _fits(self, place: int, request: int, targets: Targets, now: int) -> int:
        host = self._hosts[place]
        rest = 0 if host.ends_fs is None else host.ends_fs - now
        return int(can_take(host.replica, request, targets, now, rest))
