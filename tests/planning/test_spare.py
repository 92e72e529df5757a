"""Cards kept empty for what fails: enough of each type in use, at the least cost, and counted by the check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant import load_fleet, plan
from cotenant.domain.plan import Plan
from cotenant.planning.check import find_faults
from cotenant.planning.launch import reestimate
from cotenant.planning.wishes import wishes_of
from cotenant.report.document import plan_document
from tests.planning.fleets import fleet
from tests.planning.test_promise import asked
from tests.planning.test_turns import DAY, NIGHT, sleepy

SHOP = [{"type": "L4", "price": "$0.4/h"}, {"type": "A100-80GB-SXM", "price": "$1.8/h"}]


def models(count: int, **more: Any) -> list[dict[str, Any]]:
    return [asked(f"m{number}", 0.2) | more for number in range(count)]


@pytest.fixture(scope="module")
def answer() -> Plan:
    return plan({"gpus": SHOP, "models": models(2), "spare": "gpu"})


def test_one_empty_card_of_the_type_in_use(answer: Plan) -> None:
    """Two L4 and one more: $1.20/h; two models on one A100 with another empty one would be $3.60/h."""
    assert answer.cost_per_hour == pytest.approx(1.2)
    spare = [gpu for gpu in answer.gpus if gpu.spare]
    assert [(gpu.device.type, gpu.shares) for gpu in spare] == [("L4", ())]
    assert answer.gap == 0
    assert answer.lower_bound == pytest.approx(1.2)
    assert sum(one["spare"] for one in plan_document(answer, catalogue="c")["gpus"]) == 1


def test_a_spare_makes_one_type_cheaper_than_a_mix() -> None:
    """An A100 for $1.50 takes four of six models, two L4 the others. With a spare of each, seven L4 cost less."""
    question = {"gpus": [SHOP[0], {**SHOP[1], "price": "$1.5/h"}], "models": models(6)}
    mixed, spared = plan(question), plan({**question, "spare": "gpu"})
    assert mixed.cost_per_hour == pytest.approx(2.3)
    assert spared.cost_per_hour == pytest.approx(2.8)  # seven L4
    assert {gpu.device.type for gpu in spared.gpus} == {"L4"}


def test_a_group_of_two_needs_two_in_one_node() -> None:
    large = asked("big", 0.1) | {"model": "Qwen/Qwen2.5-32B-Instruct", "quantization": ["bf16"]}
    found = plan({
        "gpus": [{"type": "A100-40GB-SXM", "price": "$1/h", "node": {"size": 4}}], "models": [large],
        "spare": "gpu",
    })  # fmt: skip
    size = len(found.replicas[0].devices)
    assert size >= 2
    spare = [gpu.device for gpu in found.gpus if gpu.spare]
    assert len(spare) == size
    assert len({device.node for device in spare}) == 1


def test_a_spare_node_is_a_whole_node() -> None:
    pool = [{"type": "L4", "count": 4, "node": {"size": 2}}]
    found = plan({"gpus": pool, "models": models(2), "spare": "node"})
    assert found.feasible
    used = {gpu.device.node for gpu in found.gpus if not gpu.spare}
    spare = [gpu.device.node for gpu in found.gpus if gpu.spare]
    assert len(spare) == 2
    assert not used & set(spare)


def test_without_a_card_for_the_spare_it_does_not_fit() -> None:
    found = plan({"gpus": [{"type": "L4", "count": 2}], "models": models(2), "spare": "gpu"})
    assert not found.feasible
    assert [short.model for short in found.shortfalls] == ["spare"]
    assert len(found.replicas) == 2  # the plan without one


def test_the_check_counts_spare_cards(answer: Plan) -> None:
    question = fleet(*models(2), gpus=SHOP, spare="gpu")
    fresh = reestimate(question)
    assert not list(find_faults(answer, question, fresh))
    without = replace(answer, gpus=tuple(gpu for gpu in answer.gpus if not gpu.spare))
    faults = list(find_faults(without, question, fresh))
    assert any("spare cards in one node" in fault for fault in faults)
    assert any("the cards cost" in fault for fault in faults)
    node = replace(question, spare="node")
    assert any("8 spare cards" in fault for fault in find_faults(answer, node, fresh))
    assert "a spare gpu" in [wish.words for wish in wishes_of(question)]


def test_promises_are_kept_beside_a_spare() -> None:
    found = plan({"gpus": SHOP, "models": [asked("a", 0.2, {"tpot": "90ms"})], "spare": "gpu"}, replay=True)
    assert found.promises_held
    assert sum(gpu.spare for gpu in found.gpus) == 1


def turning(host: str, **node: Any) -> dict[str, Any]:
    """Four models of 14 GiB in two pairs of day and night."""
    gpus = [{"type": "L4", "price": "$0.4/h", "node": {"host_memory": host, **node}}]
    return {"gpus": gpus, "spare": "gpu", "models": [
        sleepy("a", DAY), sleepy("b", NIGHT), sleepy("c", DAY), sleepy("d", NIGHT)]}  # fmt: skip


def test_a_spare_beside_models_that_take_turns() -> None:
    """Two cards for two pairs and an empty one, where four and an empty one would be without turns."""
    question = load_fleet(turning("64GiB"))
    found = plan(question)
    assert {turns.mode for turns in found.turns} == {"sleep-1"}
    assert len(found.turns) == 2
    assert [gpu.spare for gpu in found.gpus] == [False, False, True]
    assert found.cost_per_hour == pytest.approx(1.2)
    assert found.turns[0].saves_per_hour == pytest.approx(0.8)
    assert found.gap == 0
    assert not list(find_faults(found, question, reestimate(question)))


def test_the_host_of_a_spare_holds_what_comes_to_it() -> None:
    """Two pairs sleep in 27 GiB of a host each, 54 in one; whichever card is lost brings 27 to the spare's."""
    cards = {"type": "L4", "count": 3, "node": {"size": 3, "host_memory": "40GiB"}}
    found = plan({**turning(""), "gpus": [cards]})
    assert [turns.mode for turns in found.turns] == ["sleep-2", "sleep-2"]
    pairs = {"type": "L4", "count": 3, "node": {"size": 2, "host_memory": "60GiB"}}
    apart = load_fleet({**turning(""), "gpus": [pairs]})
    answer = plan(apart)
    assert [turns.mode for turns in answer.turns] == ["sleep-1", "sleep-1"]
    assert len({gpu.device.node for gpu in answer.gpus}) == 2
    smaller = load_fleet({**turning(""), "gpus": [{**pairs, "node": {"size": 2, "host_memory": "20GiB"}}]})
    faults = list(find_faults(answer, smaller, reestimate(smaller)))
    assert {fault.split(":")[0] for fault in faults if "host memory" in fault} == {
        f"node {gpu.device.node}" for gpu in answer.gpus
    }
