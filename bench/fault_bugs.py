"""Eleven bugs that a router like ours could have, each planted by itself, to see that the fault seeds find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cotenant.serving.effects import Refuse, Send, Start
from cotenant.serving.replica import Replica, State
from cotenant.serving.requests import Requests
from cotenant.serving.router import Router
from cotenant.serving.supervisor import Supervisor
from cotenant.serving.waiting import Request, Waiting, _Level


class FreesAtOnce(Supervisor):
    """Counts a process's bytes as free when it is asked to stop, not when it is gone."""

    __slots__ = ()

    def stop(self, replica: Replica, *, kill: bool = False) -> None:
        """As above, too early."""
        super().stop(replica, kill=kill)
        self.floor.ledger.hold(replica.index, replica.host.devices, 0)


class ForgetsLoadPeak(Supervisor):
    """Takes a model that loads for as small as one that runs."""

    __slots__ = ()

    def start(self, replica: Replica) -> None:
        """As above, with the bytes of later."""
        super().start(replica)
        self.floor.ledger.hold(replica.index, replica.host.devices, replica.host.awake_bytes)


class AsksOnce(Supervisor):
    """Asks a process to stop, and waits for ever."""

    __slots__ = ()

    def late(self, replica: Replica) -> bool:
        """No second time."""
        if replica.state is State.STOPPING:
            replica.until_ns = None
            return False
        return super().late(replica)


class TakesAnyReply(Router):
    """Believes replies of processes that are long gone."""

    def _engine(self, now_ns: int, replica: int, generation: int) -> Replica | None:
        self._at(now_ns)
        return self.floor.replicas[replica]


class RepeatsBegun(Requests):
    """Sends a request again although its client has read half an answer."""

    __slots__ = ()

    def orphaned(self, request: Request, reason: str) -> None:
        """As if nothing had been sent."""
        begun, request.begun = request.begun, False
        super().orphaned(request, reason)
        request.begun = begun


class LosesOrphans(Requests):
    """Forgets the requests of an engine that died."""

    __slots__ = ()

    def orphaned(self, request: Request, reason: str) -> None:
        """Out of the books, and nobody is told."""
        self.end(request)


class ForgetsWhoDrains(Requests):
    """Does not look whether an engine that makes room has nothing left, where its last request breaks."""

    __slots__ = ()

    def orphaned(self, request: Request, reason: str) -> None:
        """Its slot is free, and that is all."""
        place = request.replica
        if place is not None:
            self.floor.replicas[place].running.pop(request.id, None)
            request.replica = None
        super().orphaned(request, reason)


class ForgetsTheClient(Router):
    """Lets the engine work on for a client that is gone."""

    def left(self, now_ns: int, request: int) -> None:
        """The books are closed, the engine is not told."""
        floor = self._at(now_ns)
        found = floor.requests.get(request)
        if found is not None:
            if found.waits:
                floor.models[found.model].waiting.drop(found)
            self.requests.end(found)
            self._settle(floor.models[found.model])


class OneTooMany(Requests):
    """Gives an engine one request more than it has slots."""

    __slots__ = ()

    def free_replica(self, model: Any) -> Replica | None:
        """Whoever is up."""
        for one in model.replicas:
            if one.state is State.READY and len(one.running) <= one.host.slots:
                found: Replica = one
                return found
        return None


class FirstComeOnly(_Level):
    """Serves whoever shouted first, however often."""

    __slots__ = ()

    def pop(self) -> Request:
        """The oldest of all clients."""
        lines = {client: line for client, line in self.lines.items() if [one for one in line if one.waits]}
        heads = {client: next(one for one in line if one.waits) for client, line in lines.items()}
        client = min(heads, key=lambda one: (heads[one].arrived_ns, one))
        self.lines[client].remove(heads[client])
        return heads[client]


class SendsWhileWaking(Router):
    """Takes a start for an engine that is up."""

    def take(self) -> list[Any]:
        """Whoever was just started is sent to."""
        found = super().take()
        for effect in found:
            if isinstance(effect, Start):
                self.up(self.floor.now_ns, effect.replica, effect.generation)
                return found + [one for one in super().take() if isinstance(one, Send | Refuse)]
        return found


def _with_supervisor(kind: type[Supervisor]) -> Callable[..., Router]:
    def make(*told: Any) -> Router:
        router = Router(*told)
        router.supervisor = router.residency.supervisor = kind(router.floor)
        return router

    return make


def _with_requests(kind: type[Requests]) -> Callable[..., Router]:
    def make(*told: Any) -> Router:
        router = Router(*told)
        router.requests = kind(router.floor, router.supervisor)
        return router

    return make


def _unfair(*told: Any) -> Router:
    router = Router(*told)

    class Queue(Waiting):
        """Levels without fairness."""

        __slots__ = ()

        def push(self, request: Request, *, first: bool = False) -> None:
            """As usual, into another kind of level."""
            self._levels.setdefault(request.priority, FirstComeOnly())
            super().push(request, first=first)

    for model in router.floor.models:
        model.waiting = Queue()
    return router


BUGS: Mapping[str, Callable[..., Router]] = {
    "frees bytes before the process is gone": _with_supervisor(FreesAtOnce),
    "forgets the peak of loading": _with_supervisor(ForgetsLoadPeak),
    "asks a hung process to stop only once": _with_supervisor(AsksOnce),
    "believes replies of earlier processes": TakesAnyReply,
    "repeats a request whose answer has begun": _with_requests(RepeatsBegun),
    "loses the requests of a dead engine": _with_requests(LosesOrphans),
    "forgets an engine that makes room": _with_requests(ForgetsWhoDrains),
    "does not tell the engine that a client left": ForgetsTheClient,
    "sends one request more than there are slots": _with_requests(OneTooMany),
    "serves the client that asks most": _unfair,
    "sends to an engine that is still loading": SendsWhileWaking,
}
