"""Which models are awake: several models on cards that cannot hold all of them at once.

A request for a model that sleeps wakes it, if its cards have room. If not, others make room, chosen by a rule of
`policy.eviction` (the gateway's, unless another one is named), and nobody where all of them would not be enough:
once that request has waited for `hold` where they have no work, and for `patience` where they do, so that a busy
card does not spend its time loading (thrash). Nobody makes room before it was awake for `minimum`, idle or not:
two models that are asked by turns would be loaded by turns. Who makes room takes no new requests, finishes what
runs, and sleeps; its queue waits. Of several models that want to wake, the one of the highest priority comes
first, then the one with the oldest request, and nobody overtakes it on its cards. A higher priority waits for no
lower one, and a lower one sends no busy higher one away (`policy.turns`, as the gateway has it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from cotenant.policy.eviction import WORTH, make_room, may_go
from cotenant.policy.turns import first_to_wake
from cotenant.simulation.costs import FS_PER_NS
from cotenant.simulation.replica import Replica


class State(Enum):
    """Where a model stands."""

    ASLEEP = auto()
    WAKING = auto()
    AWAKE = auto()
    DRAINING = auto()
    FALLING_ASLEEP = auto()


@dataclass(slots=True, eq=False)
class Resident:
    """One model of a swapping card: bytes of each of its cards awake and asleep, femtoseconds to change."""

    replica: Replica
    cards: tuple[object, ...]
    awake_bytes: int
    asleep_bytes: int
    wake_fs: int
    sleep_fs: int
    priority: int = 0
    state: State = State.ASLEEP
    until_fs: int = 0  # end of waking or falling asleep
    used_fs: int = -1
    since_fs: int = 0  # awake since then
    wakes: int = 0
    spells_fs: list[list[int]] = field(default_factory=list)  # [began to wake, was awake, was asleep again]

    @property
    def holds_bytes(self) -> int:
        """What it takes of each of its cards just now."""
        return self.asleep_bytes if self.state is State.ASLEEP else self.awake_bytes

    @property
    def grows_bytes(self) -> int:
        """What it takes of each of its cards awake beyond what it keeps asleep."""
        return self.awake_bytes - self.asleep_bytes

    @property
    def may_step(self) -> bool:
        """Whether a step may begin."""
        drains = self.state is State.DRAINING and bool(self.replica.running)
        return drains or (self.state is State.AWAKE and self.replica.has_work)


@dataclass(frozen=True, slots=True, eq=False)
class Residency:
    """The models of all swapping cards. `capacity_bytes` by card; `patience_fs`, `minimum_fs` and `hold_fs` as
    above; `rule` says who makes room (`policy.eviction`)."""

    residents: Sequence[Resident]
    capacity_bytes: Mapping[object, int]
    patience_fs: int
    minimum_fs: int = 0
    rule: int = WORTH
    hold_fs: int = 0

    def next_change(self, now: int) -> int | None:
        """When the next model has woken, has fallen asleep or may be sent to sleep."""
        changing = (State.WAKING, State.FALLING_ASLEEP)
        moments = [one.until_fs for one in self.residents if one.state in changing]
        sleepers = [one for one in self.residents if one.state is State.ASLEEP and one.replica.has_work]
        if sleepers:
            moments += [one.since_fs + self.minimum_fs for one in self.residents if one.state is State.AWAKE]
        if self.hold_fs:  # who is idle ends no step at which it would be asked to go
            oldest = (one.replica.oldest_ns for one in sleepers)
            moments += [since * FS_PER_NS + self.hold_fs for since in oldest if since is not None]
        return min((moment for moment in moments if moment > now), default=None)

    def update(self, now: int) -> None:
        """All that changes at this moment; call it again at `next_change` and whenever a step ends."""
        for one in self.residents:
            self._settle(one, now)
        blocked: set[object] = set()
        for one in self._wanting(now):
            if not blocked & set(one.cards):
                self._wake_or_make_room(one, now)
            if one.state is State.ASLEEP:
                blocked |= set(one.cards)

    def free_bytes(self, card: object) -> int:
        """Room on a card."""
        return self.capacity_bytes[card] - sum(one.holds_bytes for one in self.residents if card in one.cards)

    def _settle(self, one: Resident, now: int) -> None:
        if one.state is State.AWAKE and one.replica.has_work:
            one.used_fs = now
        if one.state is State.WAKING and one.until_fs <= now:
            one.state, one.used_fs, one.since_fs = State.AWAKE, now, now
            one.spells_fs[-1].append(now)
        if one.state is State.DRAINING and not one.replica.running:
            one.state, one.until_fs = State.FALLING_ASLEEP, now + one.sleep_fs
        if one.state is State.FALLING_ASLEEP and one.until_fs <= now:
            one.state, one.replica.admitting = State.ASLEEP, True
            one.replica.forget()
            one.spells_fs[-1].append(now)

    def _wanting(self, now: int) -> list[Resident]:
        """Sleepers with requests, in the order in which they wake; clients that have left do not count."""
        sleepers = [one for one in self.residents if one.state is State.ASLEEP and one.replica.has_work]
        for one in sleepers:
            one.replica.drop_cancelled(now)
        sleepers = [one for one in sleepers if one.replica.oldest_ns is not None]
        found: list[Resident] = []
        while sleepers:
            priorities, oldest = (
                [one.priority for one in sleepers],
                [one.replica.oldest_ns or 0 for one in sleepers],
            )
            found.append(sleepers.pop(first_to_wake(priorities, oldest, len(sleepers))))
        return found

    def _wake_or_make_room(self, one: Resident, now: int) -> None:
        if all(self.free_bytes(card) >= one.grows_bytes for card in one.cards):
            one.state, one.until_fs = State.WAKING, now + one.wake_fs
            one.wakes += 1
            one.spells_fs.append([now])
            return
        goes = [0] * len(self.residents)
        if all(self._make_room(card, one, goes, now) for card in one.cards):
            for other, marked in zip(self.residents, goes, strict=True):
                if marked:
                    other.state, other.replica.admitting = State.DRAINING, False
                    self._settle(other, now)

    def _may_go(self, one: Resident, comer: Resident, now: int) -> bool:
        """Whether an awake model's turn is over, for the sake of `comer`."""
        return may_go(
            one.replica.has_work,
            comer.priority,
            one.priority,
            resident=now - one.since_fs,
            minimum=self.minimum_fs,
            wait=_waited(comer, now),
            own_wait=_waited(one, now),
            patience=self.patience_fs,
            hold=self.hold_fs,
        )

    def _make_room(self, card: object, comer: Resident, goes: list[int], now: int) -> bool:
        """Mark in `goes` who sleeps for `comer` on one card. Whether it is enough, with who leaves already."""
        residents = self.residents
        leaving = (State.DRAINING, State.FALLING_ASLEEP)
        here = [card in one.cards for one in residents]
        room = self.free_bytes(card)
        for number, one in enumerate(residents):
            if here[number] and (one.state in leaving or goes[number]):
                room += one.grows_bytes
        room = make_room(
            self.rule,
            room,
            comer.grows_bytes,
            priorities=[one.priority for one in residents],
            idle=[(now - one.used_fs) // FS_PER_NS for one in residents],  # as the gateway counts
            reload=[one.wake_fs // FS_PER_NS for one in residents],
            frees=[one.grows_bytes for one in residents],
            evictable=[
                int(on and one.state is State.AWAKE and self._may_go(one, comer, now))
                for on, one in zip(here, residents, strict=True)
            ],
            goes=goes,
            models=len(residents),
        )
        return room >= comer.grows_bytes


def _waited(one: Resident, now: int) -> int:
    """Femtoseconds that its oldest waiting request has waited; -1 where none waits."""
    oldest = one.replica.oldest_ns
    return -1 if oldest is None else now - oldest * FS_PER_NS
