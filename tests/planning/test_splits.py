"""Pipeline stages and whole experts: where they are tried, what they save, and that the check holds them."""

from __future__ import annotations

from typing import Any

import pytest

from bench.brute_force import compare
from cotenant import load_fleet, plan, simulate
from cotenant.planning.candidates import ways_of
from cotenant.planning.check import find_faults
from cotenant.planning.launch import reestimate
from cotenant.planning.listed import ways_listed
from cotenant.planning.splits import Split, has_expert_parallel, in_stages
from cotenant.planning.why import split_words

LENGTHS = {"input_tokens": {"p50": 500, "p95": 1000}, "output_tokens": {"p50": 100, "p95": 200}}
L4 = [{"type": "L4", "price": "$0.4/h", "node": {"size": 8}}]


def question(model: str, **more: Any) -> dict[str, Any]:
    request = {
        "name": "m",
        "model": model,
        "quantization": ["bf16"],
        "traffic": {"requests_per_second": 0.1, **LENGTHS},
    }
    return {"gpus": L4, "models": [request | more]}


def test_three_stages_where_two_cards_are_too_few_and_four_too_many() -> None:
    """44 GiB of weights: 22 on each of two L4 are too much, a third fits."""
    asked = load_fleet(question("mistralai/Mistral-Small-24B-Instruct-2501"))
    answer = plan(asked)
    (replica,) = answer.replicas
    assert (replica.settings.tensor_parallel_size, replica.settings.pipeline_parallel_size) == (1, 3)
    assert answer.cost_per_hour == pytest.approx(1.2)
    at = replica.command.index("--pipeline-parallel-size")
    assert replica.command[at + 1] == "3"
    assert "--tensor-parallel-size" not in replica.command
    assert "next bf16 (tp 4 on L4): $0.40/h more" in replica.runner_up
    assert not list(find_faults(answer, asked, reestimate(asked)))
    assert simulate(answer).models[0].finished > 0


@pytest.mark.parametrize(
    ("card", "model"), [("L4", "Llama-3.1-70B"), ("A10G", "Llama-3.1-70B"), ("L4", "Qwen2.5-72B")]
)
def test_stages_of_unequal_layers_hold_what_their_traffic_needs(card: str, model: str) -> None:
    """80 layers in three stages are 27, 27 and 26: the last one's blocks are as many as theirs, and smaller."""
    name = f"meta-llama/{model}-Instruct" if model.startswith("Llama") else f"Qwen/{model}-Instruct"
    traffic = {
        "requests_per_second": 0.3,
        "input_tokens": {"p50": 600, "p95": 1600},
        "output_tokens": {"p50": 150, "p95": 400},
    }
    asked = load_fleet(
        {"engine": "vllm", "gpus": [{"type": card, "count": 8}],
         "models": [{"name": "m", "model": name, "traffic": traffic}]}
    )  # fmt: skip
    answer = plan(asked)
    (replica,) = answer.replicas
    assert replica.settings.pipeline_parallel_size == 3
    pools = [share.kv_cache_bytes for gpu in answer.gpus for share in gpu.shares]
    assert min(pools) == pools[-1] == pools[0] * 26 // 27
    assert min(pools) < replica.kv_needed_bytes <= pools[0]


def test_stages_are_slower_than_ranks_and_refused_where_the_slo_says_so() -> None:
    """One card after another: a token takes about as long as on one card that held all of it (3 x 14.7 GiB at
    300 GB/s: 150 ms at least)."""
    asked = load_fleet(question("mistralai/Mistral-Small-24B-Instruct-2501"))
    ways = {one.tensor_parallel_size: one for one in ways_of(asked, 0).candidates}
    assert ways[3].demand.tpot_s is not None
    assert ways[4].demand.tpot_s is not None
    assert ways[3].demand.tpot_s[1] > 0.15 > ways[4].demand.tpot_s[1]
    hurried = plan(question("mistralai/Mistral-Small-24B-Instruct-2501", slo={"tpot": "100ms"}))
    assert hurried.replicas[0].settings.tensor_parallel_size == 4


def test_more_ranks_than_heads_of_the_cache_are_held_against_stages() -> None:
    """Qwen3-30B-A3B has four KV heads: eight ranks keep each twice, two stages of four keep each once."""
    ways = ways_listed(load_fleet(question("Qwen/Qwen3-30B-A3B")))
    own = [one for one in ways if one.offered and one.step_share == 1]
    offered = {(one.tensor_parallel_size, one.pipeline_parallel_size): one for one in own}
    assert offered[4, 2].claim_bytes < offered[8, 1].claim_bytes
    experts = [one for one in ways if one.expert_parallel]
    assert {one.tensor_parallel_size for one in experts} == {4, 8}
    assert all("whole experts" in one.reason and not one.offered for one in experts)
    dense = ways_listed(load_fleet(question("mistralai/Mistral-Small-24B-Instruct-2501")))
    assert not any(one.expert_parallel for one in dense)


def test_stages_that_are_no_smaller_than_ranks_are_told_and_not_offered() -> None:
    found = ways_of(load_fleet(question("mistralai/Mistral-7B-Instruct-v0.3")), 0)
    assert {one.pipeline_parallel_size for one in found.candidates} == {1}
    (told,) = [one for one in found.refusals if one.pipeline_parallel_size == 2]
    assert told.reason.startswith("2 stages of 1: takes ")
    assert "a card and is slower, 2 ranks take " in told.reason


def test_stages_that_are_smaller_than_ranks_make_a_cheaper_plan() -> None:
    """Two stages on A100s take 0.4 GiB less of each than two ranks, for NCCL's part in CUDA graphs."""
    found = compare("adapters", 352)
    assert found.planned == pytest.approx(found.truth) == pytest.approx(2.6)


def test_thirds_leave_room_for_a_neighbour_that_halves_do_not() -> None:
    """18.7 and 23.3 GiB are too much for an L40S with headroom, 13.4 and 23.3 are not; a third card is there."""
    found = compare("plain", 86)
    assert found.planned == pytest.approx(found.truth) == pytest.approx(3.75)


def test_a_spare_for_one_card_holds_all_stages() -> None:
    answer = plan(question("mistralai/Mistral-Small-24B-Instruct-2501") | {"spare": "gpu"})
    assert (len(answer.gpus), sum(gpu.spare for gpu in answer.gpus)) == (6, 3)


def test_which_splits_are_tried() -> None:
    none: list[int] = []
    assert list(in_stages("vllm", 8, 40, held=[4], refused=none)) == [Split(1, 3), Split(2, 2), Split(1, 4)]
    assert [one.size for one in in_stages("vllm", 8, 40, held=none, refused=none)] == [3, 5, 6, 6, 7]
    assert list(in_stages("vllm", 8, 40, held=[1], refused=none)) == []
    assert list(in_stages("vllm", 8, 40, held=[1, 2], refused=none)) == [Split(1, 2)]
    assert list(in_stages("vllm", 8, 40, held=[2], refused=none)) == [Split(1, 2), Split(1, 3)]
    assert list(in_stages("vllm", 4, 40, held=[1], refused=[4])) == [Split(2, 2), Split(1, 4)]
    assert list(in_stages("vllm", 4, 3, held=[1], refused=[4])) == [Split(2, 2)]
    assert list(in_stages("llama.cpp", 8, 40, held=none, refused=none)) == []
    assert has_expert_parallel("vllm", 128, 8)
    assert not has_expert_parallel("vllm", 60, 8)
    one = ways_of(load_fleet(question("mistralai/Mistral-Small-24B-Instruct-2501")), 0).candidates
    assert sorted({split_words(each) for each in one}) == ["pp 3", "tp 4", "tp 8"]


@pytest.mark.parametrize("engine", ["tgi", "tensorrt-llm"])
def test_engines_without_planned_stages_are_split_by_ranks_alone(engine: str) -> None:
    found = ways_of(load_fleet(question("mistralai/Mistral-Small-24B-Instruct-2501", engine=engine)), 0)
    assert {one.pipeline_parallel_size for one in found.candidates} == {1}
