"""From the plan that runs to the next one, with memory safe at each step.

What is not asked for any more stops first. Then, again and again: a replica whose cards have room for its load
peak beside all that runs starts, and its predecessor stops once it answers. Where none has room, the one that is
missed least (lowest priority, then shortest load) stops before its successor starts: that is downtime, and it is
said. Where engines that load share a card, they start in the new plan's order, which its check has proven to fit;
one that runs already and comes later in that order is restarted if it stands in the way. Of those that take turns
in the old plan or in the new one, one is awake; while one loads, those that take turns with it then are asleep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from cotenant.domain.fleet import Fleet
from cotenant.domain.migration import Migration, MigrationStep
from cotenant.domain.plan import Plan, ReplicaPlan
from cotenant.engines import find_engine
from cotenant.engines.hosting import changes_adapters
from cotenant.engines.starting import starting
from cotenant.errors import CheckError
from cotenant.estimation.cold_start import Kept, cold_start
from cotenant.planning.assembly import FIRST_PORT
from cotenant.planning.check import every_share, most_taken
from cotenant.planning.standing import Place, Standing, place_of


@dataclass(frozen=True, slots=True)
class _Change:
    """One replica's way: from `old` (None: new) to `new` (None: gone)."""

    old: ReplicaPlan | None
    new: ReplicaPlan | None

    @property
    def word(self) -> str:
        """What happens to it."""
        if self.old is None:
            return "started"
        if self.new is None:
            return "stopped"
        if _places(self.old) != _places(self.new) or _weights(self.old) != _weights(self.new):
            return "moved"
        return "kept" if _told(self.old) == _told(self.new) else "restarted"


def migrate(old: Plan, new: Plan, fleet: Fleet) -> Migration:
    """What becomes of each replica, and the order. Raises CheckError where a step would not fit: our fault."""
    changes = _changes(old, new)
    order = _Order(old, new, fleet, changes)
    order.run()
    named: dict[str, list[str]] = defaultdict(list)
    for change in changes:
        word = "restarted" if change.word == "kept" and change in order.disturbed else change.word
        one = change.new or change.old
        if one is not None:
            named[word].append(one.id)
    steps = tuple(order.steps)
    check_steps(old, new, steps)
    return Migration(
        kept=tuple(named["kept"]), restarted=tuple(named["restarted"]), moved=tuple(named["moved"]),
        started=tuple(named["started"]), stopped=tuple(named["stopped"]), steps=steps,
        previous_cost=old.cost_per_hour,
    )  # fmt: skip


def free_ports(old: Plan, new: Plan) -> dict[str, int]:
    """Where the new plan's replicas listen: who stays where it is as it was, the others where nobody does yet."""
    taken: dict[int, set[int]] = defaultdict(set)
    for replica in old.replicas:
        taken[replica.devices[0].node].add(replica.port)
    found = {}
    for change in _changes(old, new):
        if change.word == "kept" and change.old is not None and change.new is not None:
            found[change.new.id] = change.old.port
    for replica in new.replicas:
        if replica.id not in found:
            node = taken[replica.devices[0].node]
            port = next(port for port in count(FIRST_PORT) if port not in node)
            node.add(port)
            found[replica.id] = port
    return found


def check_steps(old: Plan, new: Plan, steps: Sequence[MigrationStep]) -> None:
    """Walk the steps with bytes in hand: no card may ever hold more than it has.

    Who takes turns in either plan is counted as that plan's check counts it, those that stay by the new one.
    """
    kept = {change.old.id: change.new.id for change in _changes(old, new)
            if change.word == "kept" and change.old is not None and change.new is not None}  # fmt: skip
    leaving = [one.id for one in old.replicas if one.id not in kept]
    running = list(kept.values())
    before = {place_of(gpu.device): gpu for gpu in old.gpus}
    for number, step in enumerate(steps):
        if step.action == "stop":
            if step.replica in leaving:
                leaving.remove(step.replica)
            else:
                running.remove(kept[step.replica])
            continue
        for gpu in new.gpus:
            share = next((one for one in every_share(gpu) if one.replica == step.replica), None)
            if share is None:
                continue
            held = most_taken(new, gpu, running, loading=step.replica)
            there = before.get(place_of(gpu.device))
            held += 0 if there is None else most_taken(old, there, leaving)
            peak, limit = max(share.load_peak_bytes, share.claimed_bytes), gpu.capacity_bytes - gpu.used_bytes
            if held + peak > limit:
                raise CheckError(
                    f"step {number + 1} of the migration needs {held + peak:,} bytes of {place_of(gpu.device)}, "
                    f"{limit:,} are there",
                    hint="this is a fault of Cotenant: report it",
                )
        running.append(step.replica)


def _changes(old: Plan, new: Plan) -> list[_Change]:
    """Old and new replicas of a model in pairs, those on the same cards first."""
    found: list[_Change] = []
    for model in dict.fromkeys(one.model for one in (*new.replicas, *old.replicas)):
        before = [one for one in old.replicas if one.model == model]
        after = [one for one in new.replicas if one.model == model]
        for one in list(after):
            twin = next((other for other in before if _places(other) == _places(one)), None)
            if twin is not None:
                found.append(_Change(twin, one))
                before.remove(twin)
                after.remove(one)
        for place in range(max(len(before), len(after))):
            pair = [side[place] if place < len(side) else None for side in (before, after)]
            found.append(_Change(pair[0], pair[1]))
    return found


def _places(replica: ReplicaPlan) -> tuple[Place, ...]:
    return tuple(map(place_of, replica.devices))


def _weights(replica: ReplicaPlan) -> tuple[object, ...]:
    """What must be loaded anew when it differs."""
    return replica.checkpoint, replica.quantization, replica.engine, replica.engine_version


def _told(replica: ReplicaPlan) -> tuple[object, ...]:
    """What its engine is told at start and keeps until it ends."""
    adapters: object = "some" if replica.adapters and changes_adapters(replica.engine) else replica.adapters
    return replica.settings, replica.quantization_flag, replica.also_serves, adapters


@dataclass(slots=True)
class _Order:
    """The state while steps are chosen: what still runs of both plans, what is still to start."""

    old: Plan
    new: Plan
    fleet: Fleet
    changes: Sequence[_Change]
    steps: list[MigrationStep] = field(default_factory=list)
    disturbed: list[_Change] = field(default_factory=list)
    _before: Standing = field(init=False)
    _after: Standing = field(init=False)
    _capacity: dict[Place, int] = field(default_factory=dict)

    def run(self) -> None:
        """All steps, from nothing changed to all changed."""
        self._before, self._after = Standing(self.old), Standing(self.new)
        gpus = (*self.old.gpus, *self.new.gpus)
        self._capacity = {place_of(gpu.device): gpu.capacity_bytes - gpu.used_bytes for gpu in gpus}
        for change in self.changes:  # who stays counts as the new plan has it
            if change.word == "kept" and change.new is not None:
                self._after.running.add(change.new.id)
            elif change.old is not None:
                self._before.running.add(change.old.id)
        for change in self.changes:
            if change.new is None and change.old is not None:
                self._stop(change, downtime=False)
        waiting = [change for change in self.changes if change.new is not None and change.word != "kept"]
        kept = [change for change in self.changes if change.word == "kept"]
        down: list[_Change] = []
        while waiting:
            ready = next((change for change in self._by_start(waiting) if self._fits(change, waiting)), None)
            if ready is not None:
                self._start(ready)
                if ready.old is not None and ready not in down:
                    self._stop(ready, downtime=False)
                waiting.remove(ready)
                continue
            stoppable = [change for change in waiting if change.old is not None and change not in down]
            if not stoppable:  # somebody who stays loads later in the new order than one who must load now
                change = self._in_the_way(waiting, kept)
                kept.remove(change)
                waiting.append(change)
                self.disturbed.append(change)
                stoppable = [change]
            change = min(stoppable, key=self._missed)
            down.append(change)
            self._stop(change, downtime=True)

    def _by_start(self, waiting: Sequence[_Change]) -> list[_Change]:
        return sorted(waiting, key=lambda change: change.new.start_order if change.new else 0)

    def _fits(self, change: _Change, waiting: Sequence[_Change]) -> bool:
        """Whether its cards have room for its load now, and none that loads before it on them is still to come."""
        new = change.new
        if new is None:
            return False
        mine = self._after.of(new.id)
        for other in waiting:
            if (
                other.new is not None
                and other.new.start_order < new.start_order
                and mine.keys() & self._after.of(other.new.id).keys()
            ):
                return False
        return all(
            self._after.held(place, new.id) + self._before.held(place) + one.load_peak_bytes
            <= self._capacity[place]
            for place, one in mine.items()
        )

    def _missed(self, change: _Change) -> tuple[int, float, str]:
        new = change.new
        if new is None:
            return (0, 0.0, "")
        priority = next((one.priority for one in self.fleet.models if one.name == new.model), 0)
        return priority, self._seconds(new), new.id

    def _in_the_way(self, waiting: Sequence[_Change], kept: Sequence[_Change]) -> _Change:
        first = self._by_start(waiting)[0].new
        mine = self._after.of(first.id).keys() if first else set()
        blocking = [one for one in kept if one.new is not None and mine & self._after.of(one.new.id).keys()]
        if not blocking:
            raise CheckError("no order of the migration fits", hint="this is a fault of Cotenant: report it")
        return max(blocking, key=lambda one: one.new.start_order if one.new else 0)

    def _start(self, change: _Change) -> None:
        new = change.new
        if new is None:
            return
        self._after.running.add(new.id)
        peak = max(one.load_peak_bytes for one in self._after.of(new.id).values())
        seconds = self._seconds(new)
        self.steps.append(MigrationStep("start", new.id, new.model, new.devices, peak, seconds=seconds))

    def _stop(self, change: _Change, *, downtime: bool) -> None:
        old = change.old
        if old is None:
            return
        self._before.running.discard(old.id)
        if change.word == "kept" and change.new is not None:
            self._after.running.discard(change.new.id)
        freed = max((one.claim_bytes for one in self._before.of(old.id).values()), default=0)
        self.steps.append(
            MigrationStep("stop", old.id, old.model, old.devices, freed_bytes=freed, downtime=downtime)
        )

    def _seconds(self, replica: ReplicaPlan) -> float:
        weights = max(
            (
                share.weights_bytes
                for gpu in self.new.gpus
                for share in every_share(gpu)
                if share.replica == replica.id
            ),
            default=0,
        )
        engine, version = find_engine(f"{replica.engine}@{replica.engine_version}")
        how = starting(engine.name, version, enforce_eager=replica.settings.enforce_eager)
        gpu = self.fleet.gpus[replica.devices[0].offer].gpu
        return cold_start(weights, how, kept=Kept.ENGINE, gpu=gpu).total_s  # another launch of an engine that ran
