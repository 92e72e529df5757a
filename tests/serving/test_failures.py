"""What becomes of requests and engines where engines fail."""

from __future__ import annotations

from cotenant.serving.effects import Probe, Refuse, Send, Start, Stop
from tests.serving.routers import S, host, router, two, up


def test_a_first_start_is_not_hung_before_it_may_be():
    one = router(host("a", "A", longest_load_ns=400 * S), least_start_ns=1 * S, deadline_ns=900 * S)
    one.arrived(0, 1, "A")
    assert one.take() == [Start(0, 1)]
    assert one.next_ns() == 400 * S  # four times the usual two seconds would be eight
    one.tick(399 * S)
    assert one.take() == []
    one.tick(400 * S)
    assert one.take() == [Stop(0, 1, kill=True)]


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


def test_one_that_cannot_start_as_things_stand_keeps_nobody_waiting():
    one = router(host("a", "A"), broken_after=3)
    one.arrived(0, 1, "A")
    one.failed(S, 0, 1, "vllm is not installed here", lasting=True)
    refusal = next(effect for effect in one.take() if isinstance(effect, Refuse))
    assert (refusal.status, refusal.code, refusal.retry_after_s) == (503, "engine_failed", 1)
    assert refusal.message == "A does not start: vllm is not installed here"
    one.down(S, 0, 1)
    one.arrived(3 * S, 2, "A")
    assert one.take() == [Start(0, 2)]  # it may have been installed since
    up(one, 4 * S)
    assert one.take() == [Send(2, 0, 2)]


def test_a_doubtful_engine_is_probed_before_it_is_sent_to_again():
    one = router(host("a", "A"))
    one.arrived(0, 1, "A")
    up(one, S)
    one.take()
    one.broke(2 * S, 1, "connection reset")
    assert one.take() == [Probe(0, 1)]
    up(one, 3 * S)
    assert one.take() == [Send(1, 0, 1)]


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
