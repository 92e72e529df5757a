"""The router: requests in, answers or honest errors out, each exactly once.

Every event method takes the time first, does what it does, lets `_settle` decide what follows, and leaves what is
to be done in `take()`. Timers: call `tick` at `next_ns()`, or later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.serving.door import AGAIN_S, refusal
from cotenant.serving.effects import Effect, Refuse
from cotenant.serving.floor import Floor
from cotenant.serving.migration import Migration
from cotenant.serving.replica import Model, Replica, State
from cotenant.serving.requests import Requests
from cotenant.serving.residency import Residency
from cotenant.serving.settings import Hosted, Served, Settings
from cotenant.serving.supervisor import Supervisor
from cotenant.serving.waiting import Request


class Router:
    """One gateway's decisions. `capacity` are bytes of each device, those of others left out."""

    def __init__(
        self,
        hosts: Sequence[Hosted],
        models: Sequence[Served],
        capacity: Sequence[int],
        settings: Settings | None = None,
    ) -> None:
        self.floor = Floor(hosts, models, capacity, settings or Settings())
        self.supervisor = Supervisor(self.floor)
        self.residency = Residency(self.floor, self.supervisor)
        self.migration = Migration(self.floor, self.supervisor)
        self.requests = Requests(self.floor, self.supervisor)

    # --- what may be asked ---

    def take(self) -> list[Effect]:
        """What is to be done now, in this order; it is handed over once."""
        found, self.floor.effects = self.floor.effects, []
        return found

    def next_ns(self) -> int | None:
        """When `tick` is due; None where nothing waits for time."""
        floor = self.floor
        found = self.requests.next_deadline_ns()
        for replica in floor.replicas:
            until = replica.until_ns
            if until is not None and (found is None or until < found):
                found = until
        for moment in (floor.review_ns, floor.draining_ns if floor.requests else None):
            if moment is not None and (found is None or moment < found):
                found = moment
        return found

    @property
    def drained(self) -> bool:
        """After `drain`: whether every request has ended, and every engine of ours is stopped."""
        floor = self.floor
        if floor.draining_ns is None or floor.requests:
            return False
        return all(one.state is State.STOPPED for one in floor.replicas if one.host.ours)

    # --- requests ---

    def arrived(
        self, now_ns: int, request: int, model: str, client: str = "", priority: int | None = None,
        deadline_ns: int | None = None,
    ) -> None:  # fmt: skip
        """A client asks for a model. `deadline_ns` is a moment; `priority` None is the model's."""
        floor = self._at(now_ns)
        known = floor.by_name.get(model)
        if known is None:
            floor.effects.append(
                Refuse(request, 404, "model_not_found", f"the model {model!r} is not served here")
            )
            return
        deadline = floor.now_ns + floor.settings.deadline_ns if deadline_ns is None else deadline_ns
        urgency = known.priority if priority is None else priority
        found = Request(request, known.index, client, urgency, floor.now_ns, deadline)
        refused = refusal(floor, known, found)
        if refused is not None:
            floor.effects.append(refused)
            return
        self.requests.admit(found)
        count = known.waiting.count
        urgent = count == 1 or urgency > known.waiting.priority_but(urgency)
        self.requests.serve(known)
        if urgent and known.waiting.count:  # nothing else that comes in changes whose turn it is
            self.residency.decide()

    def first_byte(self, now_ns: int, request: int) -> None:
        """Bytes of the answer are on their way to the client: from now on nothing is repeated."""
        self._at(now_ns)
        found = self.floor.requests.get(request)
        if found is not None and found.replica is not None:
            found.begun = True

    def finished(self, now_ns: int, request: int) -> None:
        """The answer went out whole."""
        floor = self._at(now_ns)
        found = floor.requests.get(request)
        if found is None or found.replica is None:
            return
        replica, model = floor.replicas[found.replica], floor.models[found.model]
        model.service_ns += (floor.now_ns - found.sent_ns - model.service_ns) >> 3
        replica.failures = replica.stalled = replica.full_ns = 0
        self.requests.end(found)
        self._settle(model)

    def left(self, now_ns: int, request: int) -> None:
        """The client is gone."""
        floor = self._at(now_ns)
        found = floor.requests.get(request)
        if found is None:
            return
        self.requests.take_back(found)
        self.requests.end(found)
        self._settle(floor.models[found.model])

    def broke(self, now_ns: int, request: int, reason: str, *, suspect: bool = True, full: bool = False) -> None:
        """The engine did not answer it, or not properly. It is sent again only if nothing was sent to the client.
        `suspect`: the engine itself is in doubt (a lost connection, garbage); `full`: it takes nothing more just
        now, which is no failure: the request waits as before it was sent."""
        floor = self._at(now_ns)
        found = floor.requests.get(request)
        if found is None or found.replica is None:
            return
        replica = floor.replicas[found.replica]
        if full and not found.begun:
            replica.full_ns = floor.now_ns + floor.settings.full_ns
            found.tries -= 1
        else:
            replica.stalled += 1
        self.requests.orphaned(found, reason)
        if replica.stalled >= floor.settings.stalls:
            self._failed(replica, f"{replica.stalled} requests in a row failed: {reason}")
        elif suspect:
            self.supervisor.suspect(replica)
        self._settle(None)
        if full and self.requests.turn_away(floor.models[found.model]):
            self._settle(None)

    # --- engines ---

    def up(self, now_ns: int, replica: int, generation: int) -> None:
        """It is ready: after a start, after a wake (one answer checked), or after a probe."""
        found = self._engine(now_ns, replica, generation)
        if found is not None and self.supervisor.up(found):
            self._settle(self.floor.models[found.model])

    def slept(self, now_ns: int, replica: int, generation: int) -> None:
        """It has freed its memory."""
        found = self._engine(now_ns, replica, generation)
        if found is not None:
            self.supervisor.slept(found)
            self._settle(None)

    def check(self, now_ns: int, replica: int) -> None:
        """Send nothing more to it until a probe has come back: something about it is to change first."""
        self.supervisor.suspect(self._at(now_ns).replicas[replica])

    def failed(self, now_ns: int, replica: int, generation: int, reason: str, *, lasting: bool = False) -> None:
        """It answers wrongly or not at all, though its process may live. `lasting`: it cannot be started as things
        stand, so that nobody is to wait for it."""
        found = self._engine(now_ns, replica, generation)
        if found is not None:
            self._failed(found, reason, lasting=lasting)
            self._settle(None)

    def down(self, now_ns: int, replica: int, generation: int, reason: str = "") -> None:
        """Its process is gone."""
        found = self._engine(now_ns, replica, generation)
        if found is not None:
            self.supervisor.gone(found, reason)
            self.requests.leave(found, reason or "the engine is gone")
            self._settle(None)

    def adopted(self, now_ns: int, replica: int, state: State = State.READY) -> int:
        """An engine of an earlier run is taken over as it is (`Supervisor.adopt`). Its generation. Raises
        CheckError where its bytes do not fit: then it must be stopped first."""
        found = self._at(now_ns).replicas[replica]
        self.supervisor.adopt(found, state)
        return found.generation

    def expect(self, now_ns: int, model: str) -> None:
        """Traffic for the model is expected: wake it where there is room, at nobody's cost."""
        floor = self._at(now_ns)
        known = floor.by_name[model]
        up = any(one.state not in (State.STOPPED, State.ASLEEP) for one in known.replicas)
        for replica in known.replicas if not up and floor.draining_ns is None else ():
            if replica.retires:
                continue
            wanted = replica.host.awake_bytes if replica.state is State.ASLEEP else replica.host.start_bytes
            if replica.retry_ns <= floor.now_ns and floor.ledger.fits(replica.index, replica.host.devices, wanted):
                (self.supervisor.wake if replica.state is State.ASLEEP else self.supervisor.start)(replica)
                return

    def replan(
        self, now_ns: int, hosts: Sequence[Hosted], models: Sequence[Served], capacity: Mapping[int, int],
        kept: Sequence[int | None],
    ) -> list[int]:  # fmt: skip
        """A new plan takes the place of this one, engine by engine (see `Migration.begin`)."""
        self._at(now_ns)
        found = self.migration.begin(hosts, models, capacity, kept)
        self._settle(None)
        return found

    def measured(self, now_ns: int, device: int, others_bytes: int) -> None:
        """What the driver says that others hold of a device."""
        self._at(now_ns).ledger.others[device] = max(0, others_bytes)
        self._settle(None)

    # --- time ---

    def tick(self, now_ns: int) -> None:
        """Time has passed: deadlines, hung engines, rests that are over."""
        floor = self._at(now_ns)
        if floor.review_ns is not None and floor.review_ns <= floor.now_ns:
            floor.review_ns = None
        for found in self.requests.past_deadline():
            self._expired(found)
        for replica in floor.replicas:
            if replica.until_ns is not None and replica.until_ns <= floor.now_ns and self.supervisor.late(replica):
                self._failed(replica, f"no reply while {replica.state.name.lower()}")
        if floor.draining_ns is not None and floor.now_ns >= floor.draining_ns:
            for found in list(floor.requests.values()):
                self.requests.refuse(found, 503, "shutting_down", "the gateway is shutting down", AGAIN_S)
        self._settle(None)

    def drain(self, now_ns: int) -> None:
        """Take nothing new, let what is here end (for `drain_ns` at most), then stop all engines of ours."""
        floor = self._at(now_ns)
        if floor.draining_ns is None:
            floor.draining_ns = floor.now_ns + floor.settings.drain_ns
        self._settle(None)

    # --- what follows ---

    def _at(self, now_ns: int) -> Floor:
        floor = self.floor
        if now_ns > floor.now_ns:
            floor.now_ns = now_ns
        return floor

    def _engine(self, now_ns: int, replica: int, generation: int) -> Replica | None:
        """The replica, if what is said is of its present process."""
        found = self._at(now_ns).replicas[replica]
        return found if found.generation == generation else None

    def _settle(self, model: Model | None) -> None:
        """Serve, then decide who wakes. `model`: the only one that can have anything to serve; None: any."""
        floor = self.floor
        for one in floor.models if model is None else (model,):
            if one.waiting.count:
                self.requests.serve(one)
        self.residency.decide()
        if floor.draining_ns is None:
            self.migration.decide()
        elif not floor.requests:
            self._stop_all()

    def _failed(self, replica: Replica, reason: str, *, lasting: bool = False) -> None:
        self.supervisor.failed(replica, reason, lasting=lasting)
        self.requests.leave(replica, reason)

    def _expired(self, request: Request) -> None:
        """Its deadline has passed. An engine that gave no byte of it is in doubt."""
        replica = self.requests.expired(request)
        if replica is None:
            return
        replica.stalled += 1
        if replica.stalled >= self.floor.settings.stalls:
            self._failed(replica, f"{replica.stalled} requests in a row without a byte")
        else:
            self.supervisor.suspect(replica)

    def _stop_all(self) -> None:
        for replica in self.floor.replicas:
            if replica.host.ours and replica.state not in (State.STOPPED, State.STOPPING):
                self.supervisor.stop(replica)
