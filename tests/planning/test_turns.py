"""Models that take turns: when they may, what it costs and saves, and the check that sees through bad ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant import load_fleet, plan
from cotenant.domain.engine import Version
from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.plan import Plan
from cotenant.domain.workload import Trace, Traffic
from cotenant.engines.sleeping import sleep_modes
from cotenant.planning.candidates import all_ways
from cotenant.planning.check import find_faults
from cotenant.planning.launch import reestimate
from cotenant.planning.sleeping import partitions
from cotenant.planning.turns import judge
from cotenant.report.document import plan_document
from cotenant.simulation.hosting import Hosting, hosting
from cotenant.simulation.run import replay
from tests.planning.test_promise import asked

DAY = [1.0 if 8 <= hour < 20 else 0.0 for hour in range(24)]
NIGHT = [1.0 - weight for weight in DAY]
HALF = [1.0] * 24


def shop(host: str | None = "64GiB") -> list[dict[str, Any]]:
    node: dict[str, Any] = {"size": 2} | ({"host_memory": host} if host else {})
    return [{"type": "L4", "price": "$0.4/h", "node": node}]


def sleepy(name: str, weights: list[float], rate: float = 0.1, **more: Any) -> dict[str, Any]:
    return asked(name, rate, {"ttft": "3s"}, by_hour=weights) | {"sharing": ["sleep", "co-resident"]} | more


def fleet(*models: dict[str, Any], host: str | None = "64GiB") -> Fleet:
    return load_fleet({"gpus": shop(host), "models": list(models)})


@pytest.fixture(scope="module")
def question() -> Fleet:
    return fleet(sleepy("day", DAY), sleepy("night", NIGHT))


@pytest.fixture(scope="module")
def answer(question: Fleet) -> Plan:
    return plan(question)


def test_day_and_night_share_one_card(answer: Plan) -> None:
    (turns,) = answer.turns
    assert turns.models == ("day", "night")
    assert turns.mode == "sleep-1"
    assert len(answer.gpus) == 1
    assert answer.cost_per_hour == pytest.approx(0.4)
    assert turns.saves_per_hour == pytest.approx(0.4)
    assert turns.swaps_per_day == pytest.approx(2)
    # 14.3 GB over PCIe 4.0 x16 (32 GB/s) down and up, and what the other still runs at eight.
    assert all(2 * 14.3 / 32 < wait < 10 for wait in turns.first_wait_s.values())
    assert answer.gap == 0


def test_the_card_holds_one_awake_and_the_processes_of_the_others(answer: Plan) -> None:
    (gpu,) = answer.gpus
    (awake,), (sleeper,) = gpu.shares, gpu.sleepers
    assert sleeper.asleep_bytes == sleeper.share.runtime_bytes
    assert sleeper.host_bytes == sleeper.share.weights_bytes
    assert gpu.headroom_bytes == gpu.capacity_bytes - awake.claimed_bytes - sleeper.asleep_bytes
    document = plan_document(answer, catalogue="c")["gpus"][0]["sleepers"][0]
    assert document["bytes"] == sleeper.asleep_bytes
    assert document["awake_bytes"] == sleeper.share.claimed_bytes


def test_sleepers_are_started_with_what_lets_them_sleep(answer: Plan) -> None:
    for replica in answer.replicas:
        assert replica.sharing == "sleep"
        assert "--enable-sleep-mode" in replica.command
        assert replica.environment["VLLM_SERVER_DEV_MODE"] == "1"


@pytest.mark.parametrize(
    "models",
    [
        (sleepy("a", HALF), sleepy("b", HALF)),  # busy at the same time: each request would find the other awake
        (sleepy("a", DAY, sharing=["co-resident"]), sleepy("b", NIGHT)),  # one of them may not
        (sleepy("a", DAY, apart_from=["b"]), sleepy("b", NIGHT)),
    ],
)
def test_who_may_not_take_turns_keeps_a_card(models: tuple[dict[str, Any], ...]) -> None:
    found = plan(fleet(*models))
    assert found.turns == ()
    assert len(found.gpus) == 2


def test_without_host_memory_weights_are_read_again() -> None:
    found = plan(fleet(sleepy("a", DAY), sleepy("b", NIGHT), host=None))
    assert [turns.mode for turns in found.turns] == ["sleep-2"]
    assert found.gpus[0].sleepers[0].host_bytes == 0
    assert found.turns[0].host_bytes == 0


def test_host_memory_that_is_too_small_is_never_used() -> None:
    found = plan(fleet(sleepy("a", DAY), sleepy("b", NIGHT), host="20GiB"))  # two models of 13.3 GiB
    assert [turns.mode for turns in found.turns] == ["sleep-2"]


def test_thrash_is_refused_with_its_share(question: Fleet) -> None:
    busy = fleet(sleepy("a", HALF, rate=0.2), sleepy("b", HALF, rate=0.2))
    ways = [each.candidates[0] for each in all_ways(busy)]
    told = judge(busy.models, ways, busy.gpus[0].gpu, "sleep-1", 2**40)
    assert isinstance(told, str)
    assert "thrash" in told


def test_a_rare_wake_is_paid_by_the_misses_that_the_percentile_grants() -> None:
    strict = [sleepy(name, weights, slo={"ttft": "1s"}) for name, weights in (("a", DAY), ("b", NIGHT))]
    assert plan(fleet(*strict)).turns  # two in 8,640 requests wait two seconds
    rare = [sleepy(name, HALF, rate=0.002, slo={"ttft": "1s"}) for name in ("a", "b")]
    assert not plan(fleet(*rare)).turns  # half of them would


def test_the_check_sees_what_sleepers_break(question: Fleet, answer: Plan) -> None:
    fresh = reestimate(question)
    assert not list(find_faults(answer, question, fresh))
    both_awake = replace(answer, turns=())
    assert any(
        "more than it has" in fault or "less headroom" in fault
        for fault in find_faults(both_awake, question, fresh)
    )
    not_allowed = replace(
        question, models=(replace(question.models[0], sharing=("co-resident",)), question.models[1])
    )
    assert any("may not" in fault for fault in find_faults(answer, not_allowed, fresh))
    no_room = replace(question, gpus=(replace(question.gpus[0], host_memory_bytes=2**30),))
    assert any("host memory" in fault for fault in find_faults(answer, no_room, fresh))


def test_a_third_that_never_sleeps_keeps_its_memory() -> None:
    large = [{"type": "L40S", "price": "$1/h", "node": {"size": 1, "host_memory": "64GiB"}}]
    models = [sleepy("a", DAY), sleepy("b", NIGHT), asked("c", 0.05)]
    found = plan({"gpus": large, "models": models, "headroom": "20%"})
    (gpu,) = found.gpus
    assert {share.replica for share in gpu.shares} >= {"c"}
    assert len(gpu.sleepers) == 1


def test_modes_of_engines() -> None:
    assert sleep_modes("vllm", Version.parse("0.21")) == ("sleep-1", "sleep-2", "restart")
    assert sleep_modes("vllm", Version.parse("0.21"), adapters=True) == ("sleep-1", "restart")
    assert sleep_modes("vllm", Version.parse("0.6")) == ("restart",)
    assert sleep_modes("llama.cpp", Version.parse("b9000")) == ("restart",)


def test_the_replay_swaps_as_the_plan_says(question: Fleet, answer: Plan) -> None:
    kept = plan(question, replay=True)
    assert kept.promises_held
    assert kept.turns[0].models == answer.turns[0].models
    # With all peaks at once each starves the other, and that is said.
    assert {(one.model, one.neighbour) for one in kept.starved} == {("day", "night"), ("night", "day")}


def told(
    question: Fleet, answer: Plan, *moments: tuple[float, ...]
) -> tuple[list[ModelRequest], list[Hosting]]:  # fmt: skip
    """Each model asked at those seconds, and its replicas as the simulator has them."""
    traffics = [Traffic(trace=Trace("t", at, (300,) * len(at), (20,) * len(at))) for at in moments]
    requests = [replace(one, traffic=own) for one, own in zip(question.models, traffics, strict=True)]
    fresh = reestimate(question)
    return requests, [
        hosting(one, replica, fresh(one, replica)) for one, replica in zip(requests, answer.replicas, strict=True)
    ]


def test_a_busy_model_makes_room_after_the_patience_of_the_gateway(question: Fleet, answer: Plan) -> None:
    """One is asked five times a second without a pause, the other once at 8 s."""
    requests, hostings = told(question, answer, tuple(number / 5 for number in range(200)), (8.0,))
    waits = []
    for patience_s in (0.0, 10.0):
        first = replay(answer, requests, hostings, duration_s=60, patience_s=patience_s).models[1].ttft_s
        assert first is not None
        waits.append(first.p50)
    assert waits[0] < 5
    assert 10 < waits[1] < waits[0] + 11


def test_who_is_woken_in_the_replay_waits_for_its_weights(question: Fleet, answer: Plan) -> None:
    requests, hostings = told(question, answer, (0.0, 60.0), (30.0,))
    found = replay(answer, requests, hostings, duration_s=90)
    assert [replica.wakes for replica in found.replicas] == [2, 1]
    first = found.models[1].ttft_s
    assert first is not None
    assert 2 * 14.3 / 32 < first.p50 < 2  # the day's weights out, the night's in, then its prompt


@given(st.integers(0, 5))
def test_partitions_are_bell_numbers(count: int) -> None:
    bell = (1, 1, 2, 5, 15, 52)
    found = list(partitions(tuple(range(count))))
    assert len({tuple(sorted(map(tuple, deal))) for deal in found}) == len(found) == bell[count]
    for deal in found:
        assert sorted(member for group in deal for member in group) == list(range(count))
        assert all(one < other for group in deal for one, other in pairwise(group))
