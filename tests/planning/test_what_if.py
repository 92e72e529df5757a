"""Sweeps: what they change, what they refuse, and that more traffic never costs less."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant import load_fleet, what_if
from cotenant.domain.fleet import Fleet
from cotenant.errors import CotenantError, InputError
from cotenant.planning.what_if import changed, point, read_sweep
from cotenant.report.what_if import what_if_document, what_if_html
from tests.planning.fleets import small
from tests.planning.test_promise import asked

SHOP = [{"type": "L4", "price": "$0.45/h"}, {"type": "A100-80GB-SXM", "price": "$1.8/h", "max": 1}]


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return load_fleet({"gpus": SHOP, "models": [asked("a", 0.4, {"tpot": "90ms", "ttft": "1s"}), small("b")]})


def test_traffic_is_rates_and_numbers_in_flight(fleet: Fleet) -> None:
    sweep = read_sweep("traffic=0.5..4", fleet, points=4)
    assert sweep.factors == (0.5, 1.0, 2.0, 4.0)
    twice = changed(fleet, sweep, 2.0)
    assert twice.models[0].traffic.requests_per_second == pytest.approx(0.8)
    assert twice.models[1].traffic.concurrent == 16
    assert changed(fleet, read_sweep("traffic:b=1..2", fleet), 2.0).models[0] == fleet.models[0]


def test_slo_and_price(fleet: Fleet) -> None:
    slo = changed(fleet, read_sweep("slo=0.5..2", fleet), 0.5).models[0].slo
    assert slo is not None
    assert slo.ttft_s == 0.5
    assert slo.tpot_s == pytest.approx(0.045)
    dearer = changed(fleet, read_sweep("price:L4=1..2", fleet), 2.0)
    assert [offer.price_per_hour for offer in dearer.gpus] == [pytest.approx(0.9), pytest.approx(1.8)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("speed=1..2", "cannot be varied"),
        ("traffic", "is not a range"),
        ("traffic=4..1", "a range from"),
        ("traffic=0..2", "a range from"),
        ("traffic=nan..2", "a range from"),
        ("traffic:zzz=1..2", "the fleet has no 'zzz'"),
        ("slo:b=1..2", "no SLO to vary"),
    ],
)
def test_what_cannot_be_swept(fleet: Fleet, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_sweep(text, fleet)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(fleet: Fleet, text: str) -> None:
    try:
        sweep = read_sweep(text, fleet)
    except CotenantError:
        return
    assert all(0.001 <= factor <= 1000 for factor in sweep.factors)


@given(st.floats(0.001, 900), st.floats(1.01, 1000), st.integers(2, 20))
def test_factors_rise_from_end_to_end_with_one_among_them(
    fleet: Fleet, low: float, ratio: float, points: int
) -> None:
    high = min(1000.0, low * ratio)
    if high <= low:
        return
    factors = read_sweep(f"traffic={low}..{high}", fleet, points=points).factors
    assert all(one < other for one, other in pairwise(factors))
    assert factors[0] == pytest.approx(low, rel=1e-3)
    assert factors[-1] == pytest.approx(high, rel=1e-3)
    assert (1.0 in factors) or not low <= 1 <= high or factors[0] == 1 or factors[-1] == 1


def test_more_traffic_never_costs_less_and_where_no_card_is_left_it_says_so(fleet: Fleet) -> None:
    pool = load_fleet({"gpus": [{"type": "L4", "count": 1}], "models": [asked("a", 0.1)]})
    sweep, points = what_if(pool, "traffic=1..500", points=3, workers=1)
    assert [point.feasible for point in points] == [True, *[point.feasible for point in points[1:-1]], False]
    sweep, points = what_if(fleet, "traffic=1..64", points=3, workers=1)
    values = [point.value for point in points if point.value is not None]
    assert all(one <= other + 1e-9 for one, other in pairwise(values))
    assert len(values) == len(points)
    document = what_if_document(sweep, points, catalogue="c")
    assert [one["factor"] for one in document["points"]] == list(sweep.factors)
    html = what_if_html(sweep, points, title="<b>")
    assert "&lt;b&gt;" in html
    assert "<script" not in html


def test_processes_give_the_same_answer(fleet: Fleet) -> None:
    alone = what_if(fleet, "traffic=1..2", points=2, workers=1)
    assert what_if(fleet, "traffic=1..2", points=2, workers=2) == alone


def test_no_room_says_why() -> None:
    large = small("big", "meta-llama/Llama-3.1-70B-Instruct", quantization=["bf16"])
    alone = load_fleet({"gpus": [{"type": "L4", "count": 1}], "models": [large]})
    found = point(alone, read_sweep("traffic=1..2", alone), 1.0)
    assert not found.feasible
    assert found.lacks.startswith("big: ")
    assert "GiB" in found.lacks
    many = [small(f"m{number}", quantization=["bf16"]) for number in range(6)]
    together = load_fleet({"gpus": [{"type": "A100-80GB-SXM", "count": 1}], "models": many})
    assert "together" in point(together, read_sweep("traffic=1..2", together), 1.0).lacks


def test_points_say_what_becomes_of_promises() -> None:
    """By the estimates, and by a replay where it is asked for: the same plan, judged as `--replay` judges."""
    pool = load_fleet(
        {"gpus": [{"type": "L40S", "count": 1}], "models": [asked("a", 0.8, {"tpot": "40ms"}), asked("b", 0.8)]}
    )
    sweep, points = what_if(pool, "traffic=0.1..1", points=2, workers=1)
    assert [one.promised for one in points] == [1, 1]
    assert all(one.attainment is None for one in points)
    told = points[-1]
    assert set(told.strained) | set(told.at_risk) <= {"a"}
    assert bool(told.warnings) == bool(told.strained or told.at_risk)
    _, replayed = what_if(pool, "traffic=0.1..1", points=2, workers=1, replay=True)
    for one, other in zip(points, replayed, strict=True):
        assert other.attainment is not None
        assert list(other.attainment) == ["a"]  # b has nothing to keep
        assert (other.attainment["a"] < 0.95) == (other.missed == ("a",))
        assert (other.value, other.cards, other.strained) == (one.value, one.cards, one.strained)
    document = what_if_document(sweep, replayed, catalogue="c")
    assert document["points"][0]["attainment"]["a"] > 0.9


def test_a_replayed_sweep_is_the_same_in_processes() -> None:
    pool = load_fleet({"gpus": [{"type": "L40S", "count": 1}], "models": [asked("a", 0.2, {"tpot": "80ms"})]})
    alone = what_if(pool, "traffic=0.5..1", points=2, workers=1, replay=True)
    assert what_if(pool, "traffic=0.5..1", points=2, workers=2, replay=True) == alone


def test_a_target_that_no_card_keeps_is_said_with_its_floor() -> None:
    pool = load_fleet({"gpus": [{"type": "L4", "count": 1}], "models": [asked("a", 0.1, {"tpot": "1ms"})]})
    found = point(pool, read_sweep("slo=0.5..1", pool), 1.0)
    assert found.lacks.startswith("a: a TPOT of 1 ms is asked, and one step for one request alone takes ")
