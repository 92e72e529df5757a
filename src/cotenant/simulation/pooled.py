"""Many models on a few cards, token by token: some cards read prompts, the others decode in turns (Aegaeon).

Requests of one model that wait to be read form groups, read one at a time, a group on one card. A request that
was read joins a batch of its model on a decoding card. A decoding card goes round its batches: each decodes for a
turn, then its cache makes way. Weights of the next model are fetched while the present one works: a switch takes
what that has not covered. With `urgent`, turns are not fixed: the batch whose next token is due first decodes,
until another one would be late (ours); a token that is late already waits behind those that can still be on time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from cotenant.errors import InputError
from cotenant.policy.dispatch import least_loaded
from cotenant.policy.token_level import group_to_join, may_yield, most_urgent, turn_seconds, urgency

_Work = Generator[int, None, None]  # yields the units of time that pass; a negative number waits to be called
_WAIT = -1


@dataclass(frozen=True, slots=True)
class PooledModel:
    """Seconds of a model's steps on the cards, its switch, and how many tokens of cache a card has beside it.

    `prefill_s` of a prompt of so many tokens; `decode_s` of a step of so many sequences that hold so many tokens.
    """

    prefill_s: Callable[[int], float]
    decode_s: Callable[[int, int], float]
    switch_s: float
    cache_tokens: int


def in_lines(
    prefill: tuple[float, float, float], decode: tuple[float, float, float], switch_s: float, cache_tokens: int
) -> PooledModel:
    """One of prefill = a + b len + c len^2 and decode = a + b sum(context) + c batch, as others publish theirs."""
    return PooledModel(
        lambda tokens: prefill[0] + prefill[1] * tokens + prefill[2] * tokens * tokens,
        lambda batch, context: decode[0] + decode[1] * context + decode[2] * batch,
        switch_s, cache_tokens,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pooling:
    """How cards are shared out, and what readers expect. `move_s` is what a token of cache takes to come in.

    `unit_s`: time is counted in whole units of that, step times cut to them. A request that was not begun after
    `patience_s` is given up. `urgent`: turns end when another batch is due, `least_turn_s` at the soonest.
    """

    prefills: int
    decodes: int
    ttft_s: float = 10.0
    tpot_s: float = 0.1
    longest_turn_s: float = 4.0
    least_switch_s: float = 0.01
    move_s: float = 0.0
    patience_s: float = 15.0
    unit_s: float = 1e-3
    urgent: bool = False
    least_turn_s: float = 1.5
    lost_s: float = 2.0

    def __post_init__(self) -> None:
        if min(self.prefills, self.decodes) < 1:
            raise InputError("a pool needs a card that reads and one that decodes")


@dataclass(slots=True, eq=False)
class PooledRequest:
    """One request, and when its tokens came, in units."""

    number: int
    model: int
    arrival: int
    given: int
    written: int
    tokens: list[int] = field(default_factory=list)
    given_up: bool = False

    @property
    def context(self) -> int:
        """Tokens that it has."""
        return self.given + len(self.tokens)

    @property
    def length(self) -> int:
        """Tokens that it will have."""
        return self.given + self.written

    @property
    def done(self) -> bool:
        """Whether all of its tokens came."""
        return len(self.tokens) >= self.written


@dataclass(slots=True, eq=False)
class _Card:
    """What a card holds: groups that wait to be read, or batches that decode; who was sent to it."""

    groups: deque[list[PooledRequest]] = field(default_factory=deque)
    batches: deque[list[PooledRequest]] = field(default_factory=deque)
    coming: list[PooledRequest] = field(default_factory=list)
    running: list[PooledRequest] = field(default_factory=list)
    turns: dict[int, int] = field(default_factory=dict)
    model: int = -1
    fetched: int = 0  # units of work during which the next model's weights could be fetched
    waits: bool = False


class Pool:
    """A run: its clock, its cards, its requests."""

    def __init__(self, models: Sequence[PooledModel], pooling: Pooling) -> None:
        self.models, self.pooling, self.now = models, pooling, 0
        self.readers = [_Card() for _ in range(pooling.prefills)]
        self.decoders = [_Card() for _ in range(pooling.decodes)]
        self.read: list[PooledRequest] = []  # read, and not yet taken over by a decoding card
        self.unread: list[PooledRequest] = []
        self.switches, self.busy = 0, [0] * len(models)  # units that cards worked for each model
        self._calls: list[tuple[int, int, _Work, _Card | None]] = []
        self._count = 0
        self._work: dict[int, _Work] = {}

    def units(self, seconds: float) -> int:
        """Whole units of time."""
        return int(seconds * round(1 / self.pooling.unit_s))

    def run(self, requests: Sequence[PooledRequest], *, until: int | None = None) -> None:
        """Serve all of them, or until that unit of time; the outcome stands in their tokens."""
        for card in self.readers:
            self._start(card, self._reading(card))
        for card in self.decoders:
            self._start(card, self._urgent(card) if self.pooling.urgent else self._decoding(card))
        for one in sorted(requests, key=lambda one: one.arrival):
            self._call(one.arrival, self._arriving(one), None)
        while self._calls and (until is None or self._calls[0][0] <= until):
            self.now, _, work, caller = heapq.heappop(self._calls)
            wait = next(work, None)
            if wait == _WAIT and caller is not None:
                caller.waits = True
            elif wait is not None:
                self._call(self.now + wait, work, caller)

    def _start(self, card: _Card, work: _Work) -> None:
        self._work[id(card)] = work
        self._call(0, work, card)

    def _call(self, at: int, work: _Work, card: _Card | None) -> None:
        self._count += 1
        heapq.heappush(self._calls, (at, self._count, work, card))

    def _wake(self, card: _Card) -> None:
        if card.waits:
            card.waits = False
            self._call(self.now, self._work[id(card)], card)

    def _arriving(self, one: PooledRequest) -> _Work:
        self.unread.append(one)
        self._give_up()
        self._to_group(one)
        self._dispatch()
        yield from ()

    def _give_up(self) -> None:
        """Requests that nobody began in time are given up; a reading card still finds them in its way."""
        late = self.now - self.units(self.pooling.patience_s)
        for one in self.unread:
            one.given_up = one.given_up or one.arrival < late
        self.unread = [one for one in self.unread if not one.given_up]

    def _to_group(self, one: PooledRequest) -> None:
        """Into the first group of its model that has room, else a group of its own where the fewest wait."""
        limit = self.models[one.model].cache_tokens
        for card in self.readers:
            models = [group[0].model for group in card.groups]
            tokens = [sum(other.context for other in group) for group in card.groups]
            place = group_to_join(models, tokens, len(models), one.model, one.context, limit)
            if place < len(models):
                card.groups[place].append(one)
                return
        chosen = self.readers[least_loaded([len(card.groups) for card in self.readers], len(self.readers))]
        chosen.groups.append([one])
        self._wake(chosen)

    def _reading(self, card: _Card) -> _Work:
        """A reading card: the first of the first group, and again."""
        while True:
            if not card.groups:
                yield _WAIT
                continue
            one = card.groups[0].pop(0)
            if not card.groups[0]:
                card.groups.popleft()
            yield from self._switch(card, one.model)
            took = max(1, self.units(self.models[one.model].prefill_s(one.context)))
            yield took
            card.fetched += took
            self.busy[one.model] += took
            one.tokens.append(self.now)
            if not one.given_up:
                self.unread.remove(one)
                self.read.append(one)
            self._give_up()
            self._dispatch()

    def _switch(self, card: _Card, model: int) -> _Work:
        if card.model == model:
            return
        whole = self.units(self.models[model].switch_s)
        yield max(self.units(self.pooling.least_switch_s), whole - card.fetched)
        card.fetched, card.model = 0, model
        self.switches += 1

    def _dispatch(self) -> None:
        """Who was read and not taken over yet goes to a decoding card, anew each time, by arrival."""
        batches = [[list(batch) for batch in card.batches] for card in self.decoders]
        for card in self.decoders:
            card.coming = []
        for one in sorted([one for one in self.read if not one.done], key=lambda one: (one.arrival, one.number)):
            for card, own in zip(self.decoders, batches, strict=True):
                place = self._fitting(own, one)
                if place < len(own):
                    own[place].append(one)
                    card.coming.append(one)
                    break
            else:
                place = least_loaded([len(own) for own in batches], len(batches))
                batches[place].append([one])
                self.decoders[place].coming.append(one)
        for card in self.decoders:
            if card.coming:
                self._wake(card)

    def _fitting(self, batches: Sequence[Sequence[PooledRequest]], one: PooledRequest) -> int:
        models = [batch[0].model for batch in batches]
        tokens = [sum(other.context for other in batch if not other.done) for batch in batches]
        limit = self.models[one.model].cache_tokens
        return group_to_join(models, tokens, len(models), one.model, one.context, limit)

    def _accept(self, card: _Card, to_batch: bool) -> None:
        """Take over those that were sent here."""
        for one in card.coming:
            self.read.remove(one)
            card.running.append(one)
            if to_batch:
                place = self._fitting(card.batches, one)
                if place < len(card.batches):
                    card.batches[place].append(one)
                else:
                    card.batches.append([one])
        card.coming = []

    def _decoding(self, card: _Card) -> _Work:
        """A decoding card: round after round, each batch one turn."""
        while True:
            self._accept(card, False)
            self._form(card)
            if not card.batches:
                yield _WAIT
                continue
            for turn in self._turns(card):
                batch = card.batches[0]
                if batch[0].model != card.model:
                    yield from self._switch(card, batch[0].model)
                    self._accept(card, True)
                yield from self._turn(card, batch, turn)
                card.batches.rotate(-1)
                self._accept(card, True)

    def _form(self, card: _Card) -> None:
        """Batches anew: first come, first served, as many of a model as its cache holds; models side by side."""
        batches: list[list[PooledRequest]] = []
        for one in sorted(card.running, key=lambda one: one.arrival):
            place = self._fitting(batches, one)
            if place < len(batches):
                batches[place].append(one)
            else:
                batches.append([one])
        card.batches = deque(sorted(batches, key=lambda batch: batch[0].model))

    def _turns(self, card: _Card) -> list[int]:
        steps = [self._step_s(batch) for batch in card.batches]
        switches = sum(self.models[model].switch_s for model in {batch[0].model for batch in card.batches})
        turns = turn_seconds(steps, switches, self.pooling.tpot_s, self.pooling.longest_turn_s)
        return [self.units(turn) for turn in turns]

    def _step_s(self, batch: Sequence[PooledRequest]) -> float:
        live = [one.context for one in batch if not one.done]
        return self.models[batch[0].model].decode_s(len(live), sum(live))

    def _turn(self, card: _Card, batch: list[PooledRequest], turn: int) -> _Work:
        """Bring the cache in, then decode until the turn is over or nothing is left."""
        yield self.units(self.pooling.move_s * sum(one.context for one in batch))
        used = 0
        while used < turn and not all(one.done for one in batch):
            took = yield from self._step(card, batch)
            used += took
            self._accept(card, True)

    def _step(self, card: _Card, batch: Sequence[PooledRequest]) -> Generator[int, None, int]:
        took = max(1, self.units(self._step_s(batch)))
        yield took
        card.fetched += took
        self.busy[batch[0].model] += took
        for one in batch:
            if not one.done:
                one.tokens.append(self.now)
        card.running = [one for one in card.running if not one.done]
        return took

    def _urgent(self, card: _Card) -> _Work:
        """A decoding card of ours: whoever is due first decodes, until another one would be late."""
        least = self.units(self.pooling.least_turn_s)
        while True:
            self._accept(card, False)
            self._form(card)
            if not card.batches:
                yield _WAIT
                continue
            batches = list(card.batches)
            batch = batches[most_urgent([self._due(one) for one in batches], len(batches))]
            yield from self._switch(card, batch[0].model)
            yield self.units(self.pooling.move_s * sum(one.context for one in batch))
            began = self.now
            while not all(one.done for one in batch):
                yield from self._step(card, batch)
                self._accept(card, True)
                if self._due_elsewhere(card, batch, self.now - began, least):
                    break

    def _due_elsewhere(self, card: _Card, batch: list[PooledRequest], ran: int, least: int) -> bool:
        others = [one for one in card.batches if one is not batch and not all(each.done for each in one)]
        if not others or all(one.done for one in batch):
            return False
        due = [self._due(one) for one in others]
        first = most_urgent(due, len(others))
        switch = self.units(self.models[others[first][0].model].switch_s)
        return may_yield(self._due(batch), due[first], self.now, switch, ran, least)

    def _due(self, batch: Sequence[PooledRequest]) -> int:
        """When the first of a batch's next tokens counts as due."""
        lost = self.units(self.pooling.lost_s)
        return min(urgency(self.deadline(one, len(one.tokens)), self.now, lost) for one in batch if not one.done)

    def deadline(self, one: PooledRequest, token: int) -> int:
        """When a token is due: the first after the wait that readers accept, each further one a TPOT later."""
        return one.arrival + self.units(self.pooling.ttft_s) + token * self.units(self.pooling.tpot_s)


def on_time(pool: Pool, requests: Sequence[PooledRequest]) -> float:
    """The share of tokens that came by their deadlines; those of requests without an end have all missed them."""
    good = sum(
        sum(at <= pool.deadline(one, token) for token, at in enumerate(one.tokens)) for one in requests if one.done
    )
    return good / max(1, sum(one.written for one in requests))
