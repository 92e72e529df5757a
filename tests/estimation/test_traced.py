"""Sizing from a trace: its own lengths and rate, and the answer of the distribution that it was drawn from."""

from __future__ import annotations

import random
from math import exp, log
from pathlib import Path

import pytest

from cotenant import plan
from cotenant.domain.workload import Lengths, Trace
from cotenant.estimation.lengths import length_model
from cotenant.estimation.normal import Z95
from cotenant.estimation.traced import HOUR_S, burstiness, held_by_trace, traced
from tests.planning.fleets import fleet, small

INPUTS, OUTPUTS = Lengths(600, 1600), Lengths(150, 400)


def drawn(rate: float, seconds: float, seed: int = 7) -> Trace:
    """Poisson arrivals with independent log-normal lengths."""
    dice = random.Random(seed)
    arrivals, now = [], 0.0
    while (now := now + dice.expovariate(rate)) < seconds:
        arrivals.append(now)

    def length(known: Lengths) -> int:
        assert known.p50 is not None
        assert known.p95 is not None
        return max(1, round(known.p50 * exp(log(known.p95 / known.p50) / Z95 * dice.gauss(0, 1))))

    return Trace(
        "drawn.csv",
        tuple(arrivals),
        tuple(length(INPUTS) for _ in arrivals),
        tuple(length(OUTPUTS) for _ in arrivals),
    )


def written(trace: Trace, folder: Path) -> Path:
    rows = zip(trace.arrivals_s, trace.input_tokens, trace.output_tokens, strict=True)
    path = folder / "drawn.csv"
    path.write_text("timestamp,input tokens,output tokens\n" + "".join(f"{a},{i},{o}\n" for a, i, o in rows))
    return path


def test_a_trace_sizes_like_the_distribution_it_was_drawn_from(tmp_path: Path) -> None:
    trace = drawn(2.0, HOUR_S)
    shape = {"p50": 600, "p95": 1600}, {"p50": 150, "p95": 400}
    asked = dict(zip(("input_tokens", "output_tokens"), shape, strict=True))
    models = [
        small("rate", traffic={"requests_per_second": 2.0, **asked}),
        small("trace", traffic={"trace": str(written(trace, tmp_path))}),
    ]
    answer = plan(fleet(*models))
    by_rate, by_trace = answer.replicas
    assert by_trace.kv_needed_bytes == pytest.approx(by_rate.kv_needed_bytes, rel=0.08)
    assert by_trace.settings.max_num_seqs == pytest.approx(by_rate.settings.max_num_seqs, abs=3)
    assert (by_trace.settings.max_model_len or 0) >= trace.longest


def test_the_busiest_hour_counts_not_the_quiet_night() -> None:
    day = drawn(1.0, HOUR_S)
    night = drawn(0.01, 8 * HOUR_S, seed=3)
    late = tuple(HOUR_S + moment for moment in night.arrivals_s)
    both = Trace(
        "day.csv",
        day.arrivals_s + late,
        day.input_tokens + night.input_tokens,
        day.output_tokens + night.output_tokens,
    )
    assert traced(both).rate == pytest.approx(1.0, rel=0.1)


def test_inputs_and_outputs_stay_together() -> None:
    """Long prompts with short answers hold less in decode than independence would say."""
    count = 1000
    tied = Trace("t", tuple(map(float, range(count))), (100, 9000) * (count // 2), (900, 10) * (count // 2))
    assert held_by_trace(tied, 10**6).mean_by_output < 1000


def test_bursts_are_told_from_poisson() -> None:
    assert burstiness(drawn(2.0, HOUR_S), 10.0) == pytest.approx(1.0, abs=0.3)
    calm = drawn(2.0, HOUR_S)
    bunched = Trace(
        "b", tuple(moment - moment % 60 for moment in calm.arrivals_s), calm.input_tokens, calm.output_tokens
    )
    assert burstiness(bunched, 10.0) > 5


def test_traced_lengths_are_the_distribution_of_what_came() -> None:
    lengths = traced(drawn(2.0, HOUR_S)).inputs
    model = length_model(INPUTS)
    assert lengths.mean == pytest.approx(model.mean, rel=0.05)
    assert lengths.quantile(0.95) == pytest.approx(1600, rel=0.05)
    assert sum(length * p for length, p in lengths.cells()) == pytest.approx(lengths.mean)
    assert lengths.share_above(10**9) == 0


def test_a_trace_that_does_not_fit_is_answered_with_remedies(tmp_path: Path) -> None:
    path = written(drawn(20.0, 120.0), tmp_path)
    answer = plan(fleet(small("busy", traffic={"trace": str(path)}), gpus=[{"type": "L4", "count": 1}]))
    assert not answer.feasible
    assert any("trace's rate" in remedy for remedy in answer.shortfalls[0].remedies)


def test_burstiness_by_hand_and_over_years_of_silence() -> None:
    """Ten windows, all ten arrivals in one: mean 1, variance 81/10 + 9/10 = 9. A lone one in 10^9 windows: 1."""
    crowd = Trace("t", (*(0.5,) * 9, 10.0), (1,) * 10, (1,) * 10)
    assert burstiness(crowd, 1.0) == pytest.approx((8**2 + 8 * 1) / 10)
    years = Trace("t", (0.0, 3e8), (1, 1), (1, 1))
    assert burstiness(years, 0.1) == pytest.approx(1.0)
