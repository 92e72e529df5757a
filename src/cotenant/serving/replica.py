"""One replica as it lives: its state, its requests, its failures."""

from __future__ import annotations

from enum import IntEnum

from cotenant.serving.settings import Hosted
from cotenant.serving.waiting import Request, Waiting


class State(IntEnum):
    """Where a replica stands. Its bytes are held in all states but STOPPED: until its process is gone."""

    STOPPED = 0
    STARTING = 1
    READY = 2
    SUSPECT = 3  # a request failed on it: nothing is sent until a probe has come back
    DRAINING = 4  # makes room: takes no new requests, finishes those it has
    FALLING_ASLEEP = 5
    ASLEEP = 6
    WAKING = 7
    STOPPING = 8


COMING = (State.STARTING, State.WAKING)
UP = (State.READY, State.SUSPECT)
LEAVING = (State.DRAINING, State.FALLING_ASLEEP, State.STOPPING)


class Replica:
    """`since_ns`: when it came up last; `used_ns`: when it last had a request; `until_ns`: when its state counts
    as hung; `retry_ns`: not to be started before; `full_ns`: nothing is sent to it before, as it said that it is
    full; `generation` counts its processes.
    `failures` in a row since its last answer, `failed_starts` since it was up; `retires`: a new plan wants it no
    more."""

    __slots__ = (
        "failed_starts",
        "failures",
        "full_ns",
        "generation",
        "host",
        "index",
        "model",
        "reason",
        "retires",
        "retry_ns",
        "running",
        "since_ns",
        "sleeps_next",
        "stalled",
        "state",
        "until_ns",
        "used_ns",
    )  # fmt: skip

    def __init__(self, index: int, model: int, host: Hosted) -> None:
        self.index, self.model, self.host = index, model, host
        self.state = State.STOPPED if host.ours else State.READY
        self.generation = self.failures = self.failed_starts = self.stalled = 0
        self.since_ns = self.used_ns = self.retry_ns = self.full_ns = 0
        self.until_ns: int | None = None
        self.running: dict[int, Request] = {}
        self.sleeps_next = self.retires = False
        self.reason = ""

    @property
    def free_slots(self) -> int:
        """Requests that it would take just now."""
        return self.host.slots - len(self.running) if self.state is State.READY else 0


class Model:
    """One model: its queue, its replicas, and what a request takes on average."""

    __slots__ = ("index", "limit_ns", "name", "priority", "replicas", "service_ns", "waiting")

    def __init__(self, index: int, name: str, priority: int, limit_ns: int | None, service_ns: int) -> None:
        self.index, self.name, self.priority = index, name, priority
        self.limit_ns, self.service_ns = limit_ns, max(1, service_ns)
        self.replicas: list[Replica] = []
        self.waiting = Waiting()
