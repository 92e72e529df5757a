"""Requests, and the queue of one model: by priority, then fair among clients, then as they came."""

from __future__ import annotations

from collections import deque

from cotenant.policy.turns import fairest


class Request:
    """One request from its arrival to its end. `replica` is where it runs, None while it waits."""

    __slots__ = (
        "arrived_ns", "begun", "client", "deadline_ns", "id", "model", "preempted", "priority", "replica",
        "sent_ns", "tries", "waits",
    )  # fmt: skip

    def __init__(
        self, number: int, model: int, client: str, priority: int, arrived_ns: int, deadline_ns: int
    ) -> None:
        self.id, self.model, self.client, self.priority = number, model, client, priority
        self.arrived_ns, self.deadline_ns = arrived_ns, deadline_ns
        self.replica: int | None = None
        self.sent_ns = 0
        self.tries = self.preempted = 0
        self.begun = self.waits = False


class Waiting:
    """The queue. Who is served next: the highest priority, of these the client that was served least, of its
    requests the first. Those that leave are dropped when they are met."""

    __slots__ = ("_levels", "_order", "count", "counts")

    def __init__(self) -> None:
        self._levels: dict[int, _Level] = {}
        self._order: deque[Request] = deque()
        self.count = 0
        self.counts: dict[int, int] = {}  # waiting requests by priority

    def push(self, request: Request, *, first: bool = False) -> None:
        """Let a request wait; `first`: as one that was sent before, ahead of all that arrived later."""
        level = self._levels.get(request.priority)
        if level is None:
            level = self._levels[request.priority] = _Level()
        level.push(request, first)
        _enter(self._order, request, first)
        request.waits = True
        self.count += 1
        self.counts[request.priority] = self.counts.get(request.priority, 0) + 1

    def drop(self, request: Request) -> None:
        """It no longer waits."""
        request.waits = False
        self.count -= 1
        self.counts[request.priority] -= 1
        if len(self._order) > 2 * self.count + 64:
            self._order = deque(one for one in self._order if one.waits)

    def priority(self) -> int:
        """The highest priority that waits; there must be one."""
        found = None
        for level, count in self.counts.items():
            if count and (found is None or level > found):
                found = level
        if found is None:
            raise IndexError("nobody waits")
        return found

    def priority_but(self, priority: int) -> int:
        """The highest priority that waits, one request of `priority` not counted; below it where there is none."""
        found = priority - 1
        for level, count in self.counts.items():
            if count > (level == priority) and level > found:
                found = level
        return found

    def ahead(self, priority: int) -> int:
        """How many wait at this priority or above."""
        found = 0
        for level, count in self.counts.items():
            if level >= priority:
                found += count
        return found

    def oldest_ns(self) -> int:
        """When the one that waits longest arrived; there must be one."""
        while not self._order[0].waits:
            self._order.popleft()
        return self._order[0].arrived_ns

    def pop(self) -> Request:
        """The next one, which waits no more."""
        request = self._levels[self.priority()].pop()
        self.drop(request)
        return request

    def requests(self) -> list[Request]:
        """All that wait, each once, the oldest first."""
        return list({request.id: request for request in self._order if request.waits}.values())


class _Level:
    """One priority: a line for each client."""

    __slots__ = ("lines", "served", "turn")

    def __init__(self) -> None:
        self.lines: dict[str, deque[Request]] = {}
        self.served: dict[str, int] = {}
        self.turn = 0  # what the client served last had been served before

    def push(self, request: Request, first: bool) -> None:
        line = self.lines.get(request.client)
        if line is None:
            line = self.lines[request.client] = deque()
            self.served[request.client] = max(self.turn, self.served.get(request.client, 0))
        _enter(line, request, first)

    def pop(self) -> Request:
        lines = self.lines
        for client in [client for client, line in lines.items() if not _clean(line)]:
            del lines[client]
        clients = list(lines)
        if len(clients) == 1:
            client = clients[0]
        else:
            served = [self.served[one] for one in clients]
            client = clients[fairest(served, [lines[one][0].arrived_ns for one in clients], len(clients))]
        request = lines[client].popleft()
        self.turn = self.served[client]
        self.served[client] += 1
        if len(self.served) > 4 * len(lines) + 64:  # clients that are long gone owe nothing
            self.served = {one: count for one, count in self.served.items() if one in lines or count > self.turn}
            self.served.setdefault(client, self.turn + 1)
        return request


def _enter(line: deque[Request], request: Request, first: bool) -> None:
    """At the end; one that was sent before, where it stood: before the first that arrived later."""
    place = len(line)
    if first:
        later = (number for number, one in enumerate(line) if one.arrived_ns > request.arrived_ns)
        place = next(later, place)
    line.insert(place, request)


def _clean(line: deque[Request]) -> bool:
    """Drop those that left from the head; whether anybody is left."""
    while line and not line[0].waits:
        line.popleft()
    return bool(line)
