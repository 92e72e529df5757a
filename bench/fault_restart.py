"""The gateway of a simulated world killed and begun anew: engines live on, what is under way is lost.

What the journal says of each engine decides, as in `edge.gateway.adoption`: one that is up, sleeps or loads is
taken over as it is; one that was on its way to sleep or back, hangs, or has no place in the plan is stopped.
"""

from __future__ import annotations

from bench.fault_clients import Clients
from bench.fault_ground import MS, Process, Violation
from cotenant.errors import CheckError
from cotenant.serving.replica import State


class Restarts(Clients):
    """What is left when the gateway comes back."""

    def _restart(self) -> None:
        if self.draining:
            return
        self.epoch += 1  # what was said to the one before is heard by nobody
        self.restarts += 1
        self.told.clear()
        for request, one in self.asked.items():
            if not one.ended:
                if one.process is not None:
                    one.process.running.discard(request)
                self._end(request, "the gateway is gone")
                one.attempt += 1
        if any(any(level.values()) for level in self.waiting) or any(self.lines.values()):
            raise Violation("the oracle's own books do not add up")
        self.passed.clear()
        self._renumber()
        served = {one.model for one in self.hosts}
        models = [one for one in self.models if one.name in served]
        self.router = self.make(self.hosts, models, self.capacity, self.settings)
        self.router.tick(self.clock)
        for process in list(self.alive):
            self._take_over(process)
        for model in models:
            self.router.expect(self.clock, model.name)
        self._obey()

    def _renumber(self) -> None:
        """Replicas of the plan alone, by new numbers; what else runs is stopped."""
        numbers = {old: new for new, old in enumerate(self.planned)}
        for process in list(self.alive):
            if process.replica not in numbers or self.live.get(process.replica) is not process:
                self._stop_orphan(process)
        self.hosts = [self.hosts[old] for old in self.planned]
        live = {numbers[old]: process for old, process in self.live.items() if process.alive}
        for new, process in live.items():
            process.replica = new
        self.live = live
        self.planned, self.unplanned = list(range(len(self.hosts))), set()

    def _take_over(self, process: Process) -> None:
        if process.noted == "loading":
            state = State.STARTING
        elif process.hung or process.noted == "moving":
            self._stop_orphan(process)
            return
        else:
            state = State.ASLEEP if process.asleep else State.READY
        try:
            process.generation = self.router.adopted(self.clock, process.replica, state)
        except CheckError:
            self._stop_orphan(process)
            return
        self.adoptions[state.name] = self.adoptions.get(state.name, 0) + 1
        if state is State.STARTING and process.loaded and not process.hung:
            self.after(MS, 30 * MS, self._say, "up", process)

    def _stop_orphan(self, process: Process) -> None:
        """Before anything else, so that nobody hears of it."""
        process.alive, process.holds = False, 0
        self.alive.remove(process)
        if self.live.get(process.replica) is process:
            del self.live[process.replica]
