"""Which models are awake: who wakes next, and who makes room for it.

Wants are met in the order of `policy.turns`; a want that waits for room keeps its devices from those behind it, so
that nobody overtakes it there. Room is made only where enough of it can be made.
"""

from __future__ import annotations

from cotenant.policy.eviction import WORTH, make_room, may_go
from cotenant.policy.turns import first_to_wake, may_displace
from cotenant.serving.floor import Floor
from cotenant.serving.replica import COMING, LEAVING, UP, Model, Replica, State
from cotenant.serving.supervisor import Supervisor


class Residency:
    """Decides after each event; without a want it costs a look at each model."""

    __slots__ = ("floor", "supervisor")

    def __init__(self, floor: Floor, supervisor: Supervisor) -> None:
        self.floor, self.supervisor = floor, supervisor

    def decide(self) -> None:
        """Wake, start and make room for all that wait, as far as possible now."""
        if self.floor.settings.idle_ns is not None:
            self._send_idle_away(self.floor.settings.idle_ns)
        wants = [model for model in self.floor.models if model.waiting.count and self.wants(model)]
        blocked: set[int] = set()
        while wants:
            if len(wants) == 1:
                model = wants.pop()
            else:
                priorities = [one.waiting.priority() for one in wants]
                oldest = [one.waiting.oldest_ns() for one in wants]
                model = wants.pop(first_to_wake(priorities, oldest, len(wants)))
            blocked |= self._meet(model, blocked)

    def _send_idle_away(self, idle_ns: int) -> None:
        """Models that nobody has asked for so long give their memory back."""
        for one in self.floor.replicas:
            if one.state is State.READY and one.host.ours and not one.running:
                if one.used_ns + idle_ns <= self.floor.now_ns:
                    self.supervisor.make_room(one, sleeps=one.host.can_sleep)
                else:
                    self.floor.review_at(one.used_ns + idle_ns)

    def wants(self, model: Model) -> bool:
        """Whether the model waits for a replica: none is up or coming, or those that are up are full."""
        down = False
        for replica in model.replicas:
            state = replica.state
            if state in COMING or state is State.SUSPECT:
                return False
            if replica.free_slots and replica.full_ns <= self.floor.now_ns:
                return False
            down = down or (state in (State.STOPPED, State.ASLEEP) and self.floor.wanted(replica))
        return down

    def _meet(self, model: Model, blocked: set[int]) -> set[int]:
        """Give the model a replica, or make room for one. The devices that it now keeps from others."""
        floor = self.floor
        spare = any(replica.state in UP for replica in model.replicas)  # one more: only where there is room
        kept: set[int] = set()
        for replica in model.replicas:
            if replica.state not in (State.STOPPED, State.ASLEEP) or not self.floor.wanted(replica):
                continue
            if replica.retry_ns > floor.now_ns:
                floor.review_at(replica.retry_ns)
                continue
            devices = replica.host.devices
            if not blocked.isdisjoint(devices):
                continue
            wanted = self._wanted(replica)
            if floor.ledger.fits(replica.index, devices, wanted):
                (self.supervisor.wake if replica.state is State.ASLEEP else self.supervisor.start)(replica)
                return set()
            if not spare and self._make_room(model, replica, wanted):
                return set(devices)
            if not spare and self._could_ever(replica, wanted):
                kept = kept or set(devices)
        return kept

    def _wanted(self, replica: Replica) -> int:
        """Bytes of each device that it must hold to come up."""
        host = replica.host
        return host.awake_bytes if replica.state is State.ASLEEP else host.start_bytes

    def _could_ever(self, replica: Replica, wanted: int) -> bool:
        """Whether it would fit if all others of ours made room."""
        ledger = self.floor.ledger
        return all(wanted <= ledger.capacity[device] - ledger.others[device] for device in replica.host.devices)

    def _make_room(self, model: Model, replica: Replica, wanted: int) -> bool:
        """Send others away until what they free is enough on every device; nobody, where it would not be enough.
        Whether room is coming."""
        replicas = self.floor.replicas
        for sleeps in (True, False):
            goes = [0] * len(replicas)
            if all(self._choose(model, replica, device, wanted, sleeps, goes) for device in replica.host.devices):
                for victim in replicas:
                    if goes[victim.index]:
                        self.supervisor.make_room(victim, sleeps=sleeps and victim.host.can_sleep)
                return True
        return False

    def _choose(
        self, model: Model, replica: Replica, device: int, wanted: int, sleeps: bool, goes: list[int]
    ) -> bool:
        """Mark in `goes` whoever makes room on one device. Whether it is enough, with what is leaving already."""
        floor, replicas = self.floor, self.floor.replicas
        here = [one is not replica and device in one.host.devices for one in replicas]
        room = floor.ledger.free(device) + floor.ledger.holds(replica.index)
        for one in replicas:
            if here[one.index] and (one.state in LEAVING or goes[one.index]):
                room += self._frees(one, sleeps if goes[one.index] else one.sleeps_next)
        if room >= wanted:
            return True
        room = make_room(
            WORTH,
            room,
            wanted,
            priorities=[floor.models[one.model].priority for one in replicas],
            idle=[0 if self._is_busy(one) else floor.now_ns - one.used_ns for one in replicas],
            reload=[one.host.wake_ns if one.host.can_sleep else one.host.load_ns for one in replicas],
            frees=[self._frees(one, sleeps) for one in replicas],
            evictable=[
                int(on and self.evictable(one, model, sleeps)) for on, one in zip(here, replicas, strict=True)
            ],
            goes=goes,
            models=len(replicas),
        )
        return room >= wanted

    def _is_busy(self, replica: Replica) -> bool:
        """Whether it runs a request, or one waits for its model."""
        return bool(replica.running) or self.floor.models[replica.model].waiting.count > 0

    def _frees(self, victim: Replica, sleeps: bool) -> int:
        """Bytes of each of its devices that come free when it goes."""
        held = self.floor.ledger.holds(victim.index)
        leaves = sleeps and victim.host.can_sleep and victim.state is not State.STOPPING
        return held - victim.host.asleep_bytes if leaves and victim.state is not State.ASLEEP else held

    def evictable(self, victim: Replica, model: Model, sleeps: bool) -> bool:
        """Whether it may be sent away for the model's requests now; else look again when that may have changed."""
        floor = self.floor
        if not victim.host.ours or victim.model == model.index:
            return False
        if victim.state is State.ASLEEP:
            return not sleeps
        if victim.state is not State.READY:
            return False
        own = floor.models[victim.model]
        settings, busy = floor.settings, self._is_busy(victim)
        priority, own_priority = model.waiting.priority(), self._priority_of(victim, own)
        goes = may_go(
            busy,
            priority,
            own_priority,
            resident=floor.now_ns - victim.since_ns,
            minimum=settings.residency_ns,
            wait=floor.now_ns - model.waiting.oldest_ns(),
            own_wait=floor.now_ns - own.waiting.oldest_ns() if own.waiting.count else -1,
            patience=settings.patience_ns,
            hold=settings.hold_ns,
        )
        if not goes and may_displace(busy, priority, own_priority):  # then time alone may change it
            floor.review_at(victim.since_ns + settings.residency_ns)
            wait_ns = max(settings.hold_ns, settings.patience_ns) if busy else settings.hold_ns
            floor.review_at(model.waiting.oldest_ns() + wait_ns)
        return goes

    def _priority_of(self, victim: Replica, own: Model) -> int:
        """The highest priority of what it runs and what waits for it; its model's own where there is nothing."""
        found = [one.priority for one in victim.running.values()]
        if own.waiting.count:
            found.append(own.waiting.priority())
        return max(found, default=own.priority)
