"""A simulated world for the live router: engines that crash, hang, load slowly, lose replies; clocks that jump.

One seed is one world: 3 models with 4 replicas on 2 devices, 200 requests or more, 3 faults or more, then a drain.
What the router wants done is done here as a machine would do it, late and sometimes not at all; an oracle that
shares nothing with the router watches every step. Everything follows from the seed: `run(seed)` gives
the same world again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from cotenant.serving.effects import Cancel, Probe, Refuse, Send, Sleep, Start, Stop, Wake
from cotenant.serving.router import Router
from cotenant.serving.settings import SECOND, Hosted, Served, Settings

MS = SECOND // 1000
_URGENCIES, _SPANS_S = (0, 0, 0, 5, 10), (3, 20, 60, 60)
SLACK = 60 * SECOND  # how long after its deadline a request may end, where a clock was set back by less


class Violation(Exception):  # noqa: N818 - what the oracle says
    """A promise that the router broke."""


@dataclass(slots=True)
class Process:
    """An engine as the machine sees it."""

    replica: int
    generation: int
    holds: int
    loaded: bool = False
    asleep: bool = False
    hung: bool = False
    alive: bool = True
    awake_since: int = 0
    running: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Asked:
    """A request as its client sees it."""

    model: int
    client: int
    priority: int
    deadline: int
    attempt: int = 0
    process: Process | None = None
    begun: bool = False
    ended: str = ""
    gone: bool = False


class World:
    """The machine, the clients and the oracle."""

    def __init__(self, seed: int, make: Callable[..., Router] = Router) -> None:
        self.random = random = Random(seed)
        self.now = 0
        self.offset = 0
        self.set_back = 0
        self.heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self.count = 0
        self.asked: dict[int, Asked] = {}
        self.live: dict[int, Process] = {}  # by replica: the newest process
        self.alive: list[Process] = []
        self.lossy = 0.0
        self.draining = False
        self.events = 0
        self.told: list[tuple[int, int, str]] = []
        self._fleet(random)
        self.router = make(self.hosts, self.models, self.capacity, self.settings)
        self.waiting: list[dict[int, int]] = [{} for _ in self.models]  # by priority
        self.lines: dict[tuple[int, int, int], int] = {}  # by model, priority and client
        self.passed: dict[tuple[int, int, int], dict[int, int]] = {}
        self.uniform = len({one.priority for one in self.models}) == 1 and not self.mixed
        self._plan(random)

    # --- what there is ---

    def _fleet(self, random: Random) -> None:
        self.capacity = [1000, random.choice((800, 1000))]
        self.mixed = random.random() < 0.6
        self.models = [
            Served(f"m{place}", random.choice((0, 0, 5)) if self.mixed else 0, service_ns=300 * MS)
            for place in range(3)
        ]
        place = [(0,), (1,), (0, 1) if random.random() < 0.3 else (0,), (1,)]
        self.hosts = []
        for number, model in enumerate((0, 1, 2, random.choice((0, 2)))):
            awake = random.choice((350, 500, 650))
            sleeps = random.random() < 0.4
            self.hosts.append(
                Hosted(
                    f"r{number}", f"m{model}", place[number], awake, random.choice((1, 2, 4)),
                    load_ns=random.randrange(300, 4000) * MS, load_peak_bytes=awake + random.choice((0, 100)),
                    asleep_bytes=random.choice((0, 40)) if sleeps else 0, host_bytes=awake if sleeps else 0,
                    wake_ns=300 * MS, can_sleep=sleeps,
                )
            )  # fmt: skip
        self.settings = Settings(
            patience_ns=random.choice((500, 2000)) * MS, residency_ns=random.choice((0, 1000, 3000)) * MS,
            deadline_ns=60 * SECOND, most_waiting=random.choice((20, 1000)), least_start_ns=8 * SECOND,
            grace_ns=SECOND, kill_every_ns=SECOND, probe_ns=SECOND, drain_ns=10 * SECOND,
            backoff_ns=200 * MS, most_backoff_ns=5 * SECOND, host_bytes=random.choice((600, 2000)),
        )  # fmt: skip

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
        self.at(span + random.randrange(30) * SECOND, self._drain)

    # --- time ---

    def at(self, moment: int, act: Callable[..., None], *told: object) -> None:
        """Something will happen."""
        self.count = count = self.count + 1
        heappush(self.heap, (moment, count, act, told))

    def after(self, least: int, most: int, act: Callable[..., None], *told: object) -> None:
        """Something will happen in a while."""
        self.at(self.now + least + int(self.random.random() * (most - least)), act, *told)

    @property
    def clock(self) -> int:
        """What the gateway's clock shows."""
        return self.now + self.offset

    def run(self) -> None:
        """To the end; raises Violation where a promise is broken."""
        router, heap = self.router, self.heap
        while True:
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
            if router.floor.effects:
                self.obey()
            if self.events > 400_000 or self.now > 3600 * SECOND:
                raise Violation("no end: a deadlock, or a livelock")
        self._judge()

    def obey(self) -> None:
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

    # --- the machine ---

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
        if self.uniform and not self.set_back and not self.offset and awake < self.settings.residency_ns:
            raise Violation(f"replica {process.replica} was sent away after {awake / SECOND:.2f} s")

    def _sleep(self, effect: Sleep) -> None:
        process = self._known(effect)
        self._stays(process) if process.alive and not self.draining else None
        if process.alive and not process.hung:
            self.after(MS, 200 * MS, self._asleep, process)

    def _asleep(self, process: Process) -> None:
        if process.alive and not process.hung:
            process.asleep, process.holds = True, self.hosts[process.replica].asleep_bytes
            self._say("slept", process)

    def _wake(self, effect: Wake) -> None:
        process = self._known(effect)
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
        self.after(MS, 30 * MS, self._hear, what, process)

    def _hear(self, what: str, process: Process) -> None:
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

    # --- requests ---

    def _arrive(self, request: int, model: int, client: int) -> None:
        random = self.random
        priority = _URGENCIES[int(random.random() * 5)] if self.mixed else self.models[model].priority
        span = _SPANS_S[int(random.random() * 4)] * SECOND
        self.asked[request] = Asked(model, client, priority, self.clock + span)
        self._counts(self.asked[request], 1)
        if random.random() < 0.08:
            self.after(MS, 10 * SECOND, self._leave, request)
        self.router.arrived(self.clock, request, f"m{model}", f"c{client}", priority, self.clock + span)

    def _leave(self, request: int) -> None:
        one = self.asked[request]
        if one.ended:
            return
        process = one.process
        if process is None:
            self._counts(one, -1)
        one.gone = True
        self.router.left(self.clock, request)
        self.obey()
        if process is not None and request in process.running:
            raise Violation(f"request {request} goes on although its client left")
        self._end(request, "left")

    def _send(self, effect: Send) -> None:
        one, host = self.asked[effect.request], self.hosts[effect.replica]
        process = self.live.get(effect.replica)
        if one.ended:
            raise Violation(f"request {effect.request} was sent after it had ended ({one.ended})")
        if one.begun:
            raise Violation(f"request {effect.request} was sent again after its first byte")
        if one.process is not None:
            raise Violation(f"request {effect.request} runs twice")
        if host.model != self.models[one.model].name:
            raise Violation(f"request {effect.request} went to another model")
        if process is None or process.generation != effect.generation:
            raise Violation(f"request {effect.request} went to a process that is none")
        self._in_order(one)
        one.attempt += 1
        if not process.alive:
            self.after(MS, 20 * MS, self._break, effect.request, one.attempt)
            one.process = process
            return
        if not process.loaded or process.asleep:
            raise Violation(f"request {effect.request} went to replica {effect.replica}, which is not up")
        one.process = process
        process.running.add(effect.request)
        if len(process.running) > host.slots:
            raise Violation(f"replica {effect.replica} has {len(process.running)} requests in {host.slots} slots")
        first = self.now + 10 * MS + int(self.random.random() * 200 * MS)
        self.at(first, self._first, effect.request, one.attempt)

    def _in_order(self, one: Asked) -> None:
        """Nobody of higher priority waits, and no client is passed again and again by another."""
        self._counts(one, -1)
        waiting = self.waiting[one.model]
        for level, count in waiting.items():
            if count > 0 and level > one.priority:
                raise Violation(f"priority {one.priority} was served while {count} of {level} waited")
        for client in range(3):
            key = (one.model, one.priority, client)
            if client == one.client:
                self.passed[key] = {}
            elif self.lines.get(key):
                passed = self.passed.setdefault(key, {})
                passed[one.client] = passed.get(one.client, 0) + 1
                if passed[one.client] > 6:
                    raise Violation(
                        f"client {client} was passed {passed[one.client]} times by client {one.client}"
                    )
            elif key in self.passed:
                del self.passed[key]

    def _counts(self, one: Asked, more: int) -> None:
        """One more, or one less, that waits."""
        waiting, key = self.waiting[one.model], (one.model, one.priority, one.client)
        waiting[one.priority] = waiting.get(one.priority, 0) + more
        self.lines[key] = self.lines.get(key, 0) + more

    def _first(self, request: int, attempt: int) -> None:
        one = self.asked[request]
        if self._over(one, request, attempt):
            return
        one.begun = True
        self.router.first_byte(self.clock, request)
        self.after(10 * MS, 1500 * MS, self._finish, request, attempt)

    def _over(self, one: Asked, request: int, attempt: int) -> bool:
        process = one.process
        return (
            bool(one.ended)
            or one.attempt != attempt
            or process is None
            or not process.alive
            or process.hung
            or request not in process.running
        )

    def _finish(self, request: int, attempt: int) -> None:
        one = self.asked[request]
        if self._over(one, request, attempt) or self.random.random() < self.lossy / 2:
            return
        if one.process is not None:
            one.process.running.discard(request)
        self._end(request, "answered")
        self.router.finished(self.clock, request)

    def _break(self, request: int, attempt: int) -> None:
        one = self.asked[request]
        if one.ended or one.attempt != attempt or one.process is None:
            return
        self._put_back(request)
        self.router.broke(self.clock, request, "connection reset")

    def _put_back(self, request: int) -> None:
        one = self.asked[request]
        if one.process is not None:
            one.process.running.discard(request)
            one.process = None
            if not one.gone:
                self._counts(one, 1)

    def _cancel(self, effect: Cancel) -> None:
        one = self.asked[effect.request]
        self._put_back(effect.request)
        one.attempt += 1  # whatever is under way of the last one is not told

    def _refuse(self, effect: Refuse) -> None:
        one = self.asked[effect.request]
        if one.gone:
            raise Violation(f"request {effect.request} was answered after its client left")
        if effect.begun != one.begun:
            raise Violation(f"request {effect.request}: begun is {one.begun}, its error says {effect.begun}")
        if effect.status == 429 and not effect.retry_after_s:
            raise Violation("429 without Retry-After")
        self._end(effect.request, f"{effect.status} {effect.code}")

    def _end(self, request: int, how: str) -> None:
        one = self.asked[request]
        if one.ended:
            raise Violation(f"request {request} ended twice: {one.ended}, then {how}")
        if one.process is None:
            self._counts(one, 0 if one.gone else -1)
        elif how.startswith(("5", "4")) and request in one.process.running:
            raise Violation(f"request {request} goes on in its engine after {how}")
        one.ended = how
        if self.clock > one.deadline + SLACK + self.set_back:
            raise Violation(f"request {request} ended {(self.clock - one.deadline) / SECOND:.1f} s late: {how}")

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

    def _slow(self) -> None:
        for process in self.alive:
            if not process.loaded:
                process.hung = True

    def _repeat(self) -> None:
        """Replies of long ago come once more."""
        for replica, generation, what in self.told[-40:]:
            if what in ("up", "slept", "down") and generation < self.router.floor.replicas[replica].generation:
                getattr(self.router, what)(self.clock, replica, generation)
                self.obey()

    def _crowd(self) -> None:
        """Somebody else takes memory for a while."""
        device = self.random.randrange(2)
        self.router.measured(self.clock, device, self.random.randrange(400))
        self.after(SECOND, 5 * SECOND, self._uncrowd, device)

    def _uncrowd(self, device: int) -> None:
        self.router.measured(self.clock, device, 0)

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
