"""A simulated world for the live router: engines that crash, hang, load slowly, lose replies; clocks that jump;
plans that change while requests run; gateways that are killed and take over what is left.

One seed is one world: 3 models with 4 replicas on 2 devices, 200 requests or more, 3 faults or more, then a drain.
What the router wants done is done here as a machine would do it, late and sometimes not at all; an oracle that
shares nothing with the router watches every step. Everything follows from the seed: `run(seed)` gives
the same world again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from heapq import heappop
from random import Random

from bench.fault_ground import MS, Process, Violation
from bench.fault_restart import Restarts
from cotenant.serving.effects import Cancel, Refuse, Send, Sleep, Start, Stop, Wake
from cotenant.serving.replica import State
from cotenant.serving.router import Router
from cotenant.serving.settings import SECOND, Hosted

__all__ = ["Violation", "World", "run"]


class World(Restarts):
    """What goes wrong when, to the end."""

    def __init__(self, seed: int, make: Callable[..., Router] = Router) -> None:
        super().__init__(seed, make)
        self._plan(self.random)

    def _plan(self, random: Random) -> None:
        span = random.choice((20, 60)) * SECOND
        number = 200 + random.randrange(30)
        flood, draw = random.randrange(3), random.random
        for request in range(number):
            at = int(draw() * span) if draw() < 0.6 else (request % 4) * span // 4 + int(draw() * MS)
            client = flood if draw() < 0.6 else int(draw() * 3)
            self.at(at, self._arrive, request, int(draw() * 3), client)
        faults = (self._crash, self._hang, self._lose, self._jump, self._slow, self._repeat, self._crowd)
        for _ in range(3 + random.randrange(3)):
            self.at(random.randrange(span), random.choice(faults))
        if random.random() < 0.3:
            for _ in range(1 + random.randrange(2)):
                self.at(random.randrange(span), self._reload)
        self.at(span + random.randrange(30) * SECOND, self._drain)
        errors = Random(f"errors/{self.seed}")
        for _ in range(errors.randrange(4)):
            self.at(errors.randrange(span), self._err, errors.choice(("500", "429")))
        apart = Random(f"restart/{self.seed}")
        if apart.random() < 0.25:
            for _ in range(1 + apart.randrange(2)):
                self.at(apart.randrange(span), self._restart)

    def run(self) -> None:
        """To the end; raises Violation where a promise is broken."""
        heap = self.heap
        while True:
            router = self.router
            due = router.next_ns()
            tick = None if due is None else max(self.now, due - self.offset)
            if heap and (tick is None or heap[0][0] <= tick):
                self.now, _, act, told = heappop(heap)
                act(*told)
            elif tick is not None and not (router.drained and not heap):
                if tick == self.now and self.events > 200_000:
                    raise Violation("the router asks for the same tick again and again")
                self.now = tick
                router.tick(self.clock)
            else:
                break
            self.events += 1
            if self.router.floor.effects:
                self._obey()
            if self.events > 400_000 or self.now > 3600 * SECOND:
                raise Violation("no end: a deadlock, or a livelock")
        self._judge()

    def _obey(self) -> None:
        """Do what the router wants, as far as this world lets it."""
        for effect in self.router.take():
            if isinstance(effect, Send):
                self._send(effect)
            elif isinstance(effect, Cancel):
                self._cancel(effect)
            elif isinstance(effect, Refuse):
                self._refuse(effect)
            elif isinstance(effect, Start):
                self._start(effect)
            elif isinstance(effect, Stop):
                self._stop(effect)
            elif isinstance(effect, Sleep):
                self._sleep(effect)
            elif isinstance(effect, Wake):
                self._wake(effect)
            else:
                self._probe(effect)
        for process in self.alive:
            if not process.running and self.router.floor.replicas[process.replica].state is State.DRAINING:
                raise Violation(f"replica {process.replica} runs nothing, and is kept from making room")

    # --- faults ---

    def _crash(self) -> None:
        if self.alive:
            self._die(self.random.choice(self.alive))

    def _hang(self) -> None:
        if self.alive:
            self.random.choice(self.alive).hung = True

    def _lose(self) -> None:
        self.lossy = 0.3
        self.after(SECOND, 10 * SECOND, self._lose_no_more)

    def _lose_no_more(self) -> None:
        self.lossy = 0.0

    def _jump(self) -> None:
        jump = self.random.randrange(-30, 60) * SECOND
        self.offset += jump
        self.set_back += max(0, -jump)

    def _err(self, answer: str) -> None:
        """Engines that live answer errors now and then."""
        for process in self.alive:
            process.errs = answer
            self.after(SECOND, 20 * SECOND, self._err_no_more, process)

    def _err_no_more(self, process: Process) -> None:
        process.errs = ""

    def _slow(self) -> None:
        for process in self.alive:
            if not process.loaded:
                process.hung = True

    def _repeat(self) -> None:
        """Replies of long ago come once more."""
        for replica, generation, what in self.told[-40:]:
            if what in ("up", "slept", "down") and generation < self.router.floor.replicas[replica].generation:
                getattr(self.router, what)(self.clock, replica, generation)
                self._obey()

    def _crowd(self) -> None:
        """Somebody else takes memory for a while."""
        device = self.random.randrange(2)
        self.router.measured(self.clock, device, self.random.randrange(400))
        self.after(SECOND, 5 * SECOND, self._uncrowd, device)

    def _uncrowd(self, device: int) -> None:
        self.router.measured(self.clock, device, 0)

    def _reload(self) -> None:
        """Another plan: some replicas go on as they are, others are changed or left out; perhaps a model is."""
        if self.draining:
            return
        hosts: list[Hosted] = []
        kept: list[int | None] = []
        gone = self.random.randrange(3) if self.random.random() < 0.2 else None
        for number in self.planned:
            host = self.hosts[number]
            if self.models[int(host.model[1:])].name == f"m{gone}":
                continue
            if self.random.random() < 0.6:
                hosts.append(host)
                kept.append(number)
            elif self.random.random() < 0.8:
                hosts.append(self._changed(host))
                kept.append(None)
        models = [one for place, one in enumerate(self.models) if place != gone]
        missing = {one.name for one in models} - {one.model for one in hosts}
        for name in sorted(missing):  # a plan serves all of its models
            hosts.append(self._changed(next(one for one in self.known if one.model == name)))
            kept.append(None)
        size = dict(enumerate(self.capacity))
        numbers = self.router.replan(self.clock, hosts, models, size, kept)
        for number, host in zip(numbers, hosts, strict=True):
            if number == len(self.hosts):
                self.hosts.append(host)
            elif number > len(self.hosts) or self.hosts[number] is not host:
                raise Violation(f"replica {number} is another one than was planned")
        self.planned = numbers
        self.unplanned = set(range(len(self.hosts))) - set(numbers)

    def _changed(self, host: Hosted) -> Hosted:
        awake = self.random.choice((350, 500, 650))
        return replace(
            host, id=f"r{self.count}", slots=self.random.choice((1, 2, 4)), awake_bytes=awake,
            load_peak_bytes=awake + self.random.choice((0, 100)), host_bytes=awake if host.can_sleep else 0,
        )  # fmt: skip

    def _drain(self) -> None:
        self.draining = True
        self.router.drain(self.clock)

    # --- the end ---

    def _judge(self) -> None:
        lost = [request for request, one in self.asked.items() if not one.ended]
        if lost:
            raise Violation(f"{len(lost)} requests without an end, the first {lost[0]}")
        if not self.router.drained:
            raise Violation("the drain does not end")
        if self.alive:
            raise Violation(f"{len(self.alive)} processes are left behind")
        if self.router.floor.requests:
            raise Violation(f"{len(self.router.floor.requests)} requests are still in the books")
        self.router.floor.ledger.check()
        if any(self.router.floor.ledger.held):
            raise Violation(f"the ledger still holds {self.router.floor.ledger.held}")


def run(seed: int, make: Callable[..., Router] = Router) -> World:
    """The world of a seed, to its end. Raises Violation (or CheckError) where the router broke a promise."""
    world = World(seed, make)
    world.run()
    return world
