"""The machine of a simulated world: what the router wants of engines, done late and sometimes not at all."""

from __future__ import annotations

from bench.fault_ground import MS, Ground, Process, Violation
from cotenant.serving.effects import Probe, Sleep, Start, Stop, Wake
from cotenant.serving.settings import SECOND


class Machine(Ground):
    """Processes that start, load, sleep, wake and die; an oracle that weighs them."""

    def _start(self, effect: Start) -> None:
        host = self.hosts[effect.replica]
        before = self.live.get(effect.replica)
        if before is not None and before.alive:
            raise Violation(f"replica {effect.replica} was started while its process lives")
        process = Process(effect.replica, effect.generation, host.start_bytes)
        self.live[effect.replica] = process
        self.alive.append(process)
        self._weigh()
        slow = self.random.random()
        usual = host.load_ns
        span = usual * 12 if slow < 0.02 + self.lossy / 4 else usual
        if self.random.random() < 0.02:
            self.after(1, usual, self._die, process)
        self.after(span // 2, span + MS, self._loaded, process)

    def _loaded(self, process: Process) -> None:
        if process.alive and not process.hung:
            process.loaded, process.holds = True, self.hosts[process.replica].awake_bytes
            process.awake_since = self.now
            self._say("up", process)

    def _stop(self, effect: Stop) -> None:
        process = self._known(effect)
        host = self.hosts[effect.replica]
        if not effect.kill and not self.draining and process.loaded and not process.asleep and process.alive:
            self._stays(process)
        if not process.alive:
            self._say("down", process, sure=True)
        elif effect.kill:
            self.after(MS, 300 * MS, self._die, process)
        elif not process.hung and self.random.random() > 0.05 + self.lossy:
            self.after(MS, max(2 * MS, host.load_ns // 4), self._die, process)

    def _stays(self, process: Process) -> None:
        """Thrash: sent away sooner than the least stay, for no higher priority."""
        awake = self.now - process.awake_since
        if process.replica in self.unplanned:
            return  # another plan has no place for it
        if self.uniform and not self.set_back and not self.offset and awake < self.settings.residency_ns:
            raise Violation(f"replica {process.replica} was sent away after {awake / SECOND:.2f} s")

    def _sleep(self, effect: Sleep) -> None:
        process = self._known(effect)
        self._stays(process) if process.alive and not self.draining else None
        process.noted = "moving"
        if process.alive and not process.hung:
            self.after(MS, 200 * MS, self._asleep, process)

    def _asleep(self, process: Process) -> None:
        if process.alive and not process.hung:
            process.asleep, process.holds = True, self.hosts[process.replica].asleep_bytes
            self._say("slept", process)

    def _wake(self, effect: Wake) -> None:
        process = self._known(effect)
        process.noted = "moving"
        if process.alive:
            process.holds = self.hosts[effect.replica].awake_bytes
            self._weigh()
            if not process.hung:
                self.after(MS, 400 * MS, self._awake, process)

    def _awake(self, process: Process) -> None:
        if process.alive and not process.hung:
            process.asleep, process.awake_since = False, self.now
            wrong = self.random.random() < 0.05
            self._say("failed" if wrong else "up", process)

    def _probe(self, effect: Probe) -> None:
        process = self._known(effect)
        if process.alive and not process.hung:
            self.after(MS, 100 * MS, self._say, "up", process)

    def _die(self, process: Process) -> None:
        if not process.alive:
            return
        process.alive, process.holds = False, 0
        self.alive.remove(process)
        for request in sorted(process.running):
            one = self.asked[request]
            self.after(MS, 20 * MS, self._break, request, one.attempt)
        process.running.clear()
        self._say("down", process, sure=True)

    def _say(self, what: str, process: Process, *, sure: bool = False) -> None:
        """A reply on its way; it may be lost, unless the kernel itself says it."""
        if not sure and self.random.random() < self.lossy:
            return
        self.after(MS, 30 * MS, self._hear, what, process, self.epoch)

    def _hear(self, what: str, process: Process, epoch: int) -> None:
        if epoch != self.epoch:
            return  # whom it was said to is gone
        if what == "slept" or (what == "up" and not process.asleep):
            process.noted = "awake" if what == "up" else "asleep"
        told = (self.clock, process.replica, process.generation)
        self.told.append((process.replica, process.generation, what))
        if what in ("failed", "down"):
            getattr(self.router, what)(*told, "as the world says")
        else:
            getattr(self.router, what)(*told)

    def _known(self, effect: Stop | Sleep | Wake | Probe) -> Process:
        process = self.live.get(effect.replica)
        if process is None or process.generation != effect.generation:
            raise Violation(f"replica {effect.replica} has no process {effect.generation}")
        return process

    def _weigh(self) -> None:
        for device, capacity in enumerate(self.capacity):
            held = sum(one.holds for one in self.alive if device in self.hosts[one.replica].devices)
            if held > capacity:
                raise Violation(f"device {device} holds {held} of {capacity}")
        asleep = sum(self.hosts[one.replica].host_bytes for one in self.alive if one.asleep)
        if asleep > self.settings.host_bytes:
            raise Violation(f"the host's memory holds {asleep} of {self.settings.host_bytes}")

    def _obey(self) -> None:
        """Do what the router wants."""
        raise NotImplementedError

    def _break(self, request: int, attempt: int) -> None:
        """A request's connection breaks: its clients know what follows."""
        raise NotImplementedError
