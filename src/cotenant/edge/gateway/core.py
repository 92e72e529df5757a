"""The router among real requests and engines: events go in, effects are carried out, timers kept."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from cotenant.edge.gateway.figures import Figures
from cotenant.edge.gateway.log import Log
from cotenant.serving.effects import Cancel, Probe, Refuse, Send, Sleep, Start, Stop, Wake
from cotenant.serving.from_plan import Fleet
from cotenant.serving.router import Router
from cotenant.serving.settings import SECOND, Settings

HOST_MEMORY = "host memory"
Doing = Start | Stop | Sleep | Wake | Probe


class Hands(Protocol):
    """Who starts and stops engines."""

    def do(self, effect: Doing) -> None:
        """Begin it; what comes of it is told to the core later, never at once."""


class Ticket:
    """One request in the gateway. `asked` is the name that the client used, `model` the model that serves it."""

    __slots__ = (
        "arrived_s", "asked", "body", "client", "commands", "deadline_s", "ended_s", "events", "first_s", "id",
        "model", "out", "path", "priority", "recalled", "relaying", "sent_s", "stream", "task", "waker",
    )  # fmt: skip

    def __init__(
        self, number: int, *, model: str, asked: str, path: str, body: bytes, stream: bool, client: str,
        priority: int | None, deadline_s: float | None,
    ) -> None:  # fmt: skip
        self.id, self.model, self.asked, self.path, self.body, self.stream = (
            number,
            model,
            asked,
            path,
            body,
            stream,
        )
        self.client, self.priority, self.deadline_s = client, priority, deadline_s
        self.commands: deque[Send | Refuse] = deque()
        self.waker: asyncio.Future[None] | None = None
        self.task = asyncio.current_task()
        self.relaying = self.recalled = False
        self.out: Any = None  # the stream to the client, once it has begun
        self.arrived_s = time.monotonic()
        self.sent_s = self.first_s = self.ended_s = 0.0
        self.events = 0  # of its stream, so far

    async def next(self) -> Send | Refuse:
        """What is to be done with it now."""
        while not self.commands:
            self.waker = asyncio.get_running_loop().create_future()
            try:
                await self.waker
            finally:
                self.waker = None
        return self.commands.popleft()

    def give(self, command: Send | Refuse) -> None:
        """Tell whoever waits in `next`."""
        self.commands.append(command)
        if self.waker is not None and not self.waker.done():
            self.waker.set_result(None)

    def recall(self) -> None:
        """Take it back from its engine: one that has not been sent yet is not, one under way is interrupted."""
        if self.commands and isinstance(self.commands[-1], Send):
            self.commands.pop()
        elif self.relaying and not self.recalled and self.task is not None:
            self.recalled = True
            self.task.cancel()


class Core:
    """Everything that the gateway knows. Only the event loop's thread may call it."""

    def __init__(self, fleet: Fleet, settings: Settings, log: Log) -> None:
        self.fleet, self.log = fleet, log
        self.router = Router(fleet.hosts, fleet.models, fleet.devices.bytes, settings)
        self.devices = [*fleet.devices.names, HOST_MEMORY]  # by number in the ledger
        self.figures = Figures(self.router, self.devices)
        self.tickets: dict[int, Ticket] = {}
        self.hands: Hands | None = None
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0

    @property
    def now_ns(self) -> int:
        """The clock that never goes back."""
        return time.monotonic_ns()

    def expect(self, models: Iterable[str]) -> None:
        """Wake those for which traffic is expected, where there is room."""
        for name in models:
            self.router.expect(self.now_ns, name)
        self.pump()

    def number(self) -> int:
        """A new request's number."""
        self._count += 1
        return self._count

    # --- plans ---

    def replan(self, fleet: Fleet, kept: Sequence[int | None]) -> list[int]:
        """Another plan, engine by engine; `kept`: for each of its replicas the one that goes on as it is. Their
        numbers."""
        names, sizes = fleet.devices.names, fleet.devices.bytes
        self.devices += [name for name in names if name not in self.devices]
        numbers = [self.devices.index(name) for name in names]
        hosts = [replace(one, devices=tuple(numbers[device] for device in one.devices)) for one in fleet.hosts]
        self.fleet = fleet
        return self.router.replan(self.now_ns, hosts, fleet.models, dict(zip(numbers, sizes, strict=True)), kept)

    # --- requests ---

    def ask(self, ticket: Ticket) -> None:
        """A request has arrived whole."""
        now = self.now_ns
        deadline = None if ticket.deadline_s is None else now + int(ticket.deadline_s * SECOND)
        self.tickets[ticket.id] = ticket
        self.router.arrived(now, ticket.id, ticket.model, ticket.client, ticket.priority, deadline)
        self.pump()

    def begun(self, ticket: Ticket) -> None:
        """The first bytes of its answer go out."""
        ticket.first_s = time.monotonic()
        self.router.first_byte(self.now_ns, ticket.id)

    def finished(self, ticket: Ticket) -> None:
        """Its answer went out whole."""
        ticket.ended_s = time.monotonic()
        self.router.finished(self.now_ns, ticket.id)
        self.pump()

    def broke(self, ticket: Ticket, reason: str, *, suspect: bool, full: bool) -> None:
        """Its engine did not answer it."""
        self.router.broke(self.now_ns, ticket.id, reason, suspect=suspect, full=full)
        self.pump()

    def left(self, ticket: Ticket) -> None:
        """Its client is gone, or has its answer: nothing is left of it in the router."""
        if ticket.id in self.router.floor.requests:
            self.router.left(self.now_ns, ticket.id)
            self.pump()

    def closed(self, ticket: Ticket, status: int) -> None:
        """It has ended, one way or the other: count it, and say so without a word of its content."""
        self.tickets.pop(ticket.id, None)
        now = time.monotonic()
        total = (ticket.ended_s or now) - ticket.arrived_s
        first = ticket.first_s - ticket.arrived_s if ticket.first_s else None
        self.figures.requests.labels(ticket.model, str(status)).inc()
        self.figures.total.labels(ticket.model).observe(total)
        if first is not None:
            self.figures.first_byte.labels(ticket.model).observe(first)
        if ticket.ended_s and ticket.events > 1:
            pace = (ticket.ended_s - ticket.first_s) / (ticket.events - 1)
            self.figures.pace.labels(ticket.model).observe(pace)
        self.log.request(
            id=ticket.id, model=ticket.asked, client=ticket.client or None, path=ticket.path, status=status,
            stream=ticket.stream or None, came=round(time.time() - (now - ticket.arrived_s), 6),
            queue_s=round((ticket.sent_s or now) - ticket.arrived_s, 6),
            first_s=None if first is None else round(first, 6), total_s=round(total, 6),
        )  # fmt: skip

    # --- carrying out ---

    def pump(self) -> None:
        """Carry out what the router wants, and set its timer."""
        router = self.router
        while router.floor.effects:
            for effect in router.take():
                self._carry_out(effect)
        due = router.next_ns()
        if due is None:
            return
        if self._timer is None or due < self._due_ns:
            if self._timer is not None:
                self._timer.cancel()
            self._due_ns = due
            wait = max(0.0, (due - self.now_ns) / SECOND)
            self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self.now_ns
        due = self.router.next_ns()
        if due is not None and due <= now:
            self.router.tick(now)
        self.pump()

    def _carry_out(self, effect: Doing | Send | Refuse | Cancel) -> None:
        if isinstance(effect, Send | Refuse):
            ticket = self.tickets.get(effect.request)
            if ticket is not None:
                ticket.give(effect)
        elif isinstance(effect, Cancel):
            ticket = self.tickets.get(effect.request)
            if ticket is not None:
                ticket.recall()
                if effect.preempted:
                    self.figures.preemptions.labels(ticket.model).inc()
        elif self.hands is not None:
            self.hands.do(effect)
