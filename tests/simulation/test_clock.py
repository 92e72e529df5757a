"""One clock for all models whose traffic follows the hours."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import cotenant
from cotenant.domain.workload import Lengths, Traffic
from cotenant.simulation.clock import shows_day, silent, start_hour
from cotenant.simulation.workload import workload

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def asked(weights: dict[int, float], zone: str = "UTC", rate: float = 1.0) -> Traffic:
    by_hour = tuple(weights.get(hour, 0.0) for hour in range(24))
    return Traffic(rate, Lengths(p50=10), Lengths(p50=10), by_hour=by_hour, timezone=zone)


def test_all_start_at_the_hour_in_which_most_are_asked() -> None:
    day, night = asked({8: 5, 9: 5, 20: 1}), asked({0: 9, 20: 3})
    assert start_hour([day, night], whole_day=False) == 20
    assert start_hour([day, night], whole_day=True) == 0
    assert start_hour([day], whole_day=False) is None  # its own busiest hour
    assert start_hour([day, asked({1: 1}, "Asia/Shanghai")], whole_day=False) is None


def test_who_is_not_asked_is_told_so() -> None:
    night = asked({0: 9, 20: 3})
    assert [silent(night, 9, 300), silent(night, 19, 300), silent(night, 19, 3700)] == [True, True, False]
    assert silent(night, 9, 86_400) is False
    assert not silent(Traffic(1.0), 9, 300)


def test_a_day_is_shown_where_turns_follow_the_hours_and_requests_are_few() -> None:
    rare = [asked({8: 1}, rate=0.01), asked({20: 1}, rate=0.01)]
    assert shows_day(rare, turns=True)
    assert not shows_day(rare, turns=False)
    assert not shows_day([asked({8: 1}), asked({20: 1})], turns=True)
    assert not shows_day([*rare, Traffic(concurrent=2)], turns=True)


def test_requests_come_in_their_hours() -> None:
    found = workload(asked({5: 1}), seed=0, model=0, duration_s=86_400, step_s=1, priority=0, start_hour=3)
    hours = found.requests.arrival_ns // (3600 * 10**9)
    assert set(np.unique(hours)) == {2}


def test_day_and_night_are_not_busy_together() -> None:
    found = cotenant.simulate(EXAMPLES / "day-and-night.yaml", duration="120s")
    assert found.slo_held
    assert {model.model: model.requests > 0 for model in found.models} == {"chat": False, "digest": True}
    assert any(text.startswith("chat: nobody asks it from 00:00 on") for text in found.warnings)
