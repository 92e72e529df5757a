"""Whole plans: the example of the README, laws that every plan obeys, and what is said where nothing fits."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant import load_fleet, plan
from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan
from cotenant.planning.check import find_faults
from cotenant.planning.launch import reestimate
from cotenant.planning.solve import plan_fleet
from cotenant.report.document import plan_document
from cotenant.units import GIB
from tests.planning.fleets import fleet, small, trio


@pytest.fixture(scope="module")
def answer() -> Plan:
    return plan(trio())


def test_the_trio_fits_one_card_with_its_headroom(answer: Plan) -> None:
    assert answer.feasible
    assert len(answer.gpus) == 1
    assert answer.gpus[0].headroom_bytes >= 0.12 * answer.gpus[0].capacity_bytes
    assert {replica.model: replica.quantization for replica in answer.replicas} == {
        "chat": "awq-int4", "code": "fp8", "triage": "fp8",
    }  # fmt: skip
    assert answer.gap == 0.0
    assert answer.cost_per_hour is None
    assert answer.objective_value == answer.lower_bound == 1


def test_the_trio_says_why_fp8_was_not_chosen_for_the_largest(answer: Plan) -> None:
    chat = next(replica for replica in answer.replicas if replica.model == "chat")
    assert "fp8" in chat.runner_up
    assert "headroom" in chat.runner_up


def test_the_trio_needs_a_twentieth_of_the_usual_sizing(answer: Plan) -> None:
    naive = answer.naive
    assert naive is not None
    # 70B: 131.9 GiB of weights + 16 x 131,072 x 327,680 B = 640 GiB of KV: 772 / 79.2 -> 16 as a power of two;
    # Mistral: 13.5 + 16 x 32,768 x 131,072 B = 64 GiB: one; 8B: 15 + 256 GiB: four.
    assert naive.cards == 16 + 1 + 4
    assert naive.cards_ratio == pytest.approx(21.0)


def test_commands_start_as_they_stand(answer: Plan) -> None:
    commands = {replica.model: replica.command for replica in answer.replicas}
    assert commands["chat"][:3] == ("vllm", "serve", "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4")
    assert {replica.port for replica in answer.replicas} == {8000, 8001, 8002}
    assert "--enable-lora" in commands["triage"]
    assert all(dict(replica.environment)["CUDA_VISIBLE_DEVICES"] == "0" for replica in answer.replicas)


def test_the_document_has_the_keys_of_the_contract(answer: Plan) -> None:
    document = plan_document(answer, catalogue="c")
    assert {
        "cost_per_hour",
        "lower_bound",
        "gap",
        "deterministic",
        "rounds",
        "replicas",
        "gpus",
        "naive",
        "warnings",
    } <= (document.keys())
    replica, gpu = document["replicas"][0], document["gpus"][0]
    assert shlex.split(replica["command"])[1:] == replica["arguments"]
    promised = (
        "id model checkpoint quantization port devices engine tensor_parallel_size max_model_len max_num_seqs"
    )
    promised += " gpu_memory_utilization kv_cache_memory_bytes adapters sharing start_order why runner_up"
    assert set(promised.split()) <= replica.keys()
    assert {"type", "node", "index", "sleepers"} <= gpu.keys()
    assert sum(share["bytes"] for share in gpu["replicas"]) + gpu["headroom_bytes"] == gpu["capacity_bytes"]
    assert gpu["load_peak_bytes"] <= gpu["capacity_bytes"]
    json.dumps(document, allow_nan=False)


def test_bytes_add_up(answer: Plan) -> None:
    for gpu in answer.gpus:
        for share in gpu.shares:
            parts = share.weights_bytes + share.kv_cache_bytes + share.activations_bytes + share.runtime_bytes
            assert share.footprint_bytes == parts
            assert share.claimed_bytes >= parts
        claimed = sum(share.claimed_bytes for share in gpu.shares)
        assert gpu.headroom_bytes + gpu.used_bytes + claimed == gpu.capacity_bytes


def test_contention_is_named_with_its_price(answer: Plan) -> None:
    assert any(warning.startswith("chat beside code and triage") for warning in answer.warnings)


def test_a_calm_placement_of_the_same_cost_is_taken() -> None:
    fleet_ = fleet(*trio()["models"], gpus=[{"type": "A100-80GB-SXM", "count": 4}], objective=["headroom"])
    answer = plan(fleet_)
    assert not any("at their peak" in warning for warning in answer.warnings)


def test_the_same_input_gives_the_same_plan(answer: Plan) -> None:
    assert plan(trio()) == answer


def test_where_nothing_fits_the_nearest_plan_and_tried_remedies_come_back() -> None:
    answer = plan(trio(gpus=[{"type": "L40S", "count": 1}]))
    assert not answer.feasible
    short = {each.model: each for each in answer.shortfalls}
    assert set(short) == {"chat"}
    assert short["chat"].shortfall_bytes > 0
    assert short["chat"].remedies
    assert not any("swap" in remedy or "host" in remedy for remedy in short["chat"].remedies)
    assert {replica.model for replica in answer.replicas} == {"code", "triage"}


def test_remedies_hold() -> None:
    """What the advice says is tried here once more, by hand: a second card."""
    answer = plan(trio(gpus=[{"type": "L40S", "count": 1}]))
    assert any("one more L40S" in remedy for remedy in answer.shortfalls[0].remedies)
    assert plan(trio(gpus=[{"type": "L40S", "count": 2}])).feasible


def test_tensor_parallel_stays_inside_a_node_and_lists_the_replica_on_each_card() -> None:
    big = {**trio()["models"][0], "quantization": ["bf16"]}
    answer = plan(fleet(big, gpus=[{"type": "A100-80GB-SXM", "count": 4, "node": {"size": 2}}]))
    assert answer.feasible
    replica = answer.replicas[0]
    assert replica.settings.tensor_parallel_size == len(replica.devices) == 2
    assert len({device.node for device in replica.devices}) == 1
    assert [share.replica for gpu in answer.gpus for share in gpu.shares] == ["chat", "chat"]


def test_pins_and_apart_are_kept() -> None:
    models = [small("a", apart_from=["b"]), small("b", pin={"gpus": [1]}), small("c", pin={"gpus": [1]})]
    answer = plan(fleet(*models, gpus=[{"type": "A100-80GB-SXM", "count": 3}]))
    where = {replica.model: (replica.devices[0].node, replica.devices[0].index) for replica in answer.replicas}
    assert where["b"] == where["c"] == (0, 1)
    assert where["a"] != where["b"]


def test_memory_held_by_others_is_left_alone() -> None:
    answer = plan(fleet(small("a"), gpus=[{"type": "A100-80GB-SXM", "count": 1, "used": "50GiB"}]))
    assert answer.feasible
    gpu = answer.gpus[0]
    assert gpu.used_bytes == 50 * GIB
    assert gpu.headroom_bytes >= 0.12 * gpu.capacity_bytes


def test_a_mixed_shop_is_cheaper_than_any_single_type() -> None:
    models = [*trio()["models"], small("embedder", "BAAI/bge-m3", task="embed")][:3]
    prices = {"L4": "$0.60/h", "L40S": "$0.95/h", "A100-80GB-SXM": "$1.60/h"}
    mixed = plan(fleet(*models, gpus=[{"type": name, "price": price} for name, price in prices.items()]))
    assert mixed.cost_per_hour is not None
    for name, price in prices.items():
        alone = plan(fleet(*models, gpus=[{"type": name, "price": price}]))
        if alone.feasible:
            assert alone.cost_per_hour is not None
            assert mixed.cost_per_hour <= alone.cost_per_hour + 1e-9


def test_two_processes_never_share_weights_and_the_plan_says_so() -> None:
    answer = plan(fleet(small("one"), small("two")))
    assert len(answer.replicas) == 2
    weights = [share.weights_bytes for gpu in answer.gpus for share in gpu.shares]
    assert weights[0] == weights[1]
    assert any("processes never share weights" in warning for warning in answer.warnings)


def test_the_model_of_higher_priority_keeps_its_place() -> None:
    def answer(first: int, second: int) -> set[str]:
        ways = [
            small("a", priority=first, quantization=["bf16"]),
            small("b", priority=second, quantization=["bf16"]),
        ]
        return {replica.model for replica in plan(fleet(*ways, gpus=[{"type": "L4", "count": 1}])).replicas}

    assert answer(5, 0) == {"a"}
    assert answer(0, 5) == {"b"}


def test_versions_without_pools_in_bytes_are_planned_by_their_fraction() -> None:
    answer = plan(fleet(small("a", engine="vllm@0.6.0"), small("b", engine="vllm@0.9.0")))
    assert answer.feasible
    for replica in answer.replicas:
        assert replica.settings.kv_cache_memory_bytes is None
        assert "--kv-cache-memory-bytes" not in replica.command
        assert "--gpu-memory-utilization" in replica.command


ENGINES = ("sglang", "tgi", "tensorrt-llm", "llama.cpp", "ollama")


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_can_be_planned(engine: str) -> None:
    answer = plan(fleet(small("a", engine=engine)))
    assert answer.feasible, answer.shortfalls
    assert answer.replicas[0].command
    assert answer.gpus[0].headroom_bytes >= 0.12 * answer.gpus[0].capacity_bytes


TAMPERINGS = {
    "a card too many": lambda p: replace(p, gpus=(*p.gpus, replace(p.gpus[0]))),
    "a replica lost": lambda p: replace(p, replicas=p.replicas[1:]),
    "a cost invented": lambda p: replace(p, cost_per_hour=1.0),
    "a bound above the value": lambda p: replace(p, lower_bound=p.objective_value + 1),
    "two replicas on one port": lambda p: replace(p, replicas=tuple(replace(r, port=8000) for r in p.replicas)),
    "memory that was forgotten": lambda p: replace(
        p,
        gpus=(replace(p.gpus[0], shares=(replace(p.gpus[0].shares[0], kv_cache_bytes=1), *p.gpus[0].shares[1:])),),
    ),
    "capacity that is not there": lambda p: replace(
        p, gpus=(replace(p.gpus[0], capacity_bytes=p.gpus[0].capacity_bytes // 2),)
    ),
    "a larger card than CUDA reports": lambda p: replace(
        p, gpus=(replace(p.gpus[0], capacity_bytes=p.gpus[0].capacity_bytes + GIB),)
    ),
    "a card of another type": lambda p: replace(
        p, replicas=tuple(replace(r, devices=(replace(r.devices[0], type="H100"),)) for r in p.replicas)
    ),
    "a card out of the node": lambda p: replace(
        p, replicas=tuple(replace(r, devices=(replace(r.devices[0], index=99),)) for r in p.replicas)
    ),
    "a precision nobody asked for": lambda p: replace(
        p, replicas=tuple(replace(r, quantization="gptq-int4") for r in p.replicas)
    ),
    "adapters that were dropped": lambda p: replace(
        p, replicas=tuple(replace(r, adapters=()) for r in p.replicas)
    ),
    "less room while loading": lambda p: replace(
        p, gpus=(replace(p.gpus[0], shares=tuple(replace(s, load_peak_bytes=60 * GIB) for s in p.gpus[0].shares)),)
    ),
}


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=str)
def test_the_check_finds_every_tampering(answer: Plan, tampering: str) -> None:
    question = load_fleet(trio())
    assert not list(find_faults(answer, question, reestimate(question)))
    assert list(find_faults(TAMPERINGS[tampering](answer), question, reestimate(question)))


SMALL_MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "Qwen/Qwen2.5-7B-Instruct",
)


@st.composite
def small_fleets(draw: st.DrawFn) -> Fleet:
    models = [
        small(f"m{number}", draw(st.sampled_from(SMALL_MODELS)), traffic={
            "concurrent": draw(st.integers(1, 32)),
            "context_tokens": {"p95": draw(st.sampled_from([512, 2048, 8192]))},
        })
        for number in range(draw(st.integers(1, 3)))
    ]  # fmt: skip
    gpus = [{"type": draw(st.sampled_from(["L4", "L40S", "A100-80GB-SXM"])), "count": draw(st.integers(1, 2))}]
    return fleet(*models, gpus=gpus, headroom=draw(st.sampled_from(["0%", "10%", "15%"])))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(small_fleets())
def test_every_plan_survives_its_check_and_more_memory_never_fits_less(question: Fleet) -> None:
    """`plan_fleet` raises CheckError on a plan that breaks a promise."""
    before = plan_fleet(question)
    roomier = replace(
        question, gpus=tuple(replace(offer, count=(offer.count or 0) + 1) for offer in question.gpus)
    )
    after = plan_fleet(roomier)
    assert after.feasible >= before.feasible
    if before.feasible:
        assert after.objective_value <= before.objective_value + 1e-6


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(small_fleets())
def test_a_model_less_never_costs_more(question: Fleet) -> None:
    whole = plan_fleet(question)
    if whole.feasible and len(question.models) > 1:
        fewer = plan_fleet(replace(question, models=question.models[:-1]))
        assert fewer.feasible
        assert fewer.objective_value <= whole.objective_value + 1e-6
