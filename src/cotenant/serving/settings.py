"""What the router is told: replicas, models, patience."""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Hosted:
    """One replica. Bytes are of each of its devices: awake, asleep, and the most while it loads; `host_bytes` are
    what it keeps in host memory while it sleeps. `load_ns`: how long a start takes as a rule (it was started
    before), `longest_load_ns`: how long it may take where nothing was kept. `slots`: requests that its engine
    takes at once. `ours`: whether we start and stop it; others are only routed to, and their bytes are not ours to
    count.
    """

    id: str
    model: str
    devices: tuple[int, ...]
    awake_bytes: int
    slots: int
    load_ns: int
    longest_load_ns: int = 0
    load_peak_bytes: int = 0
    asleep_bytes: int = 0
    host_bytes: int = 0
    wake_ns: int = 0
    can_sleep: bool = False
    ours: bool = True

    @property
    def start_bytes(self) -> int:
        """What must be free on each device to start it."""
        return max(self.awake_bytes, self.load_peak_bytes)


@dataclass(frozen=True, slots=True)
class Served:
    """One model: `limit_ns` is how long a request may wait while the model is awake before it is refused at the
    door (None: until its deadline); `service_ns` is what one request takes, as first guessed."""

    name: str
    priority: int = 0
    limit_ns: int | None = None
    service_ns: int = SECOND


@dataclass(frozen=True, slots=True)
class Settings:
    """Times and limits. `patience_ns`: how long a request waits before a busy model of the same priority makes
    room; `hold_ns`: the same before an idle one does; `residency_ns`: how long a model stays at least. `tries`:
    sendings of one request, as long as no byte of an answer came. `slack`: by how much a load or a wake may exceed
    its expected time before it counts as hung. `full_ns`: how long nothing is sent to an engine that says it is
    full, unless one of its answers ends before."""

    patience_ns: int = 10 * SECOND
    residency_ns: int = 5 * SECOND
    hold_ns: int = 0
    deadline_ns: int = 600 * SECOND
    most_waiting: int = 1000
    tries: int = 2
    slack: int = 4
    least_start_ns: int = 30 * SECOND
    grace_ns: int = 10 * SECOND
    kill_every_ns: int = 5 * SECOND
    probe_ns: int = 10 * SECOND
    stalls: int = 3
    full_ns: int = SECOND
    backoff_ns: int = SECOND
    most_backoff_ns: int = 60 * SECOND
    broken_after: int = 3
    drain_ns: int = 30 * SECOND
    host_bytes: int = 2**62
    idle_ns: int | None = None
    preemptions: int = 2
