"""Arrivals follow their laws, the same on every machine."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import mean, pstdev
from typing import Any

import pytest

from cotenant.domain.workload import Lengths, Trace, Traffic
from cotenant.errors import InputError
from cotenant.simulation.arrivals import by_hour, gamma, on_off, poisson
from cotenant.simulation.draws import Draws, exponential, logarithm
from cotenant.simulation.workload import workload


def variation(arrivals: list[int]) -> float:
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    return pstdev(gaps) / mean(gaps)


def test_the_stream_is_frozen() -> None:
    """These numbers must never change: a seed is a promise."""
    assert poisson(2.0, 2.0, Draws(1)) == poisson(2.0, 2.0, Draws(1))
    assert [Draws(7).below(1000), Draws(7, 1).below(1000), Draws(8).below(1000)] == FROZEN


FROZEN = [625, 770, 326]


@pytest.mark.parametrize("x", [1e-12, 0.1, 0.5, 0.7071067811865475, 1.0, 2.5, 1e9])
def test_the_logarithm_is_one(x: float) -> None:
    assert logarithm(x) == pytest.approx(math.log(x), rel=4e-16, abs=4e-16)


def test_poisson_and_gamma_have_their_rate_and_variation() -> None:
    even = poisson(10.0, 400.0, Draws(1))
    assert len(even) == pytest.approx(4000, rel=0.05)
    assert variation(even) == pytest.approx(1.0, rel=0.06)
    for wanted in (0.5, 3.0):
        found = gamma(10.0, 400.0, Draws(2), variation=wanted)
        assert len(found) == pytest.approx(4000, rel=0.15)
        assert variation(found) == pytest.approx(wanted, rel=0.12)


def test_on_off_rests_its_share_of_the_time() -> None:
    found = on_off(20.0, 2000.0, Draws(3), on_s=2.0, off_s=6.0)
    assert len(found) == pytest.approx(20 * 2000 / 4, rel=0.12)
    assert variation(found) > 2


def test_a_rate_of_next_to_nothing_is_not_followed_for_years() -> None:
    """A request in thirty years, in spells of a millisecond: 300 s hold none, and that is found at once."""
    assert on_off(1e-9, 300.0, Draws(3), on_s=1e-3, off_s=1e-3) == []


def test_how_many_are_too_many_is_asked_of_the_mean_rate() -> None:
    """3,601 a second in spells of a second an hour: two hours hold about 7,200, not 26 million."""
    found = on_off(3601.0, 7200.0, Draws(5), on_s=1.0, off_s=3600.0)
    assert len(found) < 50_000
    with pytest.raises(InputError, match="7,200,000 requests are more than"):
        on_off(3_601_000.0, 7200.0, Draws(5), on_s=1.0, off_s=3600.0)


def test_by_hour_follows_its_weights() -> None:
    weights = [0.0] * 12 + [1.0] * 6 + [3.0] * 6
    found = by_hour(1.0, weights, 24 * 3600.0, Draws(4))
    hours = [0] * 24
    for arrival in found:
        hours[arrival // (3600 * 10**9)] += 1
    assert sum(hours[:12]) == 0
    assert sum(hours[18:]) / sum(hours[12:18]) == pytest.approx(3, rel=0.05)
    assert len(found) == pytest.approx(24 * 3600, rel=0.02)


def test_lengths_follow_their_percentiles() -> None:
    traffic = Traffic(requests_per_second=50.0, input_tokens=Lengths(600, 1600), output_tokens=Lengths(p50=7))
    found = workload(traffic, seed=0, model=0, duration_s=100.0, step_s=0.01, priority=3).requests
    inputs = sorted(found.input_tokens.tolist())
    assert inputs[len(inputs) // 2] == pytest.approx(600, rel=0.05)
    assert inputs[len(inputs) * 95 // 100] == pytest.approx(1600, rel=0.07)
    assert set(found.output_tokens.tolist()) == {7}
    assert set(found.priority.tolist()) == {3}


def test_users_who_leave_early_do_not_run_out_of_requests() -> None:
    """An answer takes 10 s; who leaves after a second asks ten times as often."""
    traffic = Traffic(concurrent=2, input_tokens=Lengths(p50=9), output_tokens=Lengths(p50=100))
    asked = [
        len(workload(traffic, seed=0, model=0, duration_s=60.0, step_s=0.1, priority=0, timeout_s=one).requests)
        for one in (None, 20.0, 1.0, 1e-6)
    ]
    assert asked[0] == asked[1] < 40
    assert asked[2] >= 2 * 60
    assert asked[3] >= 2 * 600  # a request a step


def test_who_answers_nothing_reads_all_of_its_context() -> None:
    """Embeddings: neither a quarter of the context in flight nor a trace's answers are written."""
    closed = Traffic(concurrent=3, context_tokens=Lengths(p95=400))
    how: dict[str, Any] = {"seed": 0, "model": 0, "duration_s": 60.0, "step_s": 0.1, "priority": 0}
    found = workload(closed, **how, answers=False)
    assert (set(found.requests.input_tokens.tolist()), found.warnings) == ({400}, ())
    trace = Trace("t", (0.0, 1.0), (5, 6), (7, 8))
    for traffic in (closed, Traffic(trace=trace)):
        assert set(workload(traffic, **how, answers=False).requests.output_tokens.tolist()) == {1}
    assert workload(Traffic(trace=trace), **how).requests.output_tokens.tolist() == [7, 8]


def test_a_trace_comes_as_it_came() -> None:
    trace = Trace("t", (0.0, 0.5, 2.0), (5, 6, 7), (0, 2, 3))
    found = workload(Traffic(trace=trace), seed=0, model=0, duration_s=1.0, step_s=0.01, priority=0).requests
    assert found.arrival_ns.tolist() == [0, 500_000_000]
    assert found.output_tokens.tolist() == [1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: poisson(0.0, 1.0, Draws(0)),
        lambda: poisson(1.0, -1.0, Draws(0)),
        lambda: poisson(1e9, 1e9, Draws(0)),
        lambda: gamma(1.0, 1.0, Draws(0), variation=0.0),
        lambda: on_off(1.0, 1.0, Draws(0), on_s=0.0, off_s=1.0),
        lambda: by_hour(1.0, [0.0] * 24, 1.0, Draws(0)),
        lambda: by_hour(10.0, [1.0] + [0.0] * 23, 86_400.0, Draws(0)),
        lambda: on_off(1e-9, 300.0, Draws(0), on_s=1e-6, off_s=1e-6),
    ],
)
def test_nonsense_is_refused(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("x", [-800.0, -50.5, -1.0, -0.3, 0.0, 1e-9, 0.7, 30.0])
def test_the_exponential_is_one(x: float) -> None:
    assert exponential(x) == pytest.approx(math.exp(x), rel=1e-14 * max(1.0, abs(x)), abs=1e-320)


def test_normal_draws_are_normal() -> None:
    draws = Draws(4)
    found = [draws.normal() for _ in range(20_000)]
    assert mean(found) == pytest.approx(0.0, abs=0.03)
    assert pstdev(found) == pytest.approx(1.0, rel=0.02)
    assert sum(one > 1.6448536 for one in found) / 20_000 == pytest.approx(0.05, abs=0.006)
    assert [round(one, 12) for one in [Draws(9).normal(), Draws(9, 1).normal()]] == NORMALS


NORMALS = [0.687349321634, 1.096841945752]
