"""Policies of `cotenant simulate`, on one small fleet: each ends, says the same twice, and does what it is for."""

from __future__ import annotations

from typing import Any

import pytest

import cotenant
from cotenant.domain.replay import Replay
from cotenant.errors import CotenantError, UnsupportedError
from cotenant.simulation.conditions import conditions_of
from cotenant.simulation.policies import POLICIES

FLEET: dict[str, Any] = {
    "engine": "vllm@0.11",
    "gpus": [{"type": "L40S", "count": 2}],
    "models": [
        {
            "name": name,
            "model": {"parameters": "7B", "layers": 32, "kv_heads": 8, "head_dim": 128},
            "traffic": {
                "requests_per_second": rate,
                "input_tokens": {"p50": 300, "p95": 900, "max": 4000},
                "output_tokens": {"p50": 60, "p95": 200, "max": 1000},
            },
            "slo": {"ttft": "8s", "tpot": "150ms"},
        }
        for name, rate in (("one", 0.6), ("two", 0.2))
    ],
}


SPLIT: dict[str, Any] = {
    **FLEET,
    "gpus": [{"type": "L40S", "count": 3}],
    "models": [{**FLEET["models"][0], "replicas": {"min": 2}, "sharing": ["alone"]}, FLEET["models"][1]],
}
"""The same with two replicas of the first, each with a card to itself."""


def replayed(policy: str, **options: Any) -> Replay:
    fleet = SPLIT if policy == "disaggregated" else FLEET
    return cotenant.simulate(fleet, policy=policy, duration="40s", **options)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_serves_everybody_and_says_the_same_twice(policy: str) -> None:
    found = replayed(policy)
    assert found.policy == policy
    assert {model.model for model in found.models} == {"one", "two"}
    for model in found.models:
        assert model.requests == model.finished + model.refused
        assert model.ttft_s is not None
        assert 0 < model.ttft_s.p50 <= model.ttft_s.p99
    assert found == replayed(policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_is_busy_for_longer_than_there_is_time(policy: str) -> None:
    """Also where a model has the work of several cards: its share of them all."""
    traffic = {**FLEET["models"][0]["traffic"], "requests_per_second": 12}
    fleet = {
        **FLEET,
        "gpus": [{"type": "L40S", "count": 4}],
        "models": [
            {**FLEET["models"][0], "traffic": traffic, "replicas": {"min": 2 if policy == "disaggregated" else 1}}
        ],
    }
    found = cotenant.simulate(fleet, policy=policy, duration="20s")
    assert all(0 < one.busy <= 1 for one in found.replicas if one.requests)


def test_pooled_cards_are_of_one_kind_and_requests_come_by_rate() -> None:
    one_card = {**FLEET, "gpus": [{"type": "L40S", "count": 1}]}
    with pytest.raises(UnsupportedError, match="at least two cards"):
        cotenant.simulate(one_card, policy="token", duration="10s")
    closed = {**FLEET["models"][0], "traffic": {"concurrent": 2, "context_tokens": {"p95": 900}}}
    with pytest.raises(UnsupportedError, match="need requests a second"):
        cotenant.simulate({**FLEET, "models": [closed]}, policy="token", duration="10s")


def test_no_other_policy() -> None:
    with pytest.raises(CotenantError, match="no policy 'magic'"):
        replayed("magic")


def test_the_fast_core_of_many_says_what_the_plain_kernel_says(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    plain = replayed("static", seed=3)
    monkeypatch.setattr("cotenant.simulation.cores.COMPILE_FROM", 1)
    assert replayed("static", seed=3) == plain


def test_round_robin_goes_to_the_fast_core_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    one, two = FLEET["models"]
    fleet = {**FLEET, "models": [{**one, "replicas": {"min": 2}}, two]}
    how: dict[str, Any] = {"duration": "40s", "conditions": conditions_of(dispatch="round-robin")}
    plain = cotenant.simulate(fleet, **how)
    counts = [replica.requests for replica in plain.replicas if replica.model == "one"]
    assert len(counts) == 2
    assert abs(counts[0] - counts[1]) <= 1  # by turns, whoever has less to do
    monkeypatch.setattr("cotenant.simulation.cores.COMPILE_FROM", 1)
    monkeypatch.setattr("cotenant.simulation.cores.run", None)  # the plain kernel is not asked
    assert cotenant.simulate(fleet, **how) == plain


def test_a_hold_loads_models_less_often_at_later_answers() -> None:
    """Both on one card, by turns, seldom asked: fewer wakes, and everybody is answered, later by the hold."""
    size = {"parameters": "14B", "layers": 40, "kv_heads": 8, "head_dim": 128}
    few = {"requests_per_second": 0.2, "output_tokens": {"p50": 10, "p95": 20, "max": 100}}
    models = [{**one, "model": size, "traffic": {**one["traffic"], **few}} for one in FLEET["models"]]
    fleet = {**FLEET, "gpus": [{"type": "L40S", "count": 1}], "models": models}
    wakes, worst = [], []
    for hold in ("0s", "8s"):
        held = conditions_of(residency="0s", hold=hold)
        found = cotenant.simulate(fleet, policy="swap", duration="120s", conditions=held)
        assert all(model.finished == model.requests for model in found.models)
        wakes.append(sum(one.wakes for one in found.replicas))
        worst.append([model.ttft_s.p95 for model in found.models if model.ttft_s is not None])
    assert 2 <= wakes[1] < wakes[0]
    assert all(first + 4 < second < first + 9 for first, second in zip(*worst, strict=True))
