"""One engine, step by step, as the textbook has it: a queue, a batch, a pool of blocks.

`begin` decides a step and says what it costs, `end` hands out its tokens. Between the two the clock runs, and
whoever owns it decides how fast (`kernel`). Nothing here knows what time it is, but for the log.
"""

from __future__ import annotations

import heapq

import numpy as np

from cotenant.policy.admission import can_serve, chunk_tokens, may_join
from cotenant.policy.ledger import blocks_of, opens_block
from cotenant.policy.order import ranks
from cotenant.policy.preemption import cheapest, held_back, must_preempt, victim
from cotenant.policy.prefixes import chunk_needs
from cotenant.simulation.costs import FS_PER_NS, StepCosts
from cotenant.simulation.host_copies import HostCopies
from cotenant.simulation.load import NEVER, Event, Limits, Outcome, Requests, Status, sorted_log
from cotenant.simulation.pool import Borrower, Pool
from cotenant.simulation.sequence import Sequence

_EVENTS = {Status.FINISHED: Event.FINISH, Status.CANCELLED: Event.CANCEL, Status.LOST: Event.LOSE}


class Replica:
    """Continuous batching with chunked prefill over paged blocks; preemption by recompute, or to host memory.

    `taken` counts the requests that came, `closed` those that left for good, in whatever way.
    """

    caches = False  # whether it keeps what prompts begin with

    def __init__(
        self,
        requests: Requests,
        limits: Limits,
        costs: StepCosts,
        *,
        pool: Pool | None = None,
        share: Borrower | None = None,
    ) -> None:
        """Blocks are its own, or `share`d out of a `pool` up to as many."""
        self.preempts_cheapest = False  # instead of the latest
        self.copies: HostCopies | None = None  # where who gives way goes, instead of computing again
        self.limits, self.costs, self.requests = limits, costs, requests
        self._rank = ranks(requests.priority.tolist(), requests.arrival_ns.tolist())
        self._inputs, self._outputs = requests.input_tokens.tolist(), requests.output_tokens.tolist()
        self._arrival = requests.arrival_ns.tolist()
        self.came_ns: dict[int, int] = {}  # of requests that came at another time than they were listed for
        self._priority = requests.priority.tolist()
        self._cancel = requests.cancel_ns.tolist()
        self._gives_up = any(cancel < NEVER for cancel in self._cancel)
        self._in_order = len(set(requests.priority.tolist())) <= 1  # then the queue's first came first
        self.waiting: list[tuple[int, int]] = []  # a heap of (rank, request)
        self.running: list[Sequence] = []
        self.admitting = True  # whether the queue may move
        self.reading = False  # whether the step in progress reads prompts
        self._pool, self._share = pool, share
        self._held = self._most_held = 0
        count = len(requests)
        self._generated = [0] * count
        self._status = [int(Status.UNFINISHED)] * count
        self._first, self._finish, self._has_first = [0] * count, [0] * count, [False] * count
        self._log: list[tuple[int, int, int, int]] = []
        self.asked_tokens = self.hit_tokens = 0
        self._preempted = self.preemptions = self.steps = self.closed = self.taken = 0

    @property
    def free_blocks(self) -> int:
        """Blocks that it may take: those of its pool that it does not hold, and that nobody else does."""
        own = self.limits.num_blocks - self._held
        return own if self._pool is None or self._share is None else min(own, self._pool.free_blocks(self._share))

    def _take(self, blocks: int) -> None:
        """Take blocks, or with a negative number give them back."""
        self._held += blocks
        if self._share is not None:
            self._share.held_blocks = self._held

    def _hits(self, request: int, known: int) -> tuple[int, int]:
        """Blocks of a prompt that are cached, and how many of these nobody holds; here there is no cache."""
        return 0, 0

    def _join(self, one: Sequence, hits: int, blocks: int) -> None:
        """A sequence starts with so many blocks, `hits` of them from the cache."""
        self._give(one, blocks)

    def _give(self, one: Sequence, blocks: int) -> None:
        """A sequence takes so many free blocks more."""
        one.blocks += blocks
        self._take(blocks)

    def _return(self, one: Sequence, blocks: int) -> None:
        """A sequence has so many blocks again, filled from host memory as far as it was computed."""
        self._give(one, blocks)

    def _release(self, one: Sequence) -> None:
        """A sequence gives up its blocks."""
        self._take(-one.blocks)

    def _seal(self, one: Sequence) -> None:
        """A sequence's blocks that this step fills may be shared; here nobody would."""

    def forget(self) -> None:
        """What is cached is lost, with the memory that held it; so are copies in host memory."""
        if self.copies is not None:
            self.copies.away.clear()

    @property
    def has_work(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self.running or self.waiting)

    @property
    def load(self) -> int:
        """Requests that wait or run."""
        return len(self.running) + len(self.waiting)

    @property
    def oldest_ns(self) -> int | None:
        """When the oldest waiting request came; None where nothing waits."""
        waiting = self.waiting[:1] if self._in_order else self.waiting
        return min((self.came_ns.get(one, self._arrival[one]) for _, one in waiting), default=None)

    def prompt_of(self, request: int) -> int:
        """Its prompt's tokens."""
        return int(self._inputs[request])

    def size_of(self, request: int) -> int:
        """Tokens that a waiting request has: its prompt, and what it had written before a preemption."""
        return int(self._inputs[request]) + self._generated[request]

    def reads_of(self, request: int) -> int:
        """Tokens of a waiting request that will be read: all, but for those that lie in host memory."""
        if self.copies is None or request not in self.copies.away:
            return self.size_of(request)
        one, _ = self.copies.away[request]
        return 0 if one.decoding else one.known - one.computed

    def first_ns(self, request: int) -> int:
        """When its first token came; 0 before."""
        return self._first[request]

    def expect_caches(self) -> None:
        """Every request will come with its prompt's cache and its first token, from elsewhere, at no cost here."""
        self.copies = HostCopies(0, 0)
        for request, given in enumerate(self._inputs):
            target = given + self._outputs[request]
            one = Sequence(request, self._rank[request], given + 1, target, computed=given, decoding=True)
            self.copies.away[request] = one, blocks_of(given, self.limits.block_size)
            self._generated[request] = 1

    def comes_at(self, request: int, now_ns: int, leaves_ns: int) -> None:
        """A request comes at another time than listed, and gives up at `leaves_ns` (NEVER: does not)."""
        self.came_ns[request] = now_ns
        self._cancel[request] = leaves_ns
        self._gives_up = self._gives_up or leaves_ns < NEVER

    def take_over(self, request: int, other: Replica) -> None:
        """A request that `other` had comes here."""
        if request in other.came_ns:
            self.comes_at(request, other.came_ns[request], other._cancel[request])
        self.arrive(request)

    def fail(self, now_fs: int) -> list[int]:
        """Everything is gone: requests that were being answered are lost; those to be tried again, by rank."""
        for one in self.running:
            self._release(one)
        here = sorted([(one.rank, one.request) for one in self.running] + self.waiting)
        self.running, self.waiting = [], []
        self.forget()
        again = [request for _, request in here if not self._has_first[request]]
        for _, request in here:
            if self._has_first[request]:
                self._close(request, Status.LOST, now_fs)
        self.taken -= len(again)
        return again

    def arrive(self, request: int) -> None:
        """A request joins the queue at its rank; one that can never be served is refused."""
        limits = self.limits
        self.taken += 1
        given, written = self._inputs[request], self._outputs[request]
        if not can_serve(given, written, limits.max_model_len, limits.block_size, limits.num_blocks):
            self._status[request] = int(Status.REFUSED)
            self.closed += 1
            return
        self._enqueue(request)

    def _enqueue(self, request: int) -> None:
        heapq.heappush(self.waiting, (self._rank[request], request))

    def begin(self, now_fs: int) -> int:
        """Decide the next step at this moment; the femtoseconds that it takes alone. 0: nothing is left to do."""
        self.drop_cancelled(now_fs)
        if not self.has_work:
            return 0
        self._preempted = 0
        self._grow(now_fs)
        self._continue_prompt(now_fs)
        for one in self.running:
            self._seal(one)
        self._admit(now_fs)
        self._most_held = max(self._most_held, self._held)
        decoding = [one for one in self.running if one.decoding]
        reading = [one for one in self.running if not one.decoding]
        self.reading = any(one.chunk for one in reading)
        moving = 0 if self.copies is None else self.copies.take_time()
        return moving + self.costs.step(
            len(decoding),
            sum(one.known for one in decoding),
            sum(one.chunk for one in reading),
            sum((one.computed + one.chunk) ** 2 - one.computed**2 for one in reading),
        )

    def end(self, now_fs: int) -> None:
        """The step is over: every sequence whose tokens are all computed gets its next one."""
        now_ns = now_fs // FS_PER_NS
        for one in self.running:
            one.computed += one.chunk
            if one.computed == one.known:
                one.decoding = True
                one.known += 1
                if not self._has_first[one.request]:
                    self._has_first[one.request], self._first[one.request] = True, now_ns
                    self._note(now_fs, Event.FIRST_TOKEN, one.request)
                if one.known == one.target:
                    self._leave(one, Status.FINISHED, now_fs)
        self.running = [one for one in self.running if one.known < one.target]
        self.steps += 1

    def _grow(self, now_fs: int) -> None:
        """A block for each decoding sequence whose blocks are full."""
        size = self.limits.block_size
        while True:
            growing = [one for one in self.running if one.decoding and opens_block(one.computed, size)]
            if not must_preempt(len(growing), self.free_blocks):
                break
            self._preempt(now_fs, len(growing) - self.free_blocks)
        for one in growing:
            self._give(one, 1)
        for one in self.running:
            one.chunk = 1 if one.decoding else 0

    def _continue_prompt(self, now_fs: int) -> None:
        """The prompt that was begun (one at most: it took the whole budget) goes on."""
        for one in [one for one in self.running if not one.decoding]:
            one.chunk = chunk_tokens(one.known - one.computed, self._budget())
            wanted = blocks_of(one.computed + one.chunk, self.limits.block_size) - one.blocks
            while one in self.running and must_preempt(wanted, self.free_blocks):
                self._preempt(now_fs, wanted - self.free_blocks)
            if one in self.running:
                self._give(one, wanted)

    def _admit(self, now_fs: int) -> None:
        """The first of the queue joins, and again, as long as it may."""
        while self.waiting and self.admitting:
            rank, request = self.waiting[0]
            if self.copies is not None and request in self.copies.away:
                if not self._comes_back(now_fs, self.copies, request):
                    return
                continue
            known = self._inputs[request] + self._generated[request]
            budget = self._budget()
            hits, idle = self._hits(request, known)
            computed = hits * self.limits.block_size
            chunk = chunk_tokens(known - computed, budget)
            blocks = blocks_of(computed + chunk, self.limits.block_size)
            if not may_join(
                len(self.running), self.limits.max_num_seqs, budget, chunk_needs(blocks, hits, idle),
                self.free_blocks, self._preempted,
            ):  # fmt: skip
                return
            heapq.heappop(self.waiting)
            target = self._inputs[request] + self._outputs[request]
            one = Sequence(request, rank, known, target, computed=computed, chunk=chunk)
            self.running.append(one)
            self._join(one, hits, blocks)
            self.asked_tokens += known
            self.hit_tokens += computed
            self._note(now_fs, Event.ADMIT, request)

    def _comes_back(self, now_fs: int, copies: HostCopies, request: int) -> bool:
        """Whether one whose cache is in host memory goes on with this step."""
        one, _ = copies.away[request]
        budget = self._budget()
        chunk = chunk_tokens(one.known - one.computed, budget)
        blocks = blocks_of(one.computed + chunk, self.limits.block_size)
        running, spare = len(self.running), held_back(len(self.running), self.limits.num_blocks)
        if not may_join(
            running, self.limits.max_num_seqs, budget, blocks + spare, self.free_blocks, self._preempted
        ):
            return False
        heapq.heappop(self.waiting)
        copies.bring_back(request)
        one.chunk = chunk
        self.running.append(one)
        self._return(one, blocks)
        self._note(now_fs, Event.ADMIT, request)
        return True

    def _budget(self) -> int:
        return self.limits.max_num_batched_tokens - sum(one.chunk for one in self.running)

    def _victim(self, short: int) -> int:
        """Who gives way where `short` blocks are lacking."""
        ranks_of, count = [one.rank for one in self.running], len(self.running)
        if not self.preempts_cheapest:
            return victim(ranks_of, count)
        priorities = [self._priority[one.request] for one in self.running]
        again = [self._again(one) for one in self.running]
        return cheapest(priorities, ranks_of, again, [self._frees(one) for one in self.running], short, count)

    def _again(self, one: Sequence) -> int:
        """Femtoseconds until it is where it is now, once it has given way."""
        blocks = blocks_of(one.computed, self.limits.block_size)
        if self.copies is not None and self.copies.has_room(blocks):
            return 2 * blocks * self.copies.block_fs
        return self.costs.step(0, 0, one.computed, one.computed**2)

    def _frees(self, one: Sequence) -> int:
        """Blocks that are free once it has left."""
        return one.blocks

    def _preempt(self, now_fs: int, short: int) -> None:
        """Somebody gives up its blocks and waits again; what it wrote, it will read as prompt, unless its cache
        goes to host memory."""
        one = self.running.pop(self._victim(short))
        self._release(one)
        if self.copies is not None:
            self.copies.keep(one, blocks_of(one.computed, self.limits.block_size))
        self._generated[one.request] = one.known - self._inputs[one.request]
        self._preempted += 1
        self.preemptions += 1
        self._note(now_fs, Event.PREEMPT, one.request)
        self._enqueue(one.request)

    def drop_cancelled(self, now_fs: int) -> None:
        """Whoever has given up leaves, waiting or running."""
        if not self._gives_up:
            return
        now_ns = now_fs // FS_PER_NS
        gone = [one for one in self.running if self._cancel[one.request] <= now_ns]
        for one in gone:
            self.running.remove(one)
            self._leave(one, Status.CANCELLED, now_fs)
        left = [entry for entry in self.waiting if self._cancel[entry[1]] > now_ns]
        if len(left) < len(self.waiting):
            for _, request in set(self.waiting) - set(left):
                self._close(request, Status.CANCELLED, now_fs)
            self.waiting = left
            heapq.heapify(self.waiting)

    def _leave(self, one: Sequence, status: Status, now_fs: int) -> None:
        self._release(one)
        self._close(one.request, status, now_fs)

    def _close(self, request: int, status: Status, now_fs: int) -> None:
        self._status[request], self._finish[request] = int(status), now_fs // FS_PER_NS
        if self.copies is not None:
            self.copies.drop(request)
        self.closed += 1
        self._note(now_fs, _EVENTS[status], request)

    def _note(self, now_fs: int, event: Event, request: int) -> None:
        self._log.append((self.steps, now_fs // FS_PER_NS, int(event), request))

    def outcome(self, busy_fs: int, end_fs: int) -> Outcome:
        """What became of everybody."""
        return Outcome(
            status=np.array(self._status, np.int64),
            first_token_ns=np.array(self._first, np.int64),
            has_first=np.array(self._has_first, np.bool_),
            finish_ns=np.array(self._finish, np.int64),
            preemptions=self.preemptions,
            steps=self.steps,
            busy_ns=busy_fs // FS_PER_NS,
            end_ns=end_fs // FS_PER_NS,
            kv_high_water_blocks=self._most_held,
            log=sorted_log(self._log),
            asked_tokens=self.asked_tokens if self.caches else 0,
            hit_tokens=self.hit_tokens,
        )
