"""A trace in figures, by hand and against what it was drawn from."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cotenant.domain.workload import Trace
from cotenant.edge.traces import open_trace
from cotenant.errors import InputError
from cotenant.report.trace_text import plot, traffic_yaml
from cotenant.simulation.arrivals import NS_PER_S, gamma, poisson
from cotenant.simulation.draws import Draws
from cotenant.simulation.trace_summary import spread, summary


def trace(arrivals: list[int]) -> Trace:
    count = len(arrivals)
    return Trace("t", tuple(one / NS_PER_S for one in arrivals), (100,) * count, (10,) * count)


def test_by_hand() -> None:
    found = summary(Trace("t", (0.0, 1.0, 2.0, 10.0), (1, 2, 3, 4), (10, 10, 10, 20)), token_s=0.15)
    assert (found.requests, found.duration_s, found.rate) == (4, 10.0, 0.4)
    assert sum(rate * 10 / 60 for rate in found.rates) == pytest.approx(4)
    # each is in flight for 1.5 s, the last one for 3: two overlaps of half a second
    assert found.concurrency[0] == pytest.approx((3 * 1.5 + 3) / 13)
    assert found.concurrency[2] == 2
    assert (found.input_tokens.p50, found.input_tokens.maximum) == (2, 4)
    assert found.by_hour == ()


def test_poisson_is_one_and_bursts_are_more() -> None:
    even = summary(trace(poisson(5.0, 600.0, Draws(1))), token_s=0.01)
    assert even.variation == pytest.approx(1, abs=0.08)
    assert even.dispersion == pytest.approx(1, abs=0.2)
    bursts = summary(trace(gamma(5.0, 600.0, Draws(1), variation=3.0)), token_s=0.01)
    assert bursts.variation == pytest.approx(3, rel=0.2)
    assert bursts.dispersion > 3


def test_percentiles_are_lengths_that_occurred() -> None:
    found = spread(range(1, 101))
    assert (found.p50, found.p95, found.p99, found.smallest, found.maximum, found.mean) == (
        50,
        95,
        99,
        1,
        100,
        50.5,
    )
    assert sum(found.counts) == 100


@pytest.mark.parametrize("tokens", [(1,), (0, 0), (7, 7, 7)])
def test_lengths_all_alike(tokens: tuple[int, ...]) -> None:
    assert sum(spread(tokens).counts) == len(tokens)


def test_one_request_alone() -> None:
    found = summary(trace([0]), token_s=0.03)
    assert (found.rate, found.peak_rate, found.variation) == (1.0, 1.0, 0.0)


def test_the_busiest_minute_is_never_below_the_mean() -> None:
    """Ten requests in 33 seconds: the last one counts as the first does."""
    found = summary(trace([number * 33 * NS_PER_S // 9 for number in range(10)]), token_s=0.03)
    assert found.rate == found.peak_rate == pytest.approx(10 / 33)


def test_a_day_has_hours() -> None:
    found = summary(trace([hour * 3600 * NS_PER_S for hour in range(49)]), token_s=0.03)
    assert found.by_hour == (3, *[2] * 23)
    assert yaml.safe_load(traffic_yaml(found))["traffic"]["by_hour"] == list(found.by_hour)


def test_the_block_is_what_a_fleet_file_takes() -> None:
    import cotenant

    example = Path(__file__).resolve().parents[2] / "examples" / "traces" / "bursty.csv"
    found = summary(open_trace(example), token_s=0.03)
    block = yaml.safe_load(traffic_yaml(found))["traffic"]
    model = {"name": "m", "model": {"parameters": "7B", "layers": 32, "kv_heads": 8, "head_dim": 128}}
    fleet = cotenant.load_fleet(
        {"gpus": [{"type": "L40S", "count": 1}], "models": [{**model, "traffic": block}]}
    )  # fmt: skip
    traffic = fleet.models[0].traffic
    assert traffic.input_tokens is not None
    assert traffic.input_tokens.p50 == found.input_tokens.p50


def test_plots_show_whatever_is_there() -> None:
    assert plot([0, 1, 50, 100]) == " ▁▄█"
    assert plot([0, 0]) == "  "


def test_a_token_takes_time() -> None:
    with pytest.raises(InputError, match="above zero"):
        summary(trace([0]), token_s=0.0)


@pytest.mark.parametrize("arrivals", [[0], [0, 0, 0], [0, NS_PER_S // 2]])
def test_what_lasts_less_than_a_second_has_no_rate(arrivals: list[int]) -> None:
    found = summary(trace(arrivals), token_s=0.03)
    assert not found.rated
    assert "requests_per_second" in found.notes[-1]
    assert "requests_per_second" not in yaml.safe_load(traffic_yaml(found))["traffic"]


def test_a_fleet_does_not_take_a_rate_from_one_request() -> None:
    import cotenant

    model = {"name": "m", "model": {"parameters": "7B", "layers": 32, "kv_heads": 8, "head_dim": 128}}
    example = Path(__file__).resolve().parents[2] / "examples" / "traces" / "bursty.csv"
    place = example.with_name("nowhere.csv")
    asked = {**model, "traffic": {"trace": str(place)}}
    from cotenant.readers.fleet import fleet_from

    def load(rows: int) -> object:
        return fleet_from(
            {"gpus": [{"type": "L40S", "count": 1}], "models": [asked]},
            load_model=cotenant.load_model, load_trace=lambda _: trace([0, 5 * NS_PER_S][:rows]),
        )  # fmt: skip

    assert load(2)
    with pytest.raises(InputError, match="too short for a rate"):
        load(1)
