"""What may be chosen, what another way beats, what was refused; and plans under a time limit."""

from __future__ import annotations

import pytest

from cotenant import load_fleet, plan
from cotenant.edge.deadline import within
from cotenant.errors import InputError, SolverError
from cotenant.planning.candidates import ways_of
from cotenant.planning.hurried import hurried_plan
from cotenant.planning.listed import ways_listed
from cotenant.planning.ways import undominated
from cotenant.report.candidates import ways_document
from tests.planning.fleets import fleet, small, trio

SHOP = [{"type": "L4", "price": "$0.4/h"}, {"type": "A100-80GB-SXM", "price": "$1.8/h"}]


def test_every_way_has_one_fate_and_dropped_ones_name_what_is_better() -> None:
    question = fleet(small("a", kv_cache_dtype=["auto", "fp8"]), small("b"), gpus=SHOP)
    ways = ways_listed(question)
    found = [ways_of(question, number) for number in range(2)]
    assert sum(one.offered for one in ways) == sum(len(each.candidates) for each in found)
    dropped = [one for one in ways if "dominated by" in one.reason]
    assert dropped
    assert len(dropped) == sum(len(each.dropped) for each in found)
    for each in found:
        for one in each.dropped:
            assert undominated([one.by, one.candidate]) == (one.by,)
    assert any(not one.offered and one.tensor_parallel_size == 0 for one in ways)
    document = ways_document(ways, catalogue="c", input_hash="h")
    assert len(document["candidates"]) == len(ways)


def test_there_is_a_checked_plan_where_there_is_no_time() -> None:
    question = load_fleet({"gpus": SHOP, "models": [small("a"), small("b"), small("c")]})
    best, quick = plan(question), hurried_plan(question)
    assert quick.deterministic is False
    assert quick.feasible
    assert quick.cost_per_hour is not None
    assert best.cost_per_hour is not None
    assert quick.lower_bound <= best.cost_per_hour <= quick.cost_per_hour
    assert quick.gap is not None
    assert 0 <= quick.gap < 1


def test_a_limit_that_is_not_reached_gives_the_optimum_and_still_says_so() -> None:
    limited, free = plan(trio(), time_limit="120s"), plan(trio())
    assert limited.deterministic is False
    assert limited.replicas == free.replicas
    assert limited.gap == free.gap


def test_limits_that_are_none_and_spares_that_take_a_search() -> None:
    with pytest.raises(InputError):
        plan(trio(), time_limit="0s")
    with pytest.raises(InputError):
        plan(trio(), time_limit="soon")
    with pytest.raises(SolverError, match="spare"):
        hurried_plan(load_fleet({"gpus": SHOP, "models": [small("a")], "spare": "gpu"}))


def test_what_takes_longer_is_ended() -> None:
    assert within(0.01, dict) in (None, {})
    assert within(60, dict) == {}
