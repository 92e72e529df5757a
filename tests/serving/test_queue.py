"""Who is served next, who is not let in, and who is told to come again."""

from __future__ import annotations

from cotenant.serving.effects import Cancel, Probe, Refuse, Send, Start
from cotenant.serving.replica import State
from cotenant.serving.router import Router
from cotenant.serving.settings import Served
from cotenant.serving.waiting import Request, Waiting
from tests.serving.routers import S, host, router, two, up


def test_a_request_starts_its_model_and_is_sent_when_it_is_up():
    one = two()
    one.arrived(0, 1, "A")
    assert one.take() == [Start(0, 1)]
    up(one, 2 * S)
    assert one.take() == [Send(1, 0, 1)]
    one.finished(3 * S, 1)
    assert one.take() == []
    assert one.floor.requests == {}


def test_an_unknown_model_is_refused():
    one = two()
    one.arrived(0, 1, "C")
    (refusal,) = one.take()
    assert (refusal.status, refusal.code) == (404, "model_not_found")


def test_priority_passes_and_preempts_only_before_the_first_byte():
    one = router(host("a", "A", slots=2))
    one.arrived(0, 1, "A", priority=0)
    one.arrived(0, 2, "A", priority=0)
    up(one, S)
    one.first_byte(S, 1)
    one.take()
    one.arrived(2 * S, 3, "A", priority=9)
    assert one.take() == [Cancel(2, 0, 1, preempted=True), Send(3, 0, 1)]
    one.first_byte(2 * S, 3)
    one.arrived(3 * S, 4, "A", priority=9)
    assert one.take() == []
    one.finished(4 * S, 1)
    assert one.take() == [Send(4, 0, 1)]
    one.finished(5 * S, 4)
    assert one.take() == [Send(2, 0, 1)]


def test_clients_take_turns():
    one = router(host("a", "A"))
    for number in range(4):
        one.arrived(0, number, "A", "greedy")
    one.arrived(0, 9, "A", "modest")
    one.take()
    up(one, S)
    order = []
    for now in range(2, 7):
        (sent,) = one.take()
        order.append(sent.request)
        one.finished(now * S, sent.request)
    assert order == [0, 9, 1, 2, 3]


def test_the_door_closes_where_the_queue_cannot_keep_the_slo():
    one = router(host("a", "A"), models=[Served("A", limit_ns=3 * S, service_ns=2 * S)])
    one.arrived(0, 1, "A")
    up(one, S)
    one.arrived(S, 2, "A")
    one.take()
    one.arrived(S, 3, "A")
    (refusal,) = one.take()
    assert (refusal.status, refusal.code, refusal.retry_after_s) == (429, "queue_full", 1)


def test_a_full_queue_is_said_with_when_to_come_again():
    one = router(host("a", "A"), most_waiting=2)
    for number in range(3):
        one.arrived(0, number, "A")
    refusal = one.take()[-1]
    assert isinstance(refusal, Refuse)
    assert refusal.status == 429
    assert refusal.retry_after_s == 1


def test_a_deadline_is_kept_waiting_and_running():
    """Who waits in turn for an engine that is up may come again; what an engine had, or none has, timed out."""
    one = router(host("a", "A"))
    one.arrived(0, 1, "A", deadline_ns=5 * S)
    one.arrived(0, 2, "A", deadline_ns=4 * S)
    up(one, S)
    one.take()
    one.tick(4 * S)
    assert one.take() == [Refuse(2, 429, "queue_full", "A: its turn did not come within the deadline", 1)]
    one.tick(5 * S)
    assert one.take() == [
        Cancel(1, 0, 1),
        Refuse(1, 504, "deadline", "no answer within the deadline"),
        Probe(0, 1),
    ]


def test_a_deadline_while_the_model_loads_is_a_timeout():
    one = router(host("a", "A"))
    one.arrived(0, 1, "A", deadline_ns=S)
    one.take()
    one.tick(S)
    assert one.take() == [Refuse(1, 504, "deadline", "no answer within the deadline")]


def test_who_is_told_to_come_again_hears_how_long_those_ahead_take():
    one = router(host("a", "A"), models=[Served("A", service_ns=6 * S)])
    for number in range(3):
        one.arrived(0, number, "A", deadline_ns=60 * S)
    one.arrived(0, 3, "A", priority=-1, deadline_ns=4 * S)
    up(one, S)
    one.take()
    one.tick(4 * S)
    assert [(e.request, e.status, e.retry_after_s) for e in one.take()] == [
        (3, 429, 18)
    ]  # three, six seconds each


def test_a_clock_that_goes_back_changes_nothing():
    one = router(host("a", "A"))
    one.arrived(100 * S, 1, "A")
    up(one, 50 * S)
    assert one.floor.now_ns == 100 * S
    assert Send(1, 0, 1) in one.take()


def test_an_engine_that_is_full_is_asked_again_later_and_never_killed():
    one = router(host("a", "A", slots=8), full_ns=S)
    for number in range(4):
        one.arrived(number, number, "A")
    up(one, S)
    one.take()
    one.first_byte(S, 0)
    for turn in range(5):
        now = (2 + turn) * S
        for number in (1, 2, 3):
            one.broke(now, number, "it answered 429", suspect=False, full=True)
        assert one.take() == []
        one.tick(one.next_ns())
        assert [(type(effect), effect.request) for effect in one.take()] == [(Send, 1), (Send, 2), (Send, 3)]
    one.broke(9 * S, 1, "it answered 429", suspect=False, full=True)
    one.finished(9 * S + 1, 0)  # it has room before the second is over
    assert one.take() == [Send(1, 0, 1)]
    assert one.floor.replicas[0].state is State.READY


def full(one: Router, now: int, *requests: int) -> None:
    for number in requests:
        one.broke(now, number, "it answered 429", suspect=False, full=True)


def test_who_waits_for_a_full_engine_waits_until_its_deadline_and_may_come_again():
    one = router(host("a", "A"))
    one.arrived(0, 1, "A", deadline_ns=4 * S)
    up(one, S)
    full(one, S, 1)
    one.tick(2 * S)
    full(one, 3 * S + S // 2, 1)
    one.take()
    one.tick(4 * S)
    assert [(found.status, found.code, found.retry_after_s) for found in one.take()] == [(429, "queue_full", 1)]


def test_a_full_engine_turns_away_whom_it_cannot_serve_within_the_slo():
    one = router(host("a", "A", slots=8), models=[Served("A", limit_ns=3 * S)], full_ns=S)
    one.arrived(0, 1, "A")
    up(one, 60 * S)  # a model that is not up refuses nobody
    one.arrived(61 * S, 2, "A")
    one.take()
    full(one, 61 * S, 1, 2)
    assert one.take() == []
    one.tick(62 * S)
    assert [e.request for e in one.take()] == [1, 2]
    full(one, 62 * S + S // 2, 1)  # asked again at 63.5: half a second too late for 1, in time for 2
    assert one.take() == [Refuse(1, 429, "queue_full", "A: its engine takes nothing more now", 1)]
    full(one, 63 * S, 2)
    assert one.take() == []
    one.tick(64 * S)
    one.take()
    full(one, 64 * S, 2)
    assert [(e.request, e.status) for e in one.take()] == [(2, 429)]


def test_another_engine_with_room_or_on_its_way_turns_nobody_away():
    hosts = host("a", "A", awake=400, slots=2), host("a2", "A", awake=400, slots=2)
    one = router(*hosts, models=[Served("A", limit_ns=S)], full_ns=2 * S)
    one.arrived(0, 1, "A")
    up(one, S)
    one.arrived(S, 2, "A")
    full(one, S, 1)
    assert not [e for e in one.take() if isinstance(e, Refuse)]  # the other one is started
    full(one, 2 * S, 2)
    up(one, 3 * S, replica=1)
    assert [(e.request, e.replica) for e in one.take()] == [(1, 1), (2, 1)]


def test_the_door_counts_what_a_full_engine_runs_not_its_slots():
    one = router(host("a", "A", slots=8), models=[Served("A", limit_ns=5 * S, service_ns=2 * S)])
    for number in range(3):
        one.arrived(0, number, "A")
    up(one, S)
    one.take()
    full(one, S, 1, 2)  # it takes one at a time: others have the rest
    one.arrived(S, 3, "A")
    assert [(e.request, e.status, e.retry_after_s) for e in one.take()] == [
        (3, 429, 1)
    ]  # 3 x 2 s ahead, 5 allowed


def test_one_more_replica_is_started_where_the_one_that_is_up_says_that_it_is_full():
    one = router(host("a", "A", awake=400, slots=8), host("a2", "A", awake=400, slots=8))
    one.arrived(0, 1, "A")
    up(one, S)
    one.take()
    one.broke(S, 1, "it answered 429", suspect=False, full=True)
    assert one.take() == [Start(1, 1)]


def test_the_oldest_that_waits_is_the_oldest_though_others_come_back_from_an_engine():
    queue = Waiting()
    first, second, third, fourth = (Request(number, 0, "c", 0, number, 99) for number in range(4))
    queue.push(second)
    queue.push(fourth)
    queue.push(third, first=True)
    assert queue.oldest_ns() == 1
    queue.push(first, first=True)
    assert queue.oldest_ns() == 0
    assert [one.id for one in queue.requests()] == [0, 1, 2, 3]
    assert [queue.pop().id for _ in range(4)] == [0, 1, 2, 3]
