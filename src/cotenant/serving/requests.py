"""Requests from their place in a queue to their end: who is served next, sent, taken back, told."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from cotenant.policy.dispatch import least_loaded
from cotenant.serving.door import broken, late_at_full_engines, overdue
from cotenant.serving.effects import Cancel, Refuse, Send
from cotenant.serving.floor import Floor
from cotenant.serving.replica import Model, Replica, State
from cotenant.serving.supervisor import Supervisor
from cotenant.serving.waiting import Request


class Requests:
    """What becomes of them. Engines are the supervisor's: it is told where the last request of one has ended."""

    __slots__ = ("_deadlines", "floor", "supervisor")

    def __init__(self, floor: Floor, supervisor: Supervisor) -> None:
        self.floor, self.supervisor = floor, supervisor
        self._deadlines: list[tuple[int, int]] = []

    # --- in ---

    def admit(self, request: Request) -> None:
        """Let it wait for its model."""
        self.floor.requests[request.id] = request
        heappush(self._deadlines, (request.deadline_ns, request.id))
        self.floor.models[request.model].waiting.push(request)

    def next_deadline_ns(self) -> int | None:
        """When the first of those that have not ended is over."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self.floor.requests:
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def past_deadline(self) -> Iterator[Request]:
        """Those that have not ended although their deadlines have passed, each once; what is done about one may
        end others."""
        while self._deadlines and self._deadlines[0][0] <= self.floor.now_ns:
            found = self.floor.requests.get(heappop(self._deadlines)[1])
            if found is not None:
                yield found

    # --- served ---

    def serve(self, model: Model) -> None:
        """Send as many of those that wait as its engines take."""
        waiting = model.waiting
        while waiting.count:
            replica = self.free_replica(model) or self._preempted_for(model)
            if replica is None:
                break
            self._send(waiting.pop(), replica)
        if waiting.count:
            self._give_up(model)

    def free_replica(self, model: Model) -> Replica | None:
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
                    self.take_back(other, preempted=True)
                    other.preempted += 1
                    other.tries -= 1
                    model.waiting.push(other, first=True)
                    return replica
        return None

    # --- without an engine ---

    def orphaned(self, request: Request, reason: str) -> None:
        """Its engine is gone, or did not answer it: it waits again where nothing was sent to the client and a try
        is left; else it ends with an error."""
        floor = self.floor
        self._off_its_engine(request)
        if request.begun:
            self.refuse(request, 502, "engine_failed", f"the engine failed in the middle of the answer: {reason}")
        elif request.tries >= floor.settings.tries:
            self.refuse(request, 502, "engine_failed", f"the engine failed {request.tries} times: {reason}")
        else:
            floor.models[request.model].waiting.push(request, first=True)

    def leave(self, replica: Replica, reason: str) -> None:
        """All of an engine's requests are without it."""
        replica.stalled = 0
        for request in list(replica.running.values()):
            self.floor.effects.append(Cancel(request.id, replica.index, replica.generation))
            self.orphaned(request, reason)

    def turn_away(self, model: Model) -> bool:
        """Its engines say that they are full: who would be sent again too late for its SLO is told now. Whether
        there was anybody."""
        late = list(late_at_full_engines(self.floor, model))
        for request, refusal in late:
            self._tell(request, refusal)
        return bool(late)

    def _give_up(self, model: Model) -> None:
        """Where no replica starts, try after try, those that wait are told now rather than at the end."""
        found = broken(self.floor, model)
        for request in model.waiting.requests() if found is not None else ():
            reason, again = found or ("", 0)
            self.refuse(request, 503, "engine_failed", reason, again)

    # --- ended ---

    def expired(self, request: Request) -> Replica | None:
        """Its deadline has passed. The engine that gave no byte of it until then, if one was to."""
        replica = None if request.replica is None else self.floor.replicas[request.replica]
        self._tell(request, overdue(self.floor, self.floor.models[request.model], request))
        return None if request.begun else replica

    def refuse(
        self, request: Request, status: int, code: str, message: str, retry_after: int | None = None
    ) -> None:
        """End it with an error."""
        self._tell(request, Refuse(request.id, status, code, message, retry_after))

    def _tell(self, request: Request, refusal: Refuse) -> None:
        self.take_back(request)
        self.end(request)
        refusal.begun = request.begun
        self.floor.effects.append(refusal)

    def take_back(self, request: Request, *, preempted: bool = False) -> None:
        """Out of its engine, or out of its queue."""
        floor = self.floor
        if request.waits:
            floor.models[request.model].waiting.drop(request)
        elif request.replica is not None:
            replica = floor.replicas[request.replica]
            floor.effects.append(Cancel(request.id, replica.index, replica.generation, preempted))
            self._off_its_engine(request)

    def end(self, request: Request) -> None:
        """Out of the books."""
        self.floor.requests.pop(request.id, None)
        self._off_its_engine(request)

    def _off_its_engine(self, request: Request) -> None:
        """It holds no slot any more: an engine that makes room may have nothing left to do."""
        if request.replica is not None:
            replica, request.replica = self.floor.replicas[request.replica], None
            replica.running.pop(request.id, None)
            replica.used_ns = self.floor.now_ns
            self.supervisor.settle(replica)
