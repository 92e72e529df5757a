"""What the router decides, event by event, without a clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.errors import CheckError
from cotenant.serving.effects import Cancel, Probe, Refuse, Send, Sleep, Start, Stop, Wake
from cotenant.serving.replica import State
from cotenant.serving.router import Router
from cotenant.serving.settings import SECOND, Hosted, Served, Settings
from cotenant.serving.waiting import Request, Waiting

S = SECOND


def host(name, model, device=0, awake=600, slots=1, **more):
    return Hosted(name, model, (device,), awake, slots, load_ns=2 * S, **more)


def router(*hosts, capacity=(1000,), models=None, **settings):
    names = dict.fromkeys(one.model for one in hosts)
    served = models or [Served(name) for name in names]
    return Router(hosts, served, capacity, Settings(**settings))


def two(**settings):
    """Two models on a device for one of them."""
    return router(host("a", "A"), host("b", "B"), **settings)


def up(one, now, replica=0):
    one.up(now, replica, one.floor.replicas[replica].generation)


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


def test_a_first_start_is_not_hung_before_it_may_be():
    one = router(host("a", "A", longest_load_ns=400 * S), least_start_ns=1 * S, deadline_ns=900 * S)
    one.arrived(0, 1, "A")
    assert one.take() == [Start(0, 1)]
    assert one.next_ns() == 400 * S  # four times the usual two seconds would be eight
    one.tick(399 * S)
    assert one.take() == []
    one.tick(400 * S)
    assert one.take() == [Stop(0, 1, kill=True)]


def test_an_idle_model_makes_room_after_its_least_stay():
    one = two(residency_ns=5 * S)
    one.arrived(0, 1, "A")
    up(one, 2 * S)
    one.finished(3 * S, 1)
    one.take()
    one.arrived(3 * S, 2, "B")
    assert one.take() == []
    assert one.next_ns() == 7 * S
    one.tick(7 * S)
    assert one.take() == [Stop(0, 1, kill=False)]
    assert one.floor.ledger.held[0] == 600  # until it is known to be gone
    one.down(8 * S, 0, 1)
    assert one.take() == [Start(1, 1)]


def test_an_idle_model_keeps_its_place_until_another_ones_request_has_waited():
    one = two(residency_ns=0, hold_ns=2 * S)
    one.arrived(0, 1, "A")
    up(one, 2 * S)
    one.finished(3 * S, 1)
    one.take()
    one.arrived(4 * S, 2, "B")
    assert one.next_ns() == 6 * S
    one.arrived(5 * S, 3, "A")
    assert one.take() == [Send(3, 0, 1)]  # no swap for it
    one.finished(5 * S, 3)
    one.tick(6 * S - 1)
    assert one.take() == []
    one.tick(6 * S)
    assert one.take() == [Stop(0, 1, kill=False)]


def test_a_b_a_b_does_not_thrash():
    """Requests in turn: those of one model are served together until the other has waited long enough."""
    one = two(patience_ns=10 * S, residency_ns=5 * S)
    starts, now, number = 0, 0, 0
    busy: dict[int, int] = {}
    loading: dict[int, tuple[int, int]] = {}
    for tick in range(600):
        now = tick * S // 10
        for request, end in list(busy.items()):
            if end <= now:
                del busy[request]
                one.finished(now, request)
        for replica, (end, generation) in list(loading.items()):
            if end <= now:
                del loading[replica]
                one.up(now, replica, generation)
        if tick % 3 == 0:
            number += 1
            one.arrived(now, number, "AB"[number % 2])
        due = one.next_ns()
        if due is not None and due <= now:
            one.tick(now)
        for effect in one.take():
            if isinstance(effect, Send):
                busy[effect.request] = now + S // 10
            if isinstance(effect, Start):
                starts += 1
                loading[effect.replica] = (now + 2 * S, effect.generation)
            if isinstance(effect, Stop):
                one.down(now, effect.replica, effect.generation)
        for effect in one.take():
            assert isinstance(effect, Start)
            starts += 1
            loading[effect.replica] = (now + 2 * S, effect.generation)
    assert number == 200
    assert starts <= 10  # a swap for each request would be 200


def test_a_higher_priority_does_not_wait_for_a_busy_model():
    models = [Served("A", priority=0), Served("B", priority=5)]
    one = router(host("a", "A"), host("b", "B"), models=models, patience_ns=100 * S, residency_ns=100 * S)
    one.arrived(0, 1, "A")
    up(one, 2 * S)
    one.first_byte(2 * S, 1)
    one.take()
    one.arrived(3 * S, 2, "B")
    assert one.take() == []  # it drains: what has begun is not cut
    one.finished(4 * S, 1)
    assert one.take() == [Stop(0, 1, kill=False)]


def test_a_lower_priority_never_displaces_a_busy_model():
    models = [Served("A", priority=5), Served("B", priority=0)]
    one = router(host("a", "A"), host("b", "B"), models=models, patience_ns=1 * S, residency_ns=0)
    one.arrived(0, 1, "A")
    up(one, 2 * S)
    one.take()
    one.arrived(3 * S, 2, "B")
    one.tick(60 * S)
    assert one.take() == []
    one.finished(61 * S, 1)
    assert one.take() == [Stop(0, 1, kill=False)]


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


def test_a_dead_engine_is_tried_again_only_where_nothing_was_sent():
    one = router(host("a", "A", slots=2))
    one.arrived(0, 1, "A")
    one.arrived(0, 2, "A")
    up(one, S)
    one.first_byte(S, 1)
    one.take()
    one.down(2 * S, 0, 1, "killed")
    effects = one.take()
    assert (
        Refuse(1, 502, "engine_failed", "the engine failed in the middle of the answer: killed", None, True)
        in effects
    )
    assert one.next_ns() == 3 * S  # a failure rests for a second
    one.tick(3 * S)
    assert one.take() == [Start(0, 2)]
    up(one, 4 * S)
    assert one.take() == [Send(2, 0, 2)]


def test_a_request_that_kills_engines_is_not_sent_for_ever():
    one = router(host("a", "A"), tries=2)
    one.arrived(0, 1, "A")
    for now in (2, 20):
        up(one, now * S)
        one.down((now + 1) * S, 0, one.floor.replicas[0].generation, "segfault")
        one.tick((now + 10) * S)
    refusals = [effect for effect in one.take() if isinstance(effect, Refuse)]
    assert [(one.status, one.message) for one in refusals] == [(502, "the engine failed 2 times: segfault")]


def test_an_engine_that_never_starts_is_said_and_rests():
    one = router(host("a", "A"), broken_after=3)
    one.arrived(0, 1, "A")
    now = 0
    for _ in range(3):
        one.down(now, 0, one.floor.replicas[0].generation, "out of memory")
        now += 10 * S
        one.tick(now)
    refusal = next(effect for effect in one.take() if isinstance(effect, Refuse))
    assert (refusal.status, refusal.code, refusal.message) == (
        503,
        "engine_failed",
        "A does not start: out of memory",
    )
    assert refusal.retry_after_s == 4


def test_a_doubtful_engine_is_probed_before_it_is_sent_to_again():
    one = router(host("a", "A"))
    one.arrived(0, 1, "A")
    up(one, S)
    one.take()
    one.broke(2 * S, 1, "connection reset")
    assert one.take() == [Probe(0, 1)]
    up(one, 3 * S)
    assert one.take() == [Send(1, 0, 1)]


def test_a_deadline_is_kept_waiting_and_running():
    one = router(host("a", "A"))
    one.arrived(0, 1, "A", deadline_ns=5 * S)
    one.arrived(0, 2, "A", deadline_ns=4 * S)
    up(one, S)
    one.take()
    one.tick(4 * S)
    assert [(e.request, e.status) for e in one.take() if isinstance(e, Refuse)] == [(2, 504)]
    one.tick(5 * S)
    assert one.take() == [
        Cancel(1, 0, 1),
        Refuse(1, 504, "deadline", "no answer within the deadline"),
        Probe(0, 1),
    ]


def test_a_sleeper_is_woken_and_its_bytes_are_kept_in_the_books():
    one = router(
        host("a", "A", asleep_bytes=100, host_bytes=600, can_sleep=True), host("b", "B"), residency_ns=0,
    )  # fmt: skip
    one.arrived(0, 1, "A")
    up(one, S)
    one.finished(2 * S, 1)
    one.take()
    one.arrived(2 * S, 2, "B")
    assert one.take() == [Sleep(0, 1)]
    one.slept(3 * S, 0, 1)
    assert one.take() == [Start(1, 1)]
    assert one.floor.ledger.held == [700, 600]
    up(one, 4 * S, 1)
    one.finished(5 * S, 2)
    one.take()
    one.arrived(5 * S, 3, "A")
    assert one.take() == [Stop(1, 1, kill=False)]
    one.down(6 * S, 1, 1)
    assert one.take() == [Wake(0, 1)]
    up(one, 7 * S)
    assert one.take() == [Send(3, 0, 1)]
    assert one.floor.ledger.held == [600, 0]


def test_a_wake_that_answers_wrongly_is_killed():
    one = router(host("a", "A", can_sleep=True), residency_ns=0)
    one.arrived(0, 1, "A")
    one.failed(S, 0, 1, "wrong words after the wake")
    assert one.take()[-1] == Stop(0, 1, kill=True)


def test_a_stop_that_nobody_answers_becomes_a_kill():
    one = two(residency_ns=0, grace_ns=2 * S, kill_every_ns=S)
    one.arrived(0, 1, "A")
    up(one, S)
    one.finished(2 * S, 1)
    one.arrived(2 * S, 2, "B")
    one.take()
    one.tick(4 * S)
    assert one.take() == [Stop(0, 1, kill=True)]
    one.tick(5 * S)
    assert one.take() == [Stop(0, 1, kill=True)]
    assert one.floor.ledger.held[0] == 600


def test_what_others_hold_is_not_given_away():
    one = two()
    one.measured(0, 0, 500)
    one.arrived(0, 1, "A")
    assert one.take() == []
    one.measured(S, 0, 300)
    assert one.take() == [Start(0, 1)]


def test_a_drain_takes_nothing_new_and_stops_what_is_ours():
    external = Hosted("x", "X", (), 0, 4, load_ns=0, ours=False)
    one = router(host("a", "A"), external, drain_ns=10 * S)
    one.arrived(0, 1, "A")
    one.arrived(0, 2, "X")
    up(one, S)
    one.take()
    one.drain(2 * S)
    one.arrived(2 * S, 3, "A")
    assert [(e.request, e.status) for e in one.take() if isinstance(e, Refuse)] == [(3, 503)]
    one.finished(3 * S, 1)
    one.tick(12 * S)
    effects = one.take()
    assert Refuse(2, 503, "shutting_down", "the gateway is shutting down", 5) in effects  # with Retry-After
    assert Stop(0, 1, kill=False) in effects
    assert not one.drained
    one.down(13 * S, 0, 1)
    assert one.drained


def test_engines_that_are_not_ours_are_only_routed_to():
    one = router(Hosted("x", "X", (), 0, 1, load_ns=0, ours=False))
    one.arrived(0, 1, "X")
    assert one.take() == [Send(1, 0, 0)]
    one.broke(S, 1, "connection refused")
    assert one.take() == [Probe(0, 0)]
    one.failed(2 * S, 0, 0, "health is silent")
    assert not [effect for effect in one.take() if isinstance(effect, Stop)]
    one.tick(20 * S)
    assert Probe(0, 0) in one.take()
    one.up(21 * S, 0, 0)
    assert one.take() == [Send(1, 0, 0)]


def test_adoption_counts_bytes_and_refuses_what_does_not_fit():
    one = two()
    assert one.adopted(0, 0) == 1
    assert one.floor.ledger.held[0] == 600
    with pytest.raises(CheckError, match="overrun"):
        one.adopted(0, 1)
    one.arrived(0, 1, "A")
    assert one.take() == [Send(1, 0, 1)]


def test_sleepers_and_those_that_load_are_taken_over_with_their_bytes():
    sleeper = host("a", "A", asleep_bytes=50, host_bytes=400, can_sleep=True, wake_ns=S)
    loader = host("b", "B", load_peak_bytes=700)
    one = router(sleeper, loader, host_bytes=500)
    assert one.adopted(0, 0, State.ASLEEP) == 1
    assert (one.floor.ledger.held[0], one.floor.ledger.held[one.floor.host_memory]) == (50, 400)
    assert one.adopted(0, 1, State.STARTING) == 1
    assert one.floor.ledger.held[0] == 750
    assert one.take() == []
    assert one.next_ns() == 30 * S  # as long as a start of now
    one.arrived(0, 1, "B")
    one.up(5 * S, 1, 1)
    assert one.take() == [Send(1, 1, 1)]
    assert one.floor.ledger.held[0] == 650
    one.finished(6 * S, 1)
    one.arrived(20 * S, 2, "A")
    one.down(30 * S, 1, 1)
    assert Wake(0, 1) in one.take()
    two_sleep = router(sleeper, replace(sleeper, id="c"), host_bytes=500)
    two_sleep.adopted(0, 0, State.ASLEEP)
    with pytest.raises(CheckError, match="more host memory"):
        two_sleep.adopted(0, 1, State.ASLEEP)
    assert two_sleep.floor.ledger.held[0] == 50


def test_what_is_expected_is_woken_at_nobodys_cost():
    one = two()
    one.expect(0, "A")
    assert one.take() == [Start(0, 1)]
    one.expect(0, "B")
    assert one.take() == []


def test_idle_models_give_their_memory_back():
    one = router(host("a", "A"), idle_ns=60 * S)
    one.arrived(0, 1, "A")
    up(one, S)
    one.finished(2 * S, 1)
    one.take()
    assert one.next_ns() == 62 * S
    one.tick(62 * S)
    assert one.take() == [Stop(0, 1, kill=False)]


def test_a_clock_that_goes_back_changes_nothing():
    one = router(host("a", "A"))
    one.arrived(100 * S, 1, "A")
    up(one, 50 * S)
    assert one.floor.now_ns == 100 * S
    assert Send(1, 0, 1) in one.take()


def test_an_engine_that_dies_at_work_is_started_again_and_keeps_its_queue():
    one = router(host("a", "A"), broken_after=3)
    now = 0
    for number in range(5):
        one.arrived(now, number, "A")
        one.tick(now + 61 * S)
        up(one, now + 62 * S)
        one.take()
        one.down(now + 63 * S, 0, one.floor.replicas[0].generation, "signal 9")
        assert not [effect for effect in one.take() if isinstance(effect, Refuse) and effect.status == 503]
        now += 70 * S


def drained_by_another(**more):
    """a:A runs request 1 and makes room for b:B's request 2, which has waited out its patience."""
    one = router(host("a", "A", awake=60), host("b", "B", awake=60), capacity=(100,), residency_ns=0, **more)
    one.arrived(0, 1, "A")
    up(one, S)
    one.arrived(2 * S, 2, "B")
    one.tick(13 * S)
    assert one.floor.replicas[0].state is State.DRAINING
    one.take()
    return one


@pytest.mark.parametrize("begun", [False, True])
def test_one_that_makes_room_goes_on_when_its_last_request_breaks(begun):
    one = drained_by_another()
    if begun:
        one.first_byte(13 * S, 1)
    one.broke(14 * S, 1, "answered 500", suspect=False)
    assert Stop(0, 1, kill=False) in one.take()
    one.down(15 * S, 0, 1)
    assert one.take() == [Start(1, 1) if begun else Start(0, 2)]  # who has waited longest is next


def test_so_does_one_that_was_sent_away_by_another_plan():
    one = router(host("a", "A", awake=60), capacity=(100,), residency_ns=0)
    one.arrived(0, 1, "A")
    up(one, S)
    one.replan(2 * S, [host("a2", "A", awake=60)], [Served("A")], {0: 100}, [None])
    assert one.floor.replicas[0].state is State.DRAINING
    one.take()
    one.broke(3 * S, 1, "answered 500", suspect=False)
    assert one.take() == [Stop(0, 1, kill=False)]
    one.down(4 * S, 0, 1)
    assert one.take() == [Start(1, 1)]
    up(one, 5 * S, 1)
    assert one.take() == [Send(1, 1, 1)]


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


def test_who_waits_for_a_full_engine_waits_until_its_deadline():
    one = router(host("a", "A"))
    one.arrived(0, 1, "A", deadline_ns=4 * S)
    up(one, S)
    one.broke(S, 1, "it answered 429", suspect=False, full=True)
    one.tick(2 * S)
    one.broke(3 * S + S // 2, 1, "it answered 429", suspect=False, full=True)
    one.take()
    one.tick(4 * S)
    assert [(found.status, found.code) for found in one.take()] == [(504, "deadline")]


def test_one_more_replica_is_started_where_the_one_that_is_up_says_that_it_is_full():
    one = router(host("a", "A", awake=400, slots=8), host("a2", "A", awake=400, slots=8))
    one.arrived(0, 1, "A")
    up(one, S)
    one.take()
    one.broke(S, 1, "it answered 429", suspect=False, full=True)
    assert one.take() == [Start(1, 1)]


def test_nothing_is_woken_for_expected_traffic_while_the_gateway_drains():
    one = two()
    one.arrived(0, 1, "A")
    up(one, S)
    one.drain(2 * S)
    one.take()
    one.expect(3 * S, "B")
    assert one.take() == []


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
