"""From one plan to the next while requests run: the new engine is started before the old one is stopped, where
both fit; else the old one makes room first. Nobody's request is lost, and no device is ever given out twice.

Replicas that the new plan does not want *retire*: they serve on until their successors are up, take nothing new
after that, and are stopped with their last request. Successors of engines that are awake are *due*; they start in
the plan's order. A model that is gone from the plan serves those that wait for it already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.serving.floor import Floor
from cotenant.serving.replica import LEAVING, UP, Model, Replica, State
from cotenant.serving.settings import Hosted, Served
from cotenant.serving.supervisor import Supervisor

_AWAKE = (State.STARTING, State.READY, State.SUSPECT, State.WAKING)


class Migration:
    """What is still to be done until the floor is as the plan wants it."""

    __slots__ = ("begun_ns", "due", "floor", "retiring", "supervisor")

    def __init__(self, floor: Floor, supervisor: Supervisor) -> None:
        self.floor, self.supervisor = floor, supervisor
        self.begun_ns = 0
        self.due: list[Replica] = []
        self.retiring: list[Replica] = []

    def begin(
        self,
        hosts: Sequence[Hosted],
        models: Sequence[Served],
        capacity: Mapping[int, int],
        kept: Sequence[int | None],
    ) -> list[int]:
        """A new plan. `capacity` by number of a device, new ones at the end; `kept`: for each host the replica
        that goes on as it is, None where one has to be started. The number of each host's replica."""
        floor = self.floor
        self.begun_ns = floor.now_ns
        for device, size in sorted(capacity.items()):
            floor.ledger.resize(device, size)
        floor.by_name = {one.name: self._model(one) for one in models}
        stays = set(kept)
        self.retiring = [one for one in floor.replicas if one.index not in stays and not self._is_over(one)]
        for one in self.retiring:
            one.retires = True
        found = [self._replica(host, place) for host, place in zip(hosts, kept, strict=True)]
        awake = {one.model for one in self.retiring if one.state in _AWAKE}
        self.due = [one for one in found if one.state is State.STOPPED and one.host.ours and one.model in awake]
        return [one.index for one in found]

    def decide(self) -> None:
        """Start who is due (and was not up since), send away who is no longer needed, as far as possible now."""
        if not self.retiring and not self.due:
            return
        self.due = [one for one in self.due if one.since_ns < self.begun_ns]
        for old in self.retiring:
            if self._may_go(old):
                self._send_away(old)
        self.retiring = [one for one in self.retiring if not self._is_over(one)]
        self._start_due()

    # --- the new floor ---

    def _model(self, told: Served) -> Model:
        floor = self.floor
        known = next((one for one in floor.models if one.name == told.name), None)
        if known is None:
            known = Model(len(floor.models), told.name, told.priority, told.limit_ns, told.service_ns)
            floor.models.append(known)
        known.priority, known.limit_ns = told.priority, told.limit_ns
        return known

    def _replica(self, host: Hosted, place: int | None) -> Replica:
        floor = self.floor
        if place is None:
            model = floor.by_name[host.model]
            found = Replica(len(floor.replicas), model.index, host)
            floor.replicas.append(found)
            model.replicas.append(found)
            return found
        found = floor.replicas[place]
        found.retires = False
        if found.state is State.STOPPED:
            found.host = host
        elif found.state in UP and floor.ledger.fits(place, host.devices, host.awake_bytes):
            found.host = host
            floor.ledger.hold(place, host.devices, host.awake_bytes)
        return found

    # --- who goes ---

    def _is_over(self, replica: Replica) -> bool:
        """Whether a replica that retires is gone for good; then its model knows it no more."""
        model = self.floor.models[replica.model]
        ended = replica.state is State.STOPPED or not (replica.host.ours or replica.running)
        if not (replica.retires and ended) or self._is_waited_for(replica):
            return False
        if replica in model.replicas:
            model.replicas.remove(replica)
        return True

    def _may_go(self, old: Replica) -> bool:
        """Whether nobody needs it any longer."""
        if old.state in LEAVING or old.state is State.STOPPED:
            return False
        if not self.floor.serves(self.floor.models[old.model]):
            return not self._is_waited_for(old)
        if old.state not in UP:
            return True  # nobody is served by one that sleeps or still loads
        pending = sum(one.model == old.model for one in self.due)
        return sum(one.state in UP and one.model == old.model for one in self.retiring) > pending

    def _send_away(self, old: Replica) -> None:
        if not old.host.ours:
            return
        if old.state in UP:
            self.supervisor.make_room(old, sleeps=False)
        else:
            self.supervisor.stop(old)

    # --- who comes ---

    def _start_due(self) -> None:
        floor, blocked = self.floor, set[int]()
        for one in list(self.due):
            if one.state is not State.STOPPED or not blocked.isdisjoint(one.host.devices):
                continue
            if one.retry_ns > floor.now_ns:
                floor.review_at(one.retry_ns)
            elif floor.ledger.fits(one.index, one.host.devices, one.host.start_bytes):
                self.supervisor.start(one)
            elif self._make_room(one):
                blocked |= set(one.host.devices)
            else:
                self.due.remove(one)  # others have its place: it comes when it is asked for

    def _make_room(self, new: Replica) -> bool:
        """Where old and new do not fit beside each other the old one goes first: its own model's, then any that
        retires there. Whether room is coming."""
        devices = set(new.host.devices)
        here = [one for one in self.floor.replicas if not devices.isdisjoint(one.host.devices)]
        if any(one.state in LEAVING for one in here):
            return True
        olds = [one for one in here if one.retires and one.state is not State.STOPPED and one.host.ours]
        spared = [one for one in olds if self._is_waited_for(one)]
        own = [one for one in olds if one.model == new.model and one not in spared]
        for old in (own or [one for one in olds if one not in spared])[:1]:
            self._send_away(old)
        return bool(olds)

    def _is_waited_for(self, old: Replica) -> bool:
        """Whether it alone can serve requests that came before its model left the plan."""
        model = self.floor.models[old.model]
        return bool(model.waiting.count) and not self.floor.serves(model)
