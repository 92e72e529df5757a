"""Plans that are replayed: who breaks an SLO gets more room or less company, until all hold; ways side by side."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant import compare_plans, load_fleet, plan
from cotenant.domain.contender import Contender
from cotenant.domain.plan import Plan
from cotenant.domain.workload import Trace, Traffic
from cotenant.errors import InputError
from cotenant.planning.scenes import DRAWS, all_peaks, busiest_start, declared_scenes, hour_rate, kept_by
from cotenant.report.contenders import contenders_document
from cotenant.report.document import plan_document

RAW = {"parameters": "7B", "layers": 32, "kv_heads": 8, "head_dim": 128, "max_model_len": 8192}
SHOP = [{"type": "L40S", "price": "$1/h"}, {"type": "A100-80GB-SXM", "price": "$1.8/h"}]


def asked(name: str, rate: float, slo: dict[str, str] | None = None, **traffic: Any) -> dict[str, Any]:
    lengths = {"input_tokens": {"p50": 300, "p95": 900}, "output_tokens": {"p50": 100, "p95": 300}}
    found = {
        "name": name,
        "model": {**RAW, "name": f"./{name}"},
        "traffic": {"requests_per_second": rate, **lengths, **traffic},
    }
    return found | ({"slo": slo} if slo else {})


def two(**more: Any) -> dict[str, Any]:
    return {
        "gpus": SHOP,
        "models": [asked("a", 0.8, {"tpot": "40ms", "ttft": "1s"}), asked("b", 0.8, {"tpot": "90ms"})],
        **more,
    }


@pytest.fixture(scope="module")
def kept() -> Plan:
    return plan(two(), replay=True)


def test_a_plan_that_breaks_an_slo_is_tightened_until_its_replay_holds(kept: Plan) -> None:
    assert plan(two()).cost_per_hour == pytest.approx(1.0)  # one L40S holds both by the roofline, each alone
    first, last = kept.rounds[0], kept.rounds[-1]
    assert first.cost_per_hour == pytest.approx(1.0)
    assert first.missed == ("a",)
    assert first.attainment["a"] < 0.95
    assert kept.promises_held
    assert last.missed == ()
    assert min(last.attainment.values()) >= 0.95
    assert kept.cost_per_hour == pytest.approx(1.8)
    assert "slower than alone" in next(one.why for one in kept.replicas if one.model == "a")


def test_several_draws_are_judged_together_unless_one_has_missed_too_much(kept: Plan) -> None:
    """0.8 requests/s of each for 375 s are about 600 a draw; at 58 % kept, four perfect draws mend nothing."""
    first, last = kept.rounds[0], kept.rounds[-1]
    assert (first.replays, last.replays) == (1, DRAWS)
    assert 500 < first.requests < 700
    assert 500 * DRAWS < last.requests < 700 * DRAWS
    fleet = load_fleet(two())
    scenes = declared_scenes(fleet)
    seen: list[tuple[int, str]] = []

    def replayer(plan: Plan, models: Any, seconds: float, /, *, policy: str = "static", draw: int = 0) -> Any:
        seen.append((draw, policy))
        shares = [(0.90, 0.97, 0.97, 0.97, 0.97)[draw], 1.0]
        return SimpleNamespace(
            models=[SimpleNamespace(requests=100, attainment=one, unfinished=0) for one in shares]
        )

    found = kept_by(kept, scenes, replayer)  # type: ignore[arg-type]  # stands for the simulator
    assert seen == [(draw, "static") for draw in range(5)]
    assert found.attainment == pytest.approx({"a": 0.956, "b": 1.0})
    assert (found.missed, found.replays, found.requests) == ((), 5, 1000)
    trace = Trace("two", (0.0, 1.0), (5, 5), (5, 5))
    told = [replace(scene, models=tuple(replace(one, traffic=Traffic(trace=trace)) for one in scene.models))
            for scene in scenes]  # fmt: skip
    assert kept_by(kept, told, replayer).missed == ("a",)  # type: ignore[arg-type]
    assert seen[5:] == [(0, "static")] * len(told)


def test_rounds_never_get_cheaper_than_the_first_and_its_bound_stays(kept: Plan) -> None:
    costs = [one.cost_per_hour or 0.0 for one in kept.rounds]
    assert min(costs) == costs[0]
    assert kept.lower_bound == pytest.approx(1.0)
    assert kept.gap == pytest.approx(0.8 / 1.8)
    assert [one.number for one in kept.rounds] == list(range(1, len(costs) + 1))


def test_the_document_tells_the_rounds(kept: Plan) -> None:
    document = plan_document(kept, catalogue="c")
    assert document["promises_held"] is True
    assert document["rounds"][0]["missed"] == ["a"]
    assert set(document["rounds"][0]["attainment"]) == {"a", "b"}
    assert document["starved"] == []


def test_what_nothing_holds_is_said_and_the_nearest_plan_returned() -> None:
    one_card = [{"type": "L40S", "count": 1}]
    answer = plan(two(gpus=one_card), replay=True)
    assert answer.feasible
    assert answer.promises_held is False
    assert any(warning.startswith("a: ") and "% asked): nothing" in warning for warning in answer.warnings)
    assert [(one.model, one.neighbour) for one in answer.starved] == [("a", "b")]


def test_without_a_replay_nothing_is_said_of_promises() -> None:
    answer = plan(two())
    assert answer.promises_held is None
    assert answer.rounds == ()


@pytest.fixture(scope="module")
def ways() -> dict[str, Contender]:
    found = compare_plans(two(), ["naive", "greedy", "optimal", "promised", "elastic"])
    return {one.strategy: one for one in found}


def test_ways_side_by_side(ways: dict[str, Contender]) -> None:
    naive, greedy, optimal = ways["naive"], ways["greedy"], ways["optimal"]
    assert signature(compare_plans).parameters["strategies"].default == ("naive", "greedy", "optimal")
    assert [naive.strategy, greedy.strategy, optimal.strategy] == ["naive", "greedy", "optimal"]
    assert naive.cards == {"A100-80GB-SXM": 2}
    assert naive.cost_per_hour == pytest.approx(3.6)
    assert naive.holds
    assert optimal.cost_per_hour == pytest.approx(1.0)
    assert greedy.cost_per_hour is not None
    assert optimal.cost_per_hour is not None
    assert optimal.cost_per_hour <= greedy.cost_per_hour
    assert optimal.missed == ("a",)
    document = contenders_document((naive, optimal), catalogue="c", input_hash="h")
    assert [one["strategy"] for one in document["strategies"]] == ["naive", "optimal"]


def test_promised_and_simulated_only_ways(ways: dict[str, Contender]) -> None:
    optimal, promised, elastic = ways["optimal"], ways["promised"], ways["elastic"]
    assert promised.holds
    assert promised.cost_per_hour == pytest.approx(1.8)
    assert elastic.cards == optimal.cards
    assert "simulated only" in elastic.note
    assert not optimal.note


def test_models_pooled_token_by_token_are_simulated_where_they_can_be() -> None:
    alone = [asked(name, 0.2) | {"sharing": ["alone"]} for name in ("a", "b")]
    pool, card = (
        compare_plans({"gpus": [{"type": "A100-80GB-SXM", "count": count}], "models": alone[:count]}, ["token"])[0]
        for count in (2, 1)
    )
    assert pool.note == "simulated only: no engine is driven so"
    assert pool.attainment is not None
    assert set(pool.attainment) == {"a", "b"}
    assert (card.attainment, card.note.partition(",")[0]) == (
        None, "not replayed: token pools at least two cards of one type",
    )  # fmt: skip


def test_a_strategy_that_there_is_not() -> None:
    with pytest.raises(InputError, match="no strategy 'best'"):
        compare_plans(two(), ["best"])


def test_greedy_may_leave_a_model_out() -> None:
    (found,) = compare_plans(two(gpus=[{"type": "L4", "count": 1}]), ["greedy"])
    assert found.unplaced
    assert not found.holds


def test_models_busy_at_different_hours_are_replayed_hour_by_hour() -> None:
    day = [1.0 if 8 <= hour < 20 else 0.0 for hour in range(24)]
    night = [1.0 - weight for weight in day]
    fleet = load_fleet({"gpus": SHOP, "models": [asked("a", 1, by_hour=day), asked("b", 2, by_hour=night)]})
    scenes = declared_scenes(fleet)
    assert [scene.name for scene in scenes] == ["from 08:00", "from 00:00"]
    rates = [[one.traffic.requests_per_second for one in scene.models] for scene in scenes]
    assert rates == [[2.0, 1e-9], [1e-9, 4.0]]  # twice the day's mean in twelve of its hours
    assert [one.traffic.requests_per_second for one in all_peaks(fleet).models] == [2.0, 4.0]
    assert sum(hour_rate(fleet.models[0].traffic, hour) for hour in range(24)) / 24 == pytest.approx(1.0)


def test_steady_traffic_is_one_scene() -> None:
    scenes = declared_scenes(load_fleet(two()))
    assert [scene.name for scene in scenes] == ["declared traffic"]
    assert scenes[0].seconds == 375  # for 300 requests of each


def test_the_busiest_stretch_of_a_trace() -> None:
    trace = Trace("t", (0.0, 50.0, 51.0, 52.0, 200.0), (1,) * 5, (1,) * 5)
    assert busiest_start(trace, 10) == 50.0


def test_ways_that_keep_no_spare_say_so() -> None:
    found = {one.strategy: one for one in compare_plans(two() | {"spare": "gpu"}, ["naive", "greedy", "optimal"])}
    assert found["naive"].note == found["greedy"].note == "keeps no spare"
    assert found["optimal"].note == ""
    assert sum(found["optimal"].cards.values()) > sum(found["greedy"].cards.values())


def test_the_usual_sizing_says_where_there_are_fewer_cards_than_it_takes() -> None:
    model = asked("a", 0.2) | {"model": "meta-llama/Llama-3.1-8B-Instruct"}
    few, enough = (
        compare_plans({"gpus": [{"type": "A100-80GB-SXM", "count": count}], "models": [model]}, ["naive"])[0]
        for count in (2, 8)
    )
    assert few.cards == {"A100-80GB-SXM": 4}
    assert (few.note, enough.note) == ("the fleet has 2 such cards", "")
