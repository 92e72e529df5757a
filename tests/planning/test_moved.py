"""A replica moved by hand: every byte counted anew, and what breaks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cotenant import api
from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan
from cotenant.errors import InputError
from cotenant.planning.check import find_faults
from cotenant.planning.launch import reestimate
from cotenant.planning.moved import moved, resettled, slower_there
from tests.planning.test_turns import DAY, NIGHT, shop, sleepy

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TWO = {
    "headroom": "10%",
    "gpus": [
        {"type": "H100-80GB-SXM", "count": 2, "node": {"size": 2}},
        {"type": "L4", "price": "$0.4/h", "max": 2},
    ],
    "models": [
        {"name": "a", "model": "meta-llama/Llama-3.1-8B-Instruct", "quantization": ["bf16"],
         "traffic": {"concurrent": 4, "context_tokens": {"p95": 2000}}},
        {"name": "b", "model": "mistralai/Mistral-7B-Instruct-v0.3", "quantization": ["bf16"],
         "traffic": {"concurrent": 4, "context_tokens": {"p95": 2000}}, "slo": {"tpot": "30ms"}},
    ],
}  # fmt: skip


@pytest.fixture(scope="module", params=["vllm", "sglang", "tgi", "vllm@0.6"])
def question(request: pytest.FixtureRequest) -> tuple[Fleet, Plan]:
    fleet = api.load_fleet({**TWO, "engine": request.param})
    return fleet, api.plan(fleet)


def faults(plan: Plan, fleet: Fleet) -> list[str]:
    return list(find_faults(plan, fleet, reestimate(fleet)))


def test_a_plan_as_it_stands_comes_back_sound(question: tuple[Fleet, Plan]) -> None:
    fleet, plan = question
    again = resettled(plan, fleet)
    assert again.faults == ()
    assert faults(again.plan, fleet) == []
    assert again.plan.gpus == plan.gpus
    assert [one.command for one in again.plan.replicas] == [one.command for one in plan.replicas]


def test_apart_and_together_again(question: tuple[Fleet, Plan]) -> None:
    """Moved to an empty card and back, all is as it was: settings, order, bytes, commands."""
    fleet, plan = question
    home = plan.replicas[0].devices[0]
    assert all(one.devices == (home,) for one in plan.replicas)
    away = moved(plan, fleet, "a", home.node, 1 - home.index)
    assert away.faults == ()
    assert faults(away.plan, fleet) == []
    assert len(away.plan.gpus) == 2
    assert {one.id: one.devices[0].index for one in away.plan.replicas} == {"a": 1 - home.index, "b": home.index}
    assert "CUDA_VISIBLE_DEVICES" in away.plan.replicas[0].environment
    back = moved(away.plan, fleet, "a", home.node, home.index)
    assert back.plan.gpus == plan.gpus
    assert [one.settings for one in back.plan.replicas] == [one.settings for one in plan.replicas]
    assert [one.start_order for one in back.plan.replicas] == [one.start_order for one in plan.replicas]


def test_another_type_of_card_is_sized_for_and_paid(question: tuple[Fleet, Plan]) -> None:
    fleet, plan = question
    there = moved(plan, fleet, "b", 1, 0, "L4")
    (card,) = [gpu for gpu in there.plan.gpus if gpu.device.type == "L4"]
    assert [share.replica for share in card.shares] == ["b"]
    assert card.shares[0].weights_bytes == pytest.approx(14_496_047_104, rel=0.01)
    assert there.plan.cost_per_hour == pytest.approx(0.4)
    (mover,) = [one for one in there.plan.replicas if one.id == "b"]
    assert any("TPOT" in sentence for sentence in slower_there(fleet, mover))


def test_what_is_too_much_is_said_in_bytes() -> None:
    fleet = api.load_fleet(EXAMPLES / "shop-four-types.yaml")
    tight = replace(fleet, models=fleet.models[:2])
    plan = api.plan(tight)
    large = next(one for one in plan.replicas if one.model == "assistant")
    there = moved(plan, tight, large.id, 9, 0, "L4")
    said = [*there.faults, *faults(there.plan, tight)]
    assert any("GiB more than it has" in sentence for sentence in said)
    assert not any("by the estimator" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("replica", "node", "index", "says"),
    [
        ("c", 0, 0, "no replica 'c'"),
        ("a", 0, 2, "a node has 2 x H100-80GB-SXM"),
        ("a", 0, 7, "a node has 2 x H100-80GB-SXM"),
    ],
)
def test_what_there_is_not_is_refused(replica: str, node: int, index: int, says: str) -> None:
    fleet = api.load_fleet(TWO)
    with pytest.raises(InputError, match=says):
        moved(api.plan(fleet), fleet, replica, node, index)


STAGED = {
    "headroom": "10%",
    "gpus": [
        {"type": "L4", "count": 3, "node": {"size": 3}},
        {"type": "L40S", "price": "$3/h", "node": {"size": 4}},
    ],
    "models": [
        {"name": "m", "model": "mistralai/Mistral-Small-24B-Instruct-2501", "quantization": ["bf16"],
         "slo": {"tpot": "200ms"},
         "traffic": {"concurrent": 2, "context_tokens": {"p95": 1000}}},
    ],
}  # fmt: skip


def test_three_stages_move_as_three_cards() -> None:
    fleet = api.load_fleet(STAGED)
    plan = api.plan(fleet)
    (one,) = plan.replicas
    assert (one.settings.pipeline_parallel_size, len(one.devices)) == (3, 3)
    there = moved(plan, fleet, "m", 1, 1, "L40S")
    (after,) = there.plan.replicas
    assert [device.index for device in after.devices] == [1, 2, 3]
    assert after.environment["CUDA_VISIBLE_DEVICES"] == "1,2,3"
    assert after.settings.pipeline_parallel_size == 3
    assert faults(there.plan, fleet) == []
    assert [share.rank for gpu in there.plan.gpus for share in gpu.shares] == [0, 1, 2]
    assert there.plan.gpus[0].shares[0].weights_bytes != there.plan.gpus[1].shares[0].weights_bytes


def test_what_is_too_slow_in_stages_is_said_of_stages_alone() -> None:
    fleet = api.load_fleet(STAGED)
    (one,) = api.plan(fleet).replicas
    assert slower_there(fleet, one) == ()
    hurried = api.load_fleet({**STAGED, "models": [{**STAGED["models"][0], "slo": {"tpot": "100ms"}}]})
    (why,) = slower_there(hurried, one)
    assert "3 stages of 1" in why
    two = replace(one, settings=replace(one.settings, pipeline_parallel_size=1, tensor_parallel_size=3))
    assert slower_there(hurried, two) == ()


def test_who_takes_turns_keeps_doing_so_where_it_stands() -> None:
    """Two pairs of day and night: nobody's start counts more than one of a pair awake."""
    fleet = api.load_fleet({"gpus": shop(), "models": [
        sleepy("a", DAY), sleepy("b", NIGHT), sleepy("c", DAY), sleepy("d", NIGHT)]})  # fmt: skip
    plan = api.plan(fleet)
    assert len(plan.turns) == 2
    again = resettled(plan, fleet)
    assert faults(again.plan, fleet) == []
    assert again.plan.gpus == plan.gpus
    assert [one.start_order for one in again.plan.replicas] == [one.start_order for one in plan.replicas]
