"""Slices of a card's time as places: so many processes, one rank each, their memory side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant import load_fleet, plan
from cotenant.errors import InputErrors
from cotenant.planning.candidates import ways_of
from cotenant.planning.check import find_faults
from cotenant.planning.launch import reestimate
from cotenant.planning.wishes import wishes_of
from tests.planning.fleets import small
from tests.planning.test_turns import DAY, NIGHT, sleepy


def asked(places: int | None, count: int = 4, models: int = 3, **more: Any) -> dict[str, Any]:
    card = {"type": "A100-80GB-SXM", "price": "$2/h", "max": count, **({"time_slices": places} if places else {})}
    return {"gpus": [card], "models": [small(f"m{one}", quantization=["bf16"]) for one in range(models)], **more}


@pytest.mark.parametrize(("places", "cards"), [(None, 1), (3, 1), (2, 2)])
def test_no_card_takes_more_processes_than_slices(places: int | None, cards: int) -> None:
    question = load_fleet(asked(places))
    answer = plan(question)
    assert answer.feasible
    assert len(answer.gpus) == cards
    assert answer.gap == 0
    assert not list(find_faults(answer, question, reestimate(question)))


def test_slices_share_the_memory_of_their_card() -> None:
    """Four slices of an L4 hold no more than the L4 does: models of 16 GB take one each."""
    card = {"type": "L4", "count": 2, "time_slices": 4}
    answer = plan(
        {"gpus": [card], "models": [small("a", quantization=["bf16"]), small("b", quantization=["bf16"])]}
    )
    assert len(answer.gpus) == 2


def test_a_replica_has_one_slice_and_neighbours_slow_it() -> None:
    found = ways_of(load_fleet(asked(4)), 0)
    assert {one.tensor_parallel_size for one in found.candidates} == {1}
    whole = ways_of(load_fleet(asked(None)), 0)
    assert found.candidates[0].slack == whole.candidates[0].slack
    assert found.candidates[0].demand.tpot_s == whole.candidates[0].demand.tpot_s  # alone it has all of the time
    large = {"name": "big", "model": "meta-llama/Llama-3.1-70B-Instruct", "quantization": ["bf16"],
             "traffic": {"concurrent": 4, "context_tokens": {"p95": 2048}}}  # fmt: skip
    refused = plan({**asked(4), "models": [large]})
    assert not refused.feasible


def test_who_takes_turns_has_a_slice_each() -> None:
    node = {"size": 2, "host_memory": "64GiB"}

    def question(places: int) -> dict[str, Any]:
        cards = [{"type": "L4", "price": "$0.4/h", "node": node, "time_slices": places}]
        return {"gpus": cards, "models": [sleepy("a", DAY), sleepy("b", NIGHT), sleepy("c", [*DAY[8:], *DAY[:8]])]}

    two, three = plan(question(2)), plan(question(3))
    assert max(len(turns.models) for turns in two.turns) == 2
    for answer, places in ((two, 2), (three, 3)):
        assert all(len(gpu.shares) + len(gpu.sleepers) <= places for gpu in answer.gpus)


def test_the_check_counts_and_the_wish_is_priced() -> None:
    answer, narrow = plan(asked(3)), load_fleet(asked(2))
    assert any("slices of its time" in fault for fault in find_faults(answer, narrow, reestimate(narrow)))
    one = answer.replicas[0]
    split = replace(one, settings=replace(one.settings, tensor_parallel_size=2))
    faults = find_faults(replace(answer, replicas=(split, *answer.replicas[1:])), narrow, reestimate(narrow))
    assert any("may be of one card" in fault for fault in faults)
    assert any("2 slices of the time" in wish.words for wish in wishes_of(narrow))


def test_what_does_not_fit_is_told_by_its_slices() -> None:
    short = plan(asked(2, count=1))
    assert not short.feasible
    assert "2 processes on each A100-80GB-SXM" in short.shortfalls[0].reason


@pytest.mark.parametrize("wrong", [1, 0, -2, 65, "2", True, 2.0])
def test_how_many_slices_there_may_be(wrong: Any) -> None:
    with pytest.raises(InputErrors):
        load_fleet({"gpus": [{"type": "L4", "count": 1, "time_slices": wrong}], "models": [small("a")]})
