"""What a simulated world is made of: processes, requests as clients see them, a fleet drawn from the seed, and a
clock that jumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappush
from random import Random

from cotenant.serving.router import Router
from cotenant.serving.settings import SECOND, Hosted, Served, Settings

MS = SECOND // 1000


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
    errs: str = ""  # what it answers in the place of an answer, though it lives: "500", or "429" for full
    awake_since: int = 0
    noted: str = "loading"  # what the gateway wrote down of it last
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


class Ground:
    """The fleet, the clock, and what will happen."""

    def __init__(self, seed: int, make: Callable[..., Router] = Router) -> None:
        self.random = random = Random(seed)
        self.now = 0
        self.offset = 0
        self.set_back = 0
        self.heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self.count = 0
        self.make, self.seed, self.epoch, self.restarts = make, seed, 0, 0
        self.adoptions: dict[str, int] = {}
        self.asked: dict[int, Asked] = {}
        self.live: dict[int, Process] = {}  # by replica: the newest process
        self.alive: list[Process] = []
        self.lossy = 0.0
        self.draining = False
        self.events = 0
        self.planned = [0, 1, 2, 3]  # the numbers of the replicas of the plan of now
        self.unplanned: set[int] = set()
        self.told: list[tuple[int, int, str]] = []
        self._fleet(random)
        self.known = list(self.hosts)  # of every model one, also of those that a plan has left out
        self.router = make(self.hosts, self.models, self.capacity, self.settings)
        self.waiting: list[dict[int, int]] = [{} for _ in self.models]  # by priority
        self.lines: dict[tuple[int, int, int], int] = {}  # by model, priority and client
        self.passed: dict[tuple[int, int, int], dict[int, int]] = {}
        self.uniform = len({one.priority for one in self.models}) == 1 and not self.mixed

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
            hold_ns=random.choice((0, 0, 700, 2500)) * MS,
        )  # fmt: skip

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
