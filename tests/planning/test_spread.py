"""Replicas on different nodes: by every solver, in pools and shops, beside a spare; and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant import load_fleet, plan
from cotenant.domain.plan import Plan
from cotenant.planning.candidates import all_ways
from cotenant.planning.check import find_faults
from cotenant.planning.greedy import place_greedily
from cotenant.planning.launch import reestimate
from cotenant.planning.packing import place_exactly as place_compactly
from cotenant.planning.placing import place_by_patterns
from cotenant.planning.problem import Placement, Problem
from cotenant.planning.solved import problem_of
from tests.planning.fleets import small

TWO: dict[str, Any] = {"replicas": {"min": 2}, "spread": "node", "quantization": ["bf16"]}


def nodes(answer: Plan, model: str) -> list[int]:
    return [one.devices[0].node for one in answer.replicas if one.model == model]


def pool(*counts: int, size: int = 2) -> list[dict[str, Any]]:
    return [{"type": "L40S", "count": count, "node": {"size": size}} for count in counts]


def test_replicas_stand_on_different_nodes_of_a_pool() -> None:
    models = [small("a", **TWO), small("b", "mistralai/Mistral-7B-Instruct-v0.3", **TWO)]
    question = load_fleet({"gpus": pool(4), "models": models})
    answer = plan(question)
    assert sorted(nodes(answer, "a")) == sorted(nodes(answer, "b")) == [0, 1]
    assert len(answer.gpus) == 2
    assert answer.gap == 0.0
    together = replace(
        answer.replicas[1], devices=(replace(answer.replicas[1].devices[0], node=nodes(answer, "a")[0], index=1),)
    )
    moved = replace(answer, replicas=(answer.replicas[0], together, *answer.replicas[2:]))
    assert any("two replicas on one node" in fault for fault in find_faults(moved, question, reestimate(question)))


def test_one_node_is_not_enough_and_the_wish_is_named() -> None:
    answer = plan({"gpus": pool(4, size=4), "models": [small("a", **TWO)]})
    assert not answer.feasible
    assert ("a: its replicas on different nodes",) in [one.wishes for one in answer.relaxations]


def test_hired_cards_come_in_several_nodes() -> None:
    for limit in ({}, {"max": 4}):
        answer = plan({"gpus": [{"type": "L40S", "price": "$1/h", **limit}], "models": [small("a", **TWO)]})
        assert answer.feasible
        assert sorted(nodes(answer, "a")) == [0, 1]
        assert answer.cost_per_hour == pytest.approx(2)


def test_groups_of_several_cards_are_spread_whole() -> None:
    big = small("a", "mistralai/Mistral-Small-24B-Instruct-2501", **TWO)
    answer = plan({"gpus": pool(4), "models": [big]})
    assert sorted(nodes(answer, "a")) == [0, 1]
    assert all(len({device.node for device in one.devices}) == 1 for one in answer.replicas)
    assert {len(one.devices) for one in answer.replicas} == {2}


def test_beside_a_spare() -> None:
    answer = plan({"gpus": pool(6), "spare": "node", "models": [small("a", **TWO)]})
    assert answer.feasible
    assert len(set(nodes(answer, "a"))) == 2
    empty = {gpu.device.node for gpu in answer.gpus if gpu.spare}
    assert empty.isdisjoint(nodes(answer, "a"))
    assert not plan({"gpus": pool(4), "spare": "node", "models": [small("a", **TWO)]}).feasible


def _is_spread(problem: Problem, placement: Placement) -> bool:
    return all(
        len({problem.cards[group[0]].node for group in one.cards}) == len(one.cards)
        for one in placement.assignments
        if one.candidate.request in problem.spread
    )


@pytest.mark.parametrize("sizes", [(4,), (6,), (4, 4)])
def test_every_solver_spreads_at_the_same_cost(sizes: tuple[int, ...]) -> None:
    models = [
        small("a", **TWO), small("b", "Qwen/Qwen2.5-14B-Instruct", **TWO),
        small("c", "mistralai/Mistral-7B-Instruct-v0.3", quantization=["bf16"]),
    ]  # fmt: skip
    question = load_fleet({"gpus": pool(*sizes), "models": models})
    problem = replace(problem_of(question, [each.candidates for each in all_ways(question)]), contention=False)
    compact, patterns = place_compactly(problem), place_by_patterns(problem)
    assert compact is not None
    assert patterns is not None
    assert compact.objective_value == pytest.approx(patterns.objective_value)
    for placement in (compact, patterns, place_greedily(problem)):
        assert _is_spread(problem, placement)
