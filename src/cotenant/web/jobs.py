"""Long questions in a fair queue: few at once, each in a process of its own that a cancel really stops.

Addresses take turns, and so do the clients of each, however much each has asked for: a client is an address and,
after a space, a name of its own choice, which gains it nothing over other addresses. What waits, runs and is kept
is bounded in number, bytes and time.
"""

from __future__ import annotations

import asyncio
import pickle
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant.web.hands import Hand
from cotenant.web.memo import Memo
from cotenant.web.outcomes import BUSY, broken, failed, too_long

ENDED = ("done", "failed", "cancelled")
_PROGRESS_KEPT = 200


@dataclass(frozen=True, slots=True)
class Bounds:
    """`workers` jobs run at once (`running_per_client` of one client: None, all of them), each with `job_bytes` of
    memory and `job_s` seconds, in processes that end after `worker_jobs` and stand `nice` steps behind the server.
    `waiting` jobs may wait, of `waiting_bytes` together, and `per_client` of one client. Results are kept `kept_s`
    seconds, `kept` of them and `kept_bytes` together; answers for who asks the same again, `memo_bytes`.
    `finishes`: what runs is worked to its end though nobody waits any more: that is sooner than a new process."""

    workers: int = 2
    running_per_client: int | None = None
    job_bytes: int = 4 * 2**30
    job_s: float = 600.0
    worker_jobs: int | None = 50
    nice: int = 10
    waiting: int = 64
    waiting_bytes: int = 128 * 2**20
    per_client: int = 16
    kept: int = 200
    kept_bytes: int = 256 * 2**20
    kept_s: float = 1800.0
    memo_bytes: int = 64 * 2**20
    finishes: bool = False


@dataclass(slots=True, eq=False)
class Job:
    """One question on its way. `state`: waiting, running, done, failed or cancelled."""

    id: str
    kind: str
    client: str
    question: bytes
    state: str = "waiting"
    progress: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0  # of the progress, from its start
    result: bytes = b""
    errors: list[dict[str, str]] = field(default_factory=list)
    status: int = 0  # of HTTP, where it failed: whose fault it was
    ended_at: float = 0.0
    key: str | None = None  # of the question, where its answer may be given to others who ask the same
    others: list[Job] = field(default_factory=list)  # who asked the same while it ran
    task: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Add to the progress and wake whoever follows it."""
        self.progress.append(dict(message))
        if len(self.progress) > _PROGRESS_KEPT:
            del self.progress[0]
            self.dropped += 1
        self.wake()
        for other in self.others:
            other.tell(message)

    def wake(self) -> None:
        """Whoever waits for a change sees one; later ones wait for the next."""
        self.changed.set()
        self.changed = asyncio.Event()


class FullError(Exception):
    """The queue takes no more; `reason` is a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Board:
    """All jobs. Everything happens on one event loop."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._queues: OrderedDict[str, deque[Job]] = OrderedDict()  # by client; of each address the first is next
        self._turns: dict[str, int] = {}  # when each address that waits had its last one
        self._turn = 0
        self._free = [
            Hand(bounds.job_bytes, most_jobs=bounds.worker_jobs, nice=bounds.nice) for _ in range(bounds.workers)
        ]
        self._at_work: Counter[str] = Counter()  # jobs that run, by client
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self.memo = Memo(bounds.memo_bytes)

    def submit(
        self,
        client: str,
        kind: str,
        asked: Mapping[str, Any],
        known: Mapping[str, Any],
        key: str | None = None,
    ) -> Job:
        """A new job in its client's queue; `known` are the models that it names. Where the same question (`key`)
        was answered it has ended already, where it is being answered it waits for that. Raises FullError."""
        self.forget()
        job = Job(secrets.token_hex(16), kind, client, b"", key=key)
        answered = self.memo.find(key)
        if answered is not None:
            job.result = answered
            self._end(job, "done")
        else:
            self._refuse_many(client)
            if not self._joined(job):
                self._admit(job, pickle.dumps((kind, dict(asked), dict(known))))
        self._jobs[job.id] = job
        self._start()
        return job

    def _refuse_many(self, client: str) -> None:
        mine = sum(one.client == client and one.state not in ENDED for one in self._jobs.values())
        if mine >= self.bounds.per_client:
            raise FullError(f"{mine} jobs of yours wait or run already")

    def _joined(self, job: Job) -> bool:
        """Whether `job` now follows another one of the same question."""
        if job.key is None:
            return False
        for one in self._jobs.values():
            if one.key == job.key and one.question and len(one.others) < self.bounds.waiting:
                job.state, job.progress = one.state, list(one.progress)
                one.others.append(job)
                return True
        return False

    def _admit(self, job: Job, question: bytes) -> None:
        waiting = [job for queue in self._queues.values() for job in queue]
        full = len(waiting) >= self.bounds.waiting
        leaves = self._who_leaves(job.client, waiting) if full else None
        if full and leaves is None:
            raise FullError(f"{self.bounds.waiting} jobs wait already")
        held = sum(len(one.question) for one in waiting if one is not leaves) + len(question)
        if held > self.bounds.waiting_bytes:
            raise FullError("the jobs that wait hold too much already")
        if leaves is not None:
            self._turn_away(leaves)
        job.question = question
        self._queues.setdefault(job.client, deque()).append(job)

    def _who_leaves(self, client: str, waiting: list[Job]) -> Job | None:
        """A job of who has most, for one of who has less: of another address, or of another client of the address
        that has most itself."""
        shares = Counter(_address(job.client) for job in waiting)
        mine, most = shares[_address(client)], max(shares.values())
        if mine == most:
            clients = Counter(job.client for job in waiting if _address(job.client) == _address(client))
            crowd = [one for one, theirs in clients.items() if theirs > clients[client] + 1]
        else:
            crowd = [job.client for job in waiting if shares[_address(job.client)] == most > mine + 1]
        able = [job for job in waiting if job.client in crowd and not job.others]
        if not able:
            return None
        clients = Counter(job.client for job in able)
        return max(reversed(able), key=lambda one: clients[one.client])  # the newest of who has most there

    def _turn_away(self, job: Job) -> None:
        self._unqueue(job)
        job.status, job.errors = BUSY, failed(BUSY, "others who had less came in its place", "try again")["errors"]
        self._end(job, "failed")

    def _unqueue(self, job: Job) -> None:
        queue = self._queues.get(job.client)
        if queue is not None and job in queue:
            queue.remove(job)
            if not queue:
                del self._queues[job.client]

    async def answer(
        self,
        client: str,
        kind: str,
        asked: Mapping[str, Any],
        known: Mapping[str, Any],
        key: str | None = None,
    ) -> Job:
        """A job at its end, kept for nobody else. Cancelled (whoever asked has left), so is the job, unless it
        runs and `finishes`. Raises FullError."""
        job = self.submit(client, kind, asked, known, key)
        try:
            while job.state not in ENDED:
                await job.changed.wait()
        finally:
            if not (job.state == "running" and self.bounds.finishes):
                await self.cancel(job)
                self._jobs.pop(job.id, None)
        return job

    async def ready(self, kind: str) -> None:
        """Start every worker that is free and have it answer `kind`, which reads what later answers need."""
        question = pickle.dumps((kind, {}, {}))
        await asyncio.gather(*(hand.ask(question, lambda _: None) for hand in list(self._free)))

    def _leader(self, job: Job) -> Job | None:
        return next((one for one in self._jobs.values() if job in one.others), None)

    def find(self, job_id: str) -> Job | None:
        """The job of that id, while it is kept."""
        self.forget()
        return self._jobs.get(job_id)

    def ahead(self, job: Job) -> int:
        """How many jobs run before `job`, or the one that it follows, if nobody else comes."""
        job = self._leader(job) or job
        queues = OrderedDict((client, deque(queue)) for client, queue in self._queues.items())
        turns, turn = dict(self._turns), self._turn
        for before in range(sum(map(len, queues.values()))):
            client = min(queues, key=lambda one: turns.get(_address(one), 0))
            turn += 1
            turns[_address(client)] = turn
            if _taken(queues, client) is job:
                return before
        return 0

    async def cancel(self, job: Job) -> None:
        """End it, wherever it is; nothing happens to one that has ended."""
        leader = self._leader(job)
        if leader is not None:
            leader.others.remove(job)
            self._end(job, "cancelled")
        elif job.state == "waiting":
            self._unqueue(job)
            self._end(job, "cancelled")
            self._start()
        elif job.state == "running" and job.task is not None:
            self._end(job, "cancelled")
            job.task.cancel()
            await asyncio.wait([job.task])

    async def close(self) -> None:
        """Cancel everything and end all processes."""
        self._closing = True
        for job in list(self._jobs.values()):
            await self.cancel(job)
        if self._tasks:
            await asyncio.wait(self._tasks)
        for hand in self._free:
            await hand.end()

    def _start(self) -> None:
        while self._free and not self._closing:
            able = filter(self._may_run, self._queues)
            client = min(able, key=lambda one: self._turns.get(_address(one), 0), default=None)
            if client is None:
                return
            job = _taken(self._queues, client)
            self._turn += 1
            waiting = set(map(_address, self._queues))
            self._turns = {one: turn for one, turn in self._turns.items() if one in waiting}
            self._turns[_address(client)] = self._turn
            for one in (job, *job.others):
                one.state = "running"
                one.wake()
            self._set_to_work(job, self._free.pop())

    def _may_run(self, client: str) -> bool:
        most = self.bounds.running_per_client
        return most is None or self._at_work[client] < most

    def _set_to_work(self, job: Job, hand: Hand) -> None:
        job.task = asyncio.get_running_loop().create_task(self._run(job, hand))
        self._tasks.add(job.task)
        self._at_work[job.client] += 1

        def freed(task: asyncio.Task[None]) -> None:
            """Also of a task that was cancelled before its first step, whose own code never runs."""
            self._tasks.discard(task)
            self._at_work -= Counter([job.client])  # what is down to none is forgotten
            self._free.append(hand)
            self._end(job, "cancelled")
            self._start()

        job.task.add_done_callback(freed)

    async def _run(self, job: Job, hand: Hand) -> None:
        most_s = self.bounds.job_s
        try:
            async with asyncio.timeout(most_s):
                told = await hand.ask(job.question, job.tell)
        except TimeoutError:
            told = too_long(most_s)
        except asyncio.CancelledError:
            self._closing = self._closing or job.state not in ENDED  # not by us: the loop itself comes to its end
            return
        except Exception as error:  # a job never stays as it was: who waits for it would wait for ever
            told = broken(error)
        if "result" in told:
            job.result = told["result"].encode()
            self.memo.keep(job.key, job.result)
            self._end(job, "done")
        else:
            job.errors, job.status = told["errors"], told["status"]
            self._end(job, "failed")

    def _end(self, job: Job, state: str) -> None:
        if job.state in ENDED:
            return
        question, others = job.question, job.others
        job.state, job.question, job.others = state, b"", []
        job.ended_at = asyncio.get_running_loop().time()
        job.wake()
        if state == "cancelled" and others and not self._closing:
            self._inherit(question, others)
            return
        for one in others:
            one.result, one.errors, one.status = job.result, job.errors, job.status
            self._end(one, state)

    def _inherit(self, question: bytes, others: list[Job]) -> None:
        """What one client no longer wants, others still do: the first of them asks anew."""
        heir, *rest = others
        heir.question, heir.others = question, rest
        for one in others:
            one.state = "waiting"
            one.wake()
        self._queues.setdefault(heir.client, deque()).append(heir)

    def forget(self) -> None:
        """Let go of what ended long ago, and of the oldest results where they are too many."""
        now = asyncio.get_running_loop().time()
        ended = [job for job in self._jobs.values() if job.state in ENDED]
        size = sum(len(job.result) for job in ended)
        for number, job in enumerate(sorted(ended, key=lambda one: one.ended_at)):
            many = len(ended) - number > self.bounds.kept or size > self.bounds.kept_bytes
            if many or now - job.ended_at > self.bounds.kept_s:
                size -= len(job.result)
                del self._jobs[job.id]


def _address(client: str) -> str:
    return client.partition(" ")[0]


def _taken(queues: OrderedDict[str, deque[Job]], client: str) -> Job:
    """The client's next job; after that it is the last one in turn."""
    queue = queues[client]
    job = queue.popleft()
    queues.move_to_end(client)
    if not queue:
        del queues[client]
    return job
