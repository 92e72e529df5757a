"""Which model is awake, and who makes room for it."""

from __future__ import annotations

import pytest

from cotenant.serving.effects import Send, Start, Stop
from cotenant.serving.replica import State
from cotenant.serving.settings import Served
from tests.serving.routers import S, host, router, two, up


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


def test_what_others_hold_is_not_given_away():
    one = two()
    one.measured(0, 0, 500)
    one.arrived(0, 1, "A")
    assert one.take() == []
    one.measured(S, 0, 300)
    assert one.take() == [Start(0, 1)]


def test_what_is_expected_is_woken_at_nobodys_cost():
    one = two()
    one.expect(0, "A")
    assert one.take() == [Start(0, 1)]
    one.expect(0, "B")
    assert one.take() == []


def test_nothing_is_woken_for_expected_traffic_while_the_gateway_drains():
    one = two()
    one.arrived(0, 1, "A")
    up(one, S)
    one.drain(2 * S)
    one.take()
    one.expect(3 * S, "B")
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
