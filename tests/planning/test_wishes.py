"""What wishes cost, and which to give up: each answer is held against a plan made by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cotenant import load_fleet, plan
from cotenant.domain.plan import Plan
from cotenant.planning.candidates import ways_of
from cotenant.planning.folding import folded, twins
from cotenant.planning.solve import plan_fleet
from cotenant.planning.wishes import smallest_sets, wishes_of
from cotenant.report.document import plan_document
from tests.planning.fleets import fleet, small
from tests.planning.test_promise import asked

SHOP = [{"type": "L4", "price": "$0.4/h"}, {"type": "A100-80GB-SXM", "price": "$1.8/h"}]


def alone(name: str) -> dict[str, Any]:
    return asked(name, 0.2) | {"sharing": ["alone"]}


@pytest.fixture(scope="module")
def answer() -> Plan:
    """Three models of 14.5 GiB: an L4 each, where all must be alone."""
    return plan({"gpus": SHOP, "models": [alone("a"), alone("b"), alone("c")]}, why=True)


def test_wishes_are_told_in_the_users_words() -> None:
    slo = {"tpot": "90ms"}
    one = load_fleet({
        "gpus": [{"type": "L4", "count": 2, "used": "1GiB"}, {"type": "L40S", "price": "$1/h", "max": 3}],
        "models": [
            asked("a", 0.2, slo) | {"pin": {"gpus": [0, 1]}, "apart_from": ["b"], "replicas": {"min": 2}},
            {**alone("b"), "quantization": ["bf16"], "replicas": {"max": 1}},
        ],
    })  # fmt: skip
    assert [wish.words for wish in wishes_of(one)] == [
        "the headroom of 12%", "what others hold of L4", "at most 3 x L40S", "a: its SLO",
        "a: at most 1% loss of quality (5% instead)", "a: pinned to 0, 1", "a: apart from b",
        "a: at least 2 replicas", "b: only bf16", "b: no neighbours", "b: at most 1 replicas",
    ]  # fmt: skip
    for wish in wishes_of(one):
        assert wish.dropped(one) != one


def test_prices_of_wishes_are_the_difference_to_a_plan_without_them() -> None:
    question = {"gpus": [{"type": "A100-80GB-SXM", "price": "$1.8/h"}], "models": [alone("a"), asked("b", 0.2)]}
    found = plan(question, why=True)
    assert [(one.wishes, pytest.approx(one.saves)) for one in found.relaxations] == [(("a: no neighbours",), 1.8)]
    together = plan({**question, "models": [asked("a", 0.2), asked("b", 0.2)]})
    assert found.cost_per_hour is not None
    assert together.cost_per_hour == pytest.approx(found.cost_per_hour - 1.8)
    assert found.relaxations[0].cards == "1 x A100-80GB-SXM"


def test_what_changes_nothing_does_not_bind(answer: Plan) -> None:
    assert answer.cost_per_hour == pytest.approx(1.2)
    assert answer.relaxations == ()  # one of three may have neighbours: nobody else may


def test_the_least_memory_that_saves_a_card_is_found() -> None:
    """Two models of 14.5 GiB and 12 % of headroom on L4: one card would need about 33 GiB."""
    found = plan({"gpus": SHOP[:1], "models": [asked("a", 0.2), asked("b", 0.2)]}, why=True)
    (more,) = [one for one in found.relaxations if "GiB more" in one.wishes[0]]
    assert more.wishes == ("16 GiB more on each L4",)
    assert more.saves == pytest.approx(0.4)
    told = plan_document(found, catalogue="c")["relaxations"]
    assert {"wishes": ["16 GiB more on each L4"], "saves": pytest.approx(0.4), "cards": "1 x L4"} in told


def test_without_places_the_smallest_sets_are_found_and_hold() -> None:
    pair = fleet(small("a", apart_from=["b"]), small("b"), gpus=[{"type": "A100-80GB-SXM", "count": 1}])
    found = plan(pair)
    assert not found.feasible
    assert [one.wishes for one in found.relaxations] == [("a: apart from b",)]
    both = fleet(
        small("a", sharing=["alone"]), small("b", sharing=["alone"]),
        gpus=[{"type": "A100-80GB-SXM", "count": 1}],
    )  # fmt: skip
    assert [one.wishes for one in smallest_sets(both)] == [("a: no neighbours", "b: no neighbours")]
    assert plan(fleet(small("a"), small("b"), gpus=[{"type": "A100-80GB-SXM", "count": 1}])).feasible


def test_an_slo_below_the_floor_says_the_floor() -> None:
    """14 GB of weights over 0.3 TB/s take 47 ms at least; nothing but a faster card helps."""
    strict = load_fleet({"gpus": SHOP[:1], "models": [asked("a", 0.2, {"tpot": "10ms"})]})
    reasons = [refusal.reason for refusal in ways_of(strict, 0).refusals if refusal.tensor_parallel_size == 1]
    assert any(
        "below the floor of L4" in reason and re.search(r" takes (4[7-9]|5)", reason) for reason in reasons
    ), reasons
    found = plan({"gpus": SHOP[:1], "models": [asked("a", 0.2, {"tpot": "1ms"})]})
    assert not found.feasible
    assert [one.wishes for one in found.relaxations] == [("a: its SLO",)]


def test_so_does_one_for_the_first_token() -> None:
    """A prompt of 900 tokens is 13 TFLOP through 121 TFLOP/s at the most: 0.1 s with nobody else there."""
    strict = load_fleet({"gpus": SHOP[:1], "models": [asked("a", 0.2, {"ttft": "100ms"})]})
    reasons = [refusal.reason for refusal in ways_of(strict, 0).refusals if refusal.tensor_parallel_size == 1]
    assert any(
        re.search(r"a TTFT of 100 ms is below the floor of L4: a prompt of .* tokens alone \(p95\) takes", reason)
        for reason in reasons
    ), reasons


def test_models_on_one_base_are_found_and_folding_them_is_priced() -> None:
    base = {"model": "mistralai/Mistral-7B-Instruct-v0.3", "quantization": ["bf16"]}
    models = [
        asked("plain", 0.1) | base,
        asked("legal", 0.1) | base | {"adapters": [{"name": "law", "rank": 16}]},
    ]
    question = load_fleet({"gpus": SHOP[:1], "models": models})
    assert list(twins(question)) == [(0, 1)]
    one = folded(question, (0, 1)).models
    assert [adapter.name for adapter in one[0].adapters] == ["law"]
    assert one[0].traffic.requests_per_second == pytest.approx(0.2)
    found = plan_fleet(question, priced=True, fold=False)
    assert found.cost_per_hour == pytest.approx(0.8)
    told = {each.wishes[0]: each.saves for each in found.relaxations}
    assert told["plain and legal as processes of their own (one with their adapters)"] == pytest.approx(0.4)


def test_lengths_of_folded_models_are_mixed_by_rate() -> None:
    short = asked("a", 3.0)
    long = asked("b", 1.0)
    for one, length in ((short, 100), (long, 1000)):
        one["model"] = "mistralai/Mistral-7B-Instruct-v0.3"
        one["traffic"] = {
            "requests_per_second": one["traffic"]["requests_per_second"],
            "input_tokens": {"p50": length, "p95": length}, "output_tokens": {"p50": 10, "p95": 10},
        }  # fmt: skip
    question = load_fleet({"gpus": SHOP, "models": [short, long]})
    mixed = folded(question, next(twins(question))).models[0].traffic.input_tokens
    assert mixed is not None
    assert sum(length * weight for length, weight in mixed.histogram) / 4 == pytest.approx(325, rel=0.01)
    assert (mixed.p50, mixed.p95) == (100, 1000)


def test_what_is_told_in_several_ways_is_not_folded() -> None:
    model = {"model": "mistralai/Mistral-7B-Instruct-v0.3"}
    assert not list(twins(fleet(asked("a", 1.0) | model, small("b") | model, gpus=SHOP)))
    other_precision = asked("b", 1.0) | model | {"quantization": ["bf16"]}
    assert not list(twins(fleet(asked("a", 1.0) | model, other_precision, gpus=SHOP)))


def test_every_pair_of_wishes_can_be_dropped_together() -> None:
    """Folding takes models out of the fleet; wishes of theirs are then gone too."""
    slo = {"tpot": "90ms"}
    model = {"model": "mistralai/Mistral-7B-Instruct-v0.3"}
    question = load_fleet({"gpus": SHOP, "models": [asked(name, 0.1, slo) | model for name in ("a", "b", "c")]})
    for one in wishes_of(question):
        for other in wishes_of(question):
            left = other.dropped(one.dropped(question))
            assert {request.name for request in left.models} <= {"a", "b", "c"}
