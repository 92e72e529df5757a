"""Prefill and decode on instances of their own, as DistServe has it (OSDI '24, its simulator `simdistserve`).

A request goes to the prefill instance with the fewest requests; an instance reads as many whole prompts at once
as its tokens allow, first come, first served. The end of that batch is the first token. The cache then moves to
the decode instance with the fewest requests, whose batch is the head of a queue; its sequences rejoin the end.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant.errors import InputError
from cotenant.policy.dispatch import least_loaded
from cotenant.policy.phases import batch_within
from cotenant.simulation.costs import FS_PER_NS
from cotenant.simulation.load import NEVER, Outcome, Requests, Status

Line = tuple[int, int, int]  # fs: base, a token, a square (prefill) or a sequence (decode)


@dataclass(frozen=True, slots=True)
class Split:
    """How many instances of either kind, the tokens of their batches, and what steps and moves cost in fs.

    A prefill step takes base + token x sum(len) + square x sum(len^2); a decode step base + token x sum(context)
    + sequence x batch, with `decode_large` from `threshold` sequences on.
    """

    prefills: int
    decodes: int
    prefill_tokens: int
    decode_tokens: int
    prefill: Line
    decode: Line
    decode_large: Line | None = None
    threshold: int = 2**31
    move_per_token: int = 0

    def __post_init__(self) -> None:
        if min(self.prefills, self.decodes, self.prefill_tokens, self.decode_tokens) < 1:
            raise InputError("prefill and decode apart need an instance and a token of each")

    def prefill_fs(self, lengths: Sequence[int]) -> int:
        """Femtoseconds of a step that reads those prompts."""
        base, token, square = self.prefill
        return max(1, base + token * sum(lengths) + square * sum(one * one for one in lengths))

    def decode_fs(self, contexts: Sequence[int]) -> int:
        """Femtoseconds of a step that adds a token to each of those contexts."""
        large = self.decode_large is not None and len(contexts) >= self.threshold
        base, token, sequence = self.decode_large if large and self.decode_large is not None else self.decode
        return max(1, base + token * sum(contexts) + sequence * len(contexts))


@dataclass(slots=True, eq=False)
class _Instance:
    """One instance: who waits, who is in the step in progress, and when that ends."""

    waiting: deque[int] = field(default_factory=deque)
    batch: list[int] = field(default_factory=list)
    ends_fs: int = NEVER * FS_PER_NS

    @property
    def load(self) -> int:
        return len(self.waiting) + len(self.batch)


class _Apart:
    """The state of a run: instances, contexts of requests that decode, caches under way."""

    def __init__(self, requests: Requests, split: Split) -> None:
        self.split, count = split, len(requests)
        self.given, self.written = requests.input_tokens.tolist(), requests.output_tokens.tolist()
        self.arrivals: list[int] = requests.arrival_ns.tolist()
        self.prefills = [_Instance() for _ in range(split.prefills)]
        self.decodes = [_Instance() for _ in range(split.decodes)]
        self.context = [0] * count
        self.moving: list[tuple[int, int]] = []  # a heap of (fs, request)
        self.first, self.finish = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        self.steps = self.busy_fs = self.place = 0

    def next_moment(self) -> int:
        arrival = self.arrivals[self.place] if self.place < len(self.arrivals) else NEVER
        moved = self.moving[0][0] if self.moving else NEVER * FS_PER_NS
        return min(arrival * FS_PER_NS, moved, *(one.ends_fs for one in (*self.prefills, *self.decodes)))

    def at(self, now: int) -> None:
        """Steps end, caches arrive, requests come, steps begin."""
        for one in self.prefills:
            if one.ends_fs == now:
                self._prefilled(one, now)
        for one in self.decodes:
            if one.ends_fs == now:
                self._decoded(one, now)
        while self.moving and self.moving[0][0] <= now:
            _fewest(self.decodes).waiting.append(heapq.heappop(self.moving)[1])
        while self.place < len(self.arrivals) and self.arrivals[self.place] * FS_PER_NS <= now:
            _fewest(self.prefills).waiting.append(self.place)
            self.place += 1
        for one in self.prefills:
            if not one.batch and one.waiting:
                lengths = [self.given[request] for request in one.waiting]
                self._begin(one, now, batch_within(lengths, len(lengths), self.split.prefill_tokens))
                self._work(one, now, self.split.prefill_fs([self.given[request] for request in one.batch]))
        for one in self.decodes:
            if not one.batch and one.waiting:
                contexts = [self.context[request] for request in one.waiting]
                self._begin(one, now, batch_within(contexts, len(contexts), self.split.decode_tokens))
                self._work(one, now, self.split.decode_fs([self.context[request] for request in one.batch]))

    def _begin(self, one: _Instance, now: int, size: int) -> None:
        one.batch = [one.waiting.popleft() for _ in range(size)]

    def _work(self, one: _Instance, now: int, work: int) -> None:
        one.ends_fs = now + work
        self.steps += 1
        self.busy_fs += work

    def _prefilled(self, one: _Instance, now: int) -> None:
        for request in one.batch:
            self.first[request] = now // FS_PER_NS
            self.context[request] = self.given[request] + 1
            if self.written[request] == 1:
                self.finish[request] = now // FS_PER_NS
            else:
                moved = now + self.split.move_per_token * self.given[request]
                heapq.heappush(self.moving, (moved, request))
        one.batch, one.ends_fs = [], NEVER * FS_PER_NS

    def _decoded(self, one: _Instance, now: int) -> None:
        for request in one.batch:
            self.context[request] += 1
            if self.context[request] == self.given[request] + self.written[request]:
                self.finish[request] = now // FS_PER_NS
            else:
                one.waiting.append(request)
        one.batch, one.ends_fs = [], NEVER * FS_PER_NS


def simulate(requests: Requests, split: Split, *, until_ns: int = NEVER) -> Outcome:
    """What becomes of one model's `requests` on instances of either kind, as far as it ends by `until_ns`."""
    run, end = _Apart(requests, split), 0
    last = min(until_ns, NEVER - 1) * FS_PER_NS  # what happens then happens still, as in all cores
    while (now := run.next_moment()) <= last:
        run.at(now)
        end = now
    done = run.finish >= 0
    return Outcome(
        status=np.where(done, int(Status.FINISHED), int(Status.UNFINISHED)),
        first_token_ns=np.maximum(run.first, 0),
        has_first=run.first >= 0,
        finish_ns=np.maximum(run.finish, 0),
        preemptions=0,
        steps=run.steps,
        busy_ns=run.busy_fs // FS_PER_NS,
        end_ns=end // FS_PER_NS,
        kv_high_water_blocks=0,
        log=np.zeros((0, 4), np.int64),
    )


def _fewest(instances: Sequence[_Instance]) -> _Instance:
    return instances[least_loaded([one.load for one in instances], len(instances))]
