"""Who is not let in, and who is told to give up: before anything of a request is sent to an engine."""

from __future__ import annotations

from cotenant.policy.refusal import expected_wait, must_refuse, retry_after_s
from cotenant.serving.effects import Refuse
from cotenant.serving.floor import Floor
from cotenant.serving.replica import Model, State
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
    slots = free = 0
    for one in model.replicas:
        if one.state in _SERVING:
            slots += one.host.slots
            free += one.free_slots if one.full_ns <= floor.now_ns else 0
    ahead = model.waiting.ahead(request.priority)
    if free > ahead:
        return None
    wait = expected_wait(ahead + 1, slots, model.service_ns)
    limit = request.deadline_ns - floor.now_ns
    if model.limit_ns is not None and slots:
        limit = min(limit, model.limit_ns)
    if not must_refuse(model.waiting.count, floor.settings.most_waiting, wait, limit):
        return None
    again = retry_after_s(wait, limit)
    return Refuse(
        request.id, 429, "queue_full",
        f"{model.name}: {plural(model.waiting.count, 'request')} ahead, about {wait / SECOND:.1f} s", again,
    )  # fmt: skip


def broken(floor: Floor, model: Model) -> tuple[str, int] | None:
    """Why no replica of a model starts, try after try, and when to come again (seconds); None where one may."""
    limit = floor.settings.broken_after
    for one in model.replicas:
        if one.failed_starts < limit or one.state not in (State.STOPPED, State.STOPPING):
            return None
    if not model.replicas:
        return None
    again = max(1, -((floor.now_ns - min(one.retry_ns for one in model.replicas)) // SECOND))
    return f"{model.name} does not start: {model.replicas[0].reason.partition(': ')[0]}", again
