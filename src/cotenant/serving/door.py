"""Who is not let in, and who is told to give up: before anything of a request is sent to an engine."""

from __future__ import annotations

from collections.abc import Iterator

from cotenant.policy.refusal import expected_wait, must_refuse, retry_after_s
from cotenant.serving.effects import Refuse
from cotenant.serving.floor import Floor
from cotenant.serving.replica import COMING, Model, Replica, State
from cotenant.serving.settings import SECOND
from cotenant.serving.waiting import Request
from cotenant.units import plural

AGAIN_S = 5  # when to come again to a gateway that shuts down: another one may have begun by then
_SERVING = (State.READY, State.SUSPECT, State.DRAINING)


def refusal(floor: Floor, model: Model, request: Request) -> Refuse | None:
    """Why a request is not even let in: the queue is full, or longer than its SLO or its deadline allows."""
    if floor.draining_ns is not None:
        return Refuse(request.id, 503, "shutting_down", "the gateway is shutting down", AGAIN_S)
    if request.deadline_ns <= floor.now_ns:
        return Refuse(request.id, 504, "deadline", "the deadline is over")
    slots, free = _slots(floor, model)
    ahead = model.waiting.ahead(request.priority)
    if free > ahead:
        return None
    wait = expected_wait(ahead + 1, slots, model.service_ns)
    limit = request.deadline_ns - floor.now_ns
    if model.limit_ns is not None and slots:
        limit = min(limit, model.limit_ns)
    if not must_refuse(model.waiting.count, floor.settings.most_waiting, wait, limit):
        return None
    words = f"{plural(model.waiting.count, 'request')} ahead, about {wait / SECOND:.1f} s"
    return _queue_full(request, model, words, retry_after_s(wait, limit))


def late_at_full_engines(floor: Floor, model: Model) -> Iterator[tuple[Request, Refuse]]:
    """Those that wait for engines which all say that they are full (the door could not know), and that would be
    sent again only after their SLO is over. Time in which the model was not up does not count."""
    full = _full(floor, model)
    if not full or model.limit_ns is None:
        return
    again_ns, up_ns = min(one.full_ns for one in full), min(one.since_ns for one in full)
    for one in model.waiting.requests():
        if again_ns > max(one.arrived_ns, up_ns) + model.limit_ns:
            yield one, _queue_full(one, model, "its engine takes nothing more now", _seconds(floor, again_ns))


def overdue(floor: Floor, model: Model, request: Request) -> Refuse:
    """What is said to one whose deadline has passed. One that still waits behind others for an engine that is up
    may come again: 429. Where an engine had it, or none was up, it is the gateway that did not answer: 504."""
    if not request.waits or not any(one.state is State.READY for one in model.replicas):
        return Refuse(request.id, 504, "deadline", "no answer within the deadline")
    slots, _ = _slots(floor, model)
    again = retry_after_s(expected_wait(model.waiting.ahead(request.priority), slots, model.service_ns), 0)
    for one in _full(floor, model):
        again = max(again, _seconds(floor, one.full_ns))
    return _queue_full(request, model, "its turn did not come within the deadline", again)


def broken(floor: Floor, model: Model) -> tuple[str, int] | None:
    """Why no replica of a model starts, try after try, and when the first is tried again (seconds); None where one
    may come up: it failed less often, is under way, or has rested."""
    limit = floor.settings.broken_after
    for one in model.replicas:
        if one.failed_starts < limit or one.state not in (State.STOPPED, State.STOPPING):
            return None
        if one.retry_ns <= floor.now_ns:
            return None
    if not model.replicas:
        return None
    again = max(1, -((floor.now_ns - min(one.retry_ns for one in model.replicas)) // SECOND))
    return f"{model.name} does not start: {model.replicas[0].reason.partition(': ')[0]}", again


def _slots(floor: Floor, model: Model) -> tuple[int, int]:
    """(requests that its engines have at once, how many more they take now). One that says it is full has as many
    as run there: others have the rest."""
    slots = free = 0
    for one in model.replicas:
        if one.state in _SERVING:
            full = one.full_ns > floor.now_ns
            slots += len(one.running) if full else one.host.slots
            free += 0 if full else one.free_slots
    return slots, free


def _full(floor: Floor, model: Model) -> list[Replica]:
    """Its engines that are up, where each of them says that it is full and none is coming; else none."""
    up = [one for one in model.replicas if one.state is State.READY]
    more = any(one.state in COMING for one in model.replicas)
    return [] if more or any(one.full_ns <= floor.now_ns for one in up) else up


def _seconds(floor: Floor, moment_ns: int) -> int:
    """Whole seconds until then, at least one."""
    return retry_after_s(moment_ns - floor.now_ns, 0)


def _queue_full(request: Request, model: Model, words: str, again_s: int) -> Refuse:
    return Refuse(request.id, 429, "queue_full", f"{model.name}: {words}", again_s)
