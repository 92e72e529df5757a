"""A gateway's log once more in the simulator: the same arrivals, and each request and each swap takes as long as
it took live. Then the simulator's decisions must be the gateway's, one by one: who is started, in which order.

What a machine's noise does to times is in both; what is left is the rule itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.live_swaps import NAMES, Stays
from cotenant.simulation.costs import FS_PER_S, StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Limits, Requests, Status
from cotenant.simulation.replica import Replica
from cotenant.simulation.residency import Residency, Resident, State
from cotenant.simulation.sequence import Sequence as Running

_TICK_FS = FS_PER_S // 1000  # requests that come meanwhile join at the next one
_SLOTS = 2
_NOTHING = StepCosts.plane(0, 0, 0, 0, 0, 0)


@dataclass(slots=True)
class Told:
    """What a log tells of one model: (arrival, seconds of service) of each request, seconds of each wake (from the
    moment when there was room) and of each leave."""

    requests: list[tuple[float, float]] = field(default_factory=list)
    wakes: list[float] = field(default_factory=list)
    leaves: list[float] = field(default_factory=list)


def read(lines: Sequence[Mapping[str, Any]], began: float) -> tuple[dict[str, Told], list[tuple[float, str]]]:
    """What the log tells of each model, and the starts as (moment, model); moments count from `began`."""
    told = {name: Told() for name in NAMES}
    starts: list[tuple[float, str]] = []
    stops: dict[str, float] = {}
    free = began
    for line in lines:
        at, name = line["time"], line.get("model", "")
        if at < began or name not in told:
            continue
        if line["event"] == "engine_started":
            starts.append((at - began, name))
        elif line["event"] == "engine_ready":
            told[name].wakes.append(at - free)
        elif line["event"] == "engine_stops":
            stops[name] = at
        elif line["event"] == "engine_gone":
            free = at
            told[name].leaves.append(at - stops.get(name, at))
        elif line["event"] == "request":
            told[name].requests.append((max(0.0, line["came"] - began), line["total_s"] - line["queue_s"]))
    for one in told.values():
        one.requests.sort()
    return told, starts


class TimedReplica(Replica):
    """An engine whose requests take their own times, each beside the others in its slots."""

    def __init__(self, requests: Requests, service_fs: Sequence[int]) -> None:
        super().__init__(requests, Limits(_SLOTS, 2048, 16, 256, 1024), _NOTHING)
        self._left_fs = list(service_fs)
        self._step_fs = 0

    def begin(self, now_fs: int) -> int:
        """Until the next tick, or the next end before it."""
        while self.waiting and self.admitting and len(self.running) < _SLOTS:
            rank, request = heapq.heappop(self.waiting)
            self.running.append(Running(request, rank, 1, 2))
        if not self.running:
            return 0
        self._step_fs = min(_TICK_FS, *(self._left_fs[one.request] for one in self.running))
        return self._step_fs

    def end(self, now_fs: int) -> None:
        """Who has had its time leaves."""
        for one in self.running:
            self._left_fs[one.request] -= self._step_fs
            if self._left_fs[one.request] <= 0:
                self._close(one.request, Status.FINISHED, now_fs)
        self.running = [one for one in self.running if self._left_fs[one.request] > 0]
        self.steps += 1


class TimedResident(Resident):
    """A model whose swaps take their own times, in their order."""

    told: Told

    @classmethod
    def of(cls, replica: Replica, told: Told) -> TimedResident:
        """One on the box, asleep."""
        found = cls(replica, ("box",), 1, 0, 0, 0)
        found.told = told
        return found

    @property
    def wake_fs(self) -> int:
        """Of the next wake."""
        return _at(self.told.wakes, self.wakes)

    @wake_fs.setter
    def wake_fs(self, value: int) -> None:
        pass

    @property
    def sleep_fs(self) -> int:
        """Of the next leave."""
        return _at(self.told.leaves, sum(len(spell) == 3 for spell in self.spells_fs))

    @sleep_fs.setter
    def sleep_fs(self, value: int) -> None:
        pass


def replay(told: Mapping[str, Told], settings: Stays) -> list[tuple[float, str]]:
    """The simulator's starts as (moment, model), the first model being awake. `settings` are (residency, patience,
    hold) in seconds."""
    hosts, streams, residents = [], [], []
    for place, name in enumerate(NAMES):
        asked = told[name].requests
        requests = Requests.of([round(at * 1e9) for at, _ in asked], [1] * len(asked), [1] * len(asked))
        replica = TimedReplica(requests, [max(1, round(took * FS_PER_S)) for _, took in asked])
        hosts.append(Host(replica, ("box",)))
        streams.append(Stream(requests, (place,)))
        residents.append(TimedResident.of(replica, told[name]))
    residents[0].state = State.AWAKE
    residents[0].spells_fs.append([0, 0])
    stay, patience, hold = (round(one * FS_PER_S) for one in settings)
    run(hosts, streams, residency=Residency(residents, {"box": 1}, patience, stay, hold_fs=hold))
    woken = [
        (spell[0] / FS_PER_S, name)
        for name, one in zip(NAMES, residents, strict=True)
        for spell in one.spells_fs[one is residents[0] :]
    ]
    return sorted(woken)


def _at(seconds: Sequence[float], place: int) -> int:
    """The time in that place, beyond the end the last one's."""
    return round(seconds[min(place, len(seconds) - 1)] * FS_PER_S) if seconds else 0


def equal_decisions(live: Sequence[tuple[float, str]], simulated: Sequence[tuple[float, str]]) -> int:
    """How many starts are the same from the beginning on."""
    pairs = zip(live, simulated, strict=False)
    return next(
        (place for place, (ours, theirs) in enumerate(pairs) if ours[1] != theirs[1]),
        min(len(live), len(simulated)),
    )
