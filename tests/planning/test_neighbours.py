"""A plan without a replay says whose cache is short beside its neighbours, and whose is not."""

from __future__ import annotations

from typing import Any

from cotenant import load_fleet, plan
from cotenant.planning.neighbours import crowded_of
from cotenant.planning.sleeping import solve_fleet


def asked(name: str, rate: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {
            "requests_per_second": rate,
            "input_tokens": {"p50": 600, "p95": 1600},
            "output_tokens": {"p50": 150, "p95": 400},
        },
        "slo": {"ttft": "5s", "tpot": "200ms"},
        **more,
    }


def crowded(*models: dict[str, Any]) -> tuple[str, ...]:
    gpus = [{"type": "A100-80GB-SXM", "count": 1}]
    return crowded_of(solve_fleet(load_fleet({"engine": "vllm@0.21", "gpus": gpus, "models": list(models)})))


def test_a_pool_that_is_short_beside_busy_neighbours_is_told_with_both_figures() -> None:
    told = crowded(asked("a", 1.0), asked("b", 1.0), asked("c", 1.0))
    assert [one.partition(" beside ")[0] for one in told] == ["a", "b", "c"]
    assert "a beside b and c: steps take ~" in told[0]
    assert "GiB of cache are full 5% of the time or more" in told[0]
    assert told[0].endswith("--replay sizes it for that")


def test_more_work_than_the_card_has_time_for_piles_up() -> None:
    told = crowded(asked("a", 12.0), asked("b", 12.0))
    assert all("its requests pile up" in one for one in told)
    assert told


def test_nobody_is_told_who_is_alone_or_hardly_disturbed_or_promised_nothing() -> None:
    assert crowded(asked("a", 1.0)) == ()
    assert crowded(asked("a", 0.02), asked("b", 0.02)) == ()
    free = [{**asked(name, 1.0), "slo": None} for name in "ab"]
    assert crowded(*({key: value for key, value in one.items() if value} for one in free)) == ()


def test_the_readmes_trio_warns_of_its_largest_model_alone() -> None:
    """Replayed, it keeps 94.6 % of 95 over the first hour that is drawn."""
    told = [one for one in plan("examples/a100-trio.yaml").warnings if "--replay" in one]
    assert len(told) == 1
    assert told[0].startswith("chat beside code and triage: steps take ~1.7 times as long as alone")
