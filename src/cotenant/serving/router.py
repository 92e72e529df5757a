"""The router: requests in, answers or honest errors out, each exactly once.

Every event method takes the time first, does what it does, lets `_settle` decide what follows, and leaves what is
to be done in `take()`. Timers: call `tick` at `next_ns()`, or later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from cotenant.policy.dispatch import least_loaded
from cotenant.serving.door import AGAIN_S, broken, refusal
from cotenant.serving.effects import Cancel, Effect, Refuse, Send
from cotenant.serving.floor import Floor
from cotenant.serving.migration import Migration
from cotenant.serving.replica import Model, Replica, State
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
        self._deadlines: list[tuple[int, int]] = []

    # --- what may be asked ---

    def take(self) -> list[Effect]:
        """What is to be done now, in this order; it is handed over once."""
        found, self.floor.effects = self.floor.effects, []
        return found

    def next_ns(self) -> int | None:
        """When `tick` is due; None where nothing waits for time."""
        floor = self.floor
        while self._deadlines and self._deadlines[0][1] not in floor.requests:
            heappop(self._deadlines)
        found = self._deadlines[0][0] if self._deadlines else None
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
        floor.requests[request] = found
        heappush(self._deadlines, (deadline, request))
        known.waiting.push(found)
        count = known.waiting.count
        urgent = count == 1 or urgency > known.waiting.priority_but(urgency)
        self._serve(known)
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
        self._end(found)
        self._settle(model)

    def left(self, now_ns: int, request: int) -> None:
        """The client is gone."""
        floor = self._at(now_ns)
        found = floor.requests.get(request)
        if found is None:
            return
        self._take_back(found)
        self._end(found)
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
        self._orphaned(found, reason)
        if replica.stalled >= floor.settings.stalls:
            self._failed(replica, f"{replica.stalled} requests in a row failed: {reason}")
        elif suspect:
            self.supervisor.suspect(replica)
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

    def failed(self, now_ns: int, replica: int, generation: int, reason: str) -> None:
        """It answers wrongly or not at all, though its process may live."""
        found = self._engine(now_ns, replica, generation)
        if found is not None:
            self._failed(found, reason)
            self._settle(None)

    def down(self, now_ns: int, replica: int, generation: int, reason: str = "") -> None:
        """Its process is gone."""
        found = self._engine(now_ns, replica, generation)
        if found is not None:
            self.supervisor.gone(found, reason)
            self._leave_requests(found, reason or "the engine is gone")
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
        while self._deadlines and self._deadlines[0][0] <= floor.now_ns:
            found = floor.requests.get(heappop(self._deadlines)[1])
            if found is not None:
                self._expired(found)
        for replica in floor.replicas:
            if replica.until_ns is not None and replica.until_ns <= floor.now_ns and self.supervisor.late(replica):
                self._failed(replica, f"no reply while {replica.state.name.lower()}")
        if floor.draining_ns is not None and floor.now_ns >= floor.draining_ns:
            for found in list(floor.requests.values()):
                self._refuse(found, 503, "shutting_down", "the gateway is shutting down", AGAIN_S)
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
                self._serve(one)
        self.residency.decide()
        if floor.draining_ns is None:
            self.migration.decide()
        elif not floor.requests:
            self._stop_all()

    def _serve(self, model: Model) -> None:
        waiting = model.waiting
        while waiting.count:
            replica = self._free_replica(model) or self._preempted_for(model)
            if replica is None:
                break
            self._send(waiting.pop(), replica)
        if waiting.count:
            self._give_up(model)

    def _free_replica(self, model: Model) -> Replica | None:
        """The least loaded with a free slot."""
        found: Replica | None = None
        for one in model.replicas:
            if one.state is not State.READY or len(one.running) >= one.host.slots:
                continue
            if one.retires and not one.host.ours and not self.floor.wanted(one):
                continue  # nobody stops it: who is new goes elsewhere
            if one.full_ns > self.floor.now_ns:
                self.floor.review_at(one.full_ns)
                continue
            if found is None or least_loaded((len(found.running), len(one.running)), 2):
                found = one
        return found

    def _send(self, request: Request, replica: Replica) -> None:
        request.replica, request.sent_ns = replica.index, self.floor.now_ns
        request.tries += 1
        replica.running[request.id] = request
        replica.used_ns = self.floor.now_ns
        self.floor.effects.append(Send(request.id, replica.index, replica.generation))

    def _preempted_for(self, model: Model) -> Replica | None:
        """A slot taken back from a lower priority whose answer has not begun; None where there is none."""
        urgency = model.waiting.priority()
        for replica in model.replicas:
            if replica.state is not State.READY:
                continue
            for other in reversed(replica.running.values()):
                if (
                    other.priority < urgency
                    and not other.begun
                    and other.preempted < self.floor.settings.preemptions
                ):
                    self._take_back(other, preempted=True)
                    other.preempted += 1
                    other.tries -= 1
                    model.waiting.push(other, first=True)
                    return replica
        return None

    def _give_up(self, model: Model) -> None:
        """Where no replica starts, try after try, those that wait are told now rather than at the end."""
        found = broken(self.floor, model)
        for request in model.waiting.requests() if found is not None else ():
            reason, again = found or ("", 0)
            self._refuse(request, 503, "engine_failed", reason, again)

    def _expired(self, request: Request) -> None:
        """Its deadline has passed. An engine that gave no byte of it is in doubt."""
        replica = None if request.replica is None else self.floor.replicas[request.replica]
        silent = replica is not None and not request.begun
        self._refuse(request, 504, "deadline", "no answer within the deadline")
        if silent and replica is not None:
            replica.stalled += 1
            if replica.stalled >= self.floor.settings.stalls:
                self._failed(replica, f"{replica.stalled} requests in a row without a byte")
            else:
                self.supervisor.suspect(replica)

    def _failed(self, replica: Replica, reason: str) -> None:
        self.supervisor.failed(replica, reason)
        self._leave_requests(replica, reason)

    def _leave_requests(self, replica: Replica, reason: str) -> None:
        """Its requests are without an engine."""
        replica.stalled = 0
        for request in list(replica.running.values()):
            self.floor.effects.append(Cancel(request.id, replica.index, replica.generation))
            self._orphaned(request, reason)

    def _orphaned(self, request: Request, reason: str) -> None:
        """Wait again where nothing was sent to the client and a try is left; else an error."""
        floor = self.floor
        if request.replica is not None:
            replica, request.replica = floor.replicas[request.replica], None
            replica.running.pop(request.id, None)
            self.supervisor.settle(replica)
        if request.begun:
            self._refuse(request, 502, "engine_failed", f"the engine failed in the middle of the answer: {reason}")
        elif request.tries >= floor.settings.tries:
            self._refuse(request, 502, "engine_failed", f"the engine failed {request.tries} times: {reason}")
        else:
            floor.models[request.model].waiting.push(request, first=True)

    def _refuse(
        self, request: Request, status: int, code: str, message: str, retry_after: int | None = None
    ) -> None:
        self._take_back(request)
        self._end(request)
        self.floor.effects.append(Refuse(request.id, status, code, message, retry_after, request.begun))

    def _take_back(self, request: Request, *, preempted: bool = False) -> None:
        """Out of its engine, or out of its queue."""
        floor = self.floor
        if request.waits:
            floor.models[request.model].waiting.drop(request)
        elif request.replica is not None:
            replica = floor.replicas[request.replica]
            floor.effects.append(Cancel(request.id, replica.index, replica.generation, preempted))
            replica.running.pop(request.id, None)
            replica.used_ns = floor.now_ns
            request.replica = None
            self.supervisor.settle(replica)

    def _end(self, request: Request) -> None:
        floor = self.floor
        floor.requests.pop(request.id, None)
        if request.replica is not None:
            replica = floor.replicas[request.replica]
            replica.running.pop(request.id, None)
            replica.used_ns = floor.now_ns
            request.replica = None
            self.supervisor.settle(replica)

    def _stop_all(self) -> None:
        for replica in self.floor.replicas:
            if replica.host.ours and replica.state not in (State.STOPPED, State.STOPPING):
                self.supervisor.stop(replica)
