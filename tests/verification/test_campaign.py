"""The checklist as steps: their order, their limits, when they stop, how they go on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.domain.verification import Held, Point, Reading, Reply
from cotenant.domain.workload import Lengths
from cotenant.errors import FormatError
from cotenant.verification.campaign import Rules, run, steps_of, stop_rule, together
from cotenant.verification.judge import findings
from cotenant.verification.record import point_from, point_record, reading_from, reading_record
from cotenant.verification.terms import compare, measured
from cotenant.verification.traffic import arrivals
from tests.verification.conftest import MIB, World, subject_named


def all_of(world: World, *subjects, side_by_side: bool = True, rules: Rules | None = None):
    engines = {one.id: world.engine(one.id) for one in subjects}
    return run(subjects, engines, world, world, rules or Rules(), side_by_side=side_by_side)


def judged(subjects, results):
    terms = {
        one.id: compare(one, measured(one, results.logs.get(one.id), results.readings.get(one.id, {})))
        for one in subjects
    }
    return {(line.replica, line.check): line for line in findings(subjects, results, terms)}


def test_steps_grow_to_the_plans_limits_and_one_beyond() -> None:
    steps = steps_of(subject_named(), Rules())
    assert [step.kind for step in steps] == ["grow"] * 3 + ["step"] * 6 + ["peak", "beyond"]
    assert [step.shape["chat"][0] for step in steps if step.kind == "step"] == [1, 2, 4, 1, 1, 1]
    assert steps[-2].shape["chat"] == (4, 1008, 16)
    assert steps[-1].shape["chat"][1] > 1024
    assert steps[-1].beyond


@given(
    concurrency=st.integers(1, 600), tokens=st.integers(1, 200_000), tokens_in=st.integers(1, 10**6),
    tokens_out=st.integers(1, 10**6), cap=st.none() | st.integers(16, 4096), quick=st.booleans(),
)  # fmt: skip
def test_nothing_but_what_lies_beyond_is_over_the_limits(
    concurrency: int, tokens: int, tokens_in: int, tokens_out: int, cap: int | None, quick: bool
) -> None:
    subject = subject_named(
        concurrency=concurrency, tokens=tokens, input_tokens=tokens_in, output_tokens=tokens_out
    )
    steps = steps_of(subject, Rules(most_tokens=cap, quick=quick))
    assert len({step.key for step in steps}) == len(steps)
    for step in steps:
        count, size, out = step.shape["chat"]
        assert 1 <= count <= concurrency
        assert out >= 1
        if not step.beyond and tokens > 1:
            assert size + out <= max(tokens, 2)
            assert cap is None or size + out <= max(cap, 2)
    assert any(step.beyond for step in steps) == (cap is None or cap >= tokens)


def test_a_plan_that_is_kept_holds(world: World) -> None:
    subjects = (subject_named("chat"), subject_named("code"))
    results = all_of(world, *subjects)
    lines = judged(subjects, results)
    assert not results.stopped
    assert world.started == ["chat", "code"]
    assert world.stopped == []
    assert {line.held for line in lines.values() if line.check not in ("TTFT", "TPOT")} == {Held.YES}
    assert [len(asks) for asks in world.sent][-1] == 8  # both peaks at once


def test_models_that_take_turns_are_never_up_together(world: World) -> None:
    subjects = (subject_named("chat"), subject_named("code"))
    results = all_of(world, *subjects, side_by_side=False, rules=Rules(quick=True))
    assert world.stopped == ["chat", "code"]
    assert "together" not in results.points
    assert judged(subjects, results)["", "no model starves another"].held is Held.UNKNOWN


def test_errors_stop_it_and_a_broken_campaign_goes_on(world: World) -> None:
    subject = subject_named()
    good = world.answer
    world.answer = lambda ask, _: Reply(
        ask, "500: out of memory" if ask.input_tokens > 500 else "", 0.1, 0.4, 0, 16
    )
    results = all_of(world, subject, rules=Rules(most_errors=0))
    assert "500: out of memory" in results.stopped
    done = [asks for asks in world.sent if asks[0].input_tokens <= 500]
    world.sent.clear()
    world.answer = good
    world.kept = json.loads(json.dumps(world.kept))  # as a file holds it
    results = all_of(world, subject, rules=Rules(most_errors=0))
    assert not results.stopped
    assert not [asks for asks in world.sent[1:] if asks in done]  # but for the first question
    assert len(results.points["step"]) == 6


def test_a_pool_nearly_full_stops_it() -> None:
    rule = stop_rule(Rules(max_kv=0.9))
    assert rule(Reading(0.0, kv_used=0.91), ()) == "its pool is 91% full, more than 90%"
    assert rule(Reading(0.0, kv_used=0.9), ()) == ""
    assert rule(Reading(0.0), ()) == ""


def test_a_pool_nearly_full_leaves_that_replica_alone(world: World) -> None:
    world.held = lambda name: Reading(
        0.0, 104 * MIB, 101 * MIB, 100 * MIB,
        kv_used=0.95 if name == "chat" and world.sent and len(world.sent[-1]) > 1 else 0.1,
    )  # fmt: skip
    subjects = (subject_named("chat"), subject_named("code"))
    results = all_of(world, *subjects)
    lines = judged(subjects, results)
    assert not results.stopped
    assert "peak" not in {kind for kind, each in results.points.items() if any(p.replica == "chat" for p in each)}
    edge = lines["chat", "the edge is where planned"]
    assert edge.held is Held.UNKNOWN
    assert edge.text == "left alone at 2 at once of 216 tokens: its pool is 95% full, more than 90%"
    assert lines["code", "the edge is where planned"].held is Held.YES


def test_a_first_request_that_fails_ends_it(world: World) -> None:
    world.answer = lambda ask, _: Reply(ask, "401: bad key")
    results = all_of(world, subject_named())
    assert results.stopped == "chat: the first request failed: 401: bad key"
    assert len(world.sent) == 1


def test_weights_held_twice_are_seen(world: World) -> None:
    world.held = lambda name: Reading(0.0, 204 * MIB, 101 * MIB, 100 * MIB)
    line = judged([subject_named()], all_of(world, subject_named()))["chat", "weights loaded once"]
    assert line.held is Held.NO
    assert "copied as well" in line.text


def test_an_edge_that_is_elsewhere_is_seen(world: World) -> None:
    world.answer = lambda ask, _: Reply(ask, "", 0.1, 0.4, 0, 16)
    line = judged([subject_named()], all_of(world, subject_named()))["chat", "the edge is where planned"]
    assert line.held is Held.NO
    assert "which the plan does not count on" in line.text
    world.kept.clear()
    world.held = lambda name: Reading(0.0, 150 * MIB, 101 * MIB, 100 * MIB)
    line = judged([subject_named()], all_of(world, subject_named()))["chat", "the edge is where planned"]
    assert "more than the plan gives it" in line.text


def test_cache_that_grows_as_the_pool_says(world: World) -> None:
    pooled = replace(subject_named(), engine="vllm", on_host=False)
    world.held = lambda name: Reading(
        0.0, device_bytes=200 * MIB,
        kv_used=sum(ask.input_tokens for ask in world.sent[-1]) * 16384 / (64 * MIB) if world.sent else 0.0,
    )  # fmt: skip
    results = all_of(world, pooled, rules=Rules(max_kv=1.0))
    line = judged([pooled], results)["chat", "KV grows as predicted"]
    assert line.held is Held.YES
    assert line.text == "16,384 B a token predicted, 16,384 measured"
    wrong = replace(pooled, token_bytes=20000)
    assert judged([wrong], results)["chat", "KV grows as predicted"].held is Held.NO


def test_who_starves_is_named_and_by_whom(world: World) -> None:
    subjects = (subject_named("chat"), subject_named("code", concurrency=2, tpot_s=(0.01, 0.02, 0.03)))

    def answer(ask, at_once):
        slow = 4.0 if at_once > 1 and ask.replica == "code" else 1.0
        long = ask.input_tokens + ask.output_tokens > 1024
        return Reply(ask, "400" if long else "", 0.1 * slow, 0.1 * slow + 0.3 * slow, 0, 16)

    world.answer = answer
    lines = judged(subjects, all_of(world, *subjects))
    assert lines["chat", "no model starves another"].held is Held.YES
    starved = lines["code", "no model starves another"]
    assert starved.held is Held.NO
    assert "4.0 times as long beside chat" in starved.text


@given(
    st.builds(
        Point, replica=st.text(), concurrency=st.integers(1), input_tokens=st.integers(1),
        output_tokens=st.integers(1), answered=st.integers(0), errors=st.integers(0),
        ttft_s=st.none() | st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)),
        tpot_s=st.none() | st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)),
        peak=st.none() | st.builds(Reading, at_s=st.floats(0, 1e6), anonymous_bytes=st.integers(0)),
        kv_used=st.none() | st.floats(0, 1), preemptions=st.none() | st.integers(0),
    )
)  # fmt: skip
def test_a_point_comes_back_from_the_journal(point: Point) -> None:
    assert point_from(json.loads(json.dumps(point_record(point)))) == point


@pytest.mark.parametrize("record", [None, 3, [], {}, {"at_s": 1.0, "gpu": 2}, {"replica": "x"}])
def test_what_is_no_record_is_refused(record: object) -> None:
    with pytest.raises(FormatError):
        point_from(record)
    if record != {"at_s": 1.0}:
        with pytest.raises(FormatError):
            reading_from(record)
    assert reading_from(reading_record(Reading(1.0))) == Reading(1.0)


def test_together_is_every_peak() -> None:
    step = together((subject_named("a"), subject_named("b", concurrency=2)), Rules())
    assert step.shape == {"a": (4, 1008, 16), "b": (2, 1008, 16)}


def test_its_own_traffic_comes_at_its_rate_and_in_its_lengths(world: World) -> None:
    lengths = Lengths(p50=100, p95=400)
    subject = subject_named(requests_per_second=2.0, input_lengths=lengths, output_lengths=Lengths(p50=20, p95=60))
    asks = arrivals(subject, 1000.0, world.uniform)
    assert len(asks) == pytest.approx(2000, rel=0.1)
    assert [ask.at_s for ask in asks] == sorted(ask.at_s for ask in asks)
    assert sorted(ask.input_tokens for ask in asks)[len(asks) // 2] == pytest.approx(100, rel=0.15)
    assert max(ask.input_tokens + ask.output_tokens for ask in asks) <= 1024
    results = all_of(world, subject, rules=Rules(quick=True, open_s=5.0))
    (point,) = results.points["traffic"]
    assert point.answered == len(world.sent[-1])
    assert arrivals(subject_named(), 60.0, world.uniform) == ()
