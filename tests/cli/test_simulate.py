"""`simulate` and `workload` as they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]
RAW = str(ROOT / "examples" / "raw-figures.yaml")


def test_simulate_prints_models_and_replicas(run: Run) -> None:
    answer = run("simulate", RAW, "--duration", "5s")
    assert answer.status == 0
    assert "requests in 5 s (static, seed 0): no SLO to hold" in answer.out
    assert "scorer" in answer.out
    assert "KV high water" in answer.out


def test_simulate_as_json_has_the_keys(run: Run) -> None:
    document = run("simulate", RAW, "--duration", "5s", "--seed", "3", "--json").document
    assert document["schema"] == "cotenant/simulate/1"
    assert (document["seed"], document["policy"], document["duration_s"]) == (3, "static", 5.0)
    model = document["models"][0]
    assert model["requests"] == model["finished"]
    assert model["ttft_s"]["p50"] <= model["ttft_s"]["p95"] <= model["ttft_s"]["p99"]
    assert 0 < document["replicas"][0]["kv_high_water"] <= 1


def test_policies_side_by_side(run: Run) -> None:
    answer = run("simulate", RAW, "--duration", "5s", "--compare", "static, restart")
    assert answer.out.startswith("2 policies on the same 5 s (seed 0)")
    document = run("simulate", RAW, "--duration", "5s", "--compare", "static,restart", "--json").document
    assert [one["policy"] for one in document["policies"]] == ["static", "restart"]


def test_a_comparison_is_refused_before_it_runs(run: Run, tmp_path: Path) -> None:
    """All that cannot be at once, with what there is: the file is not even looked for."""
    answer = run("simulate", str(tmp_path / "none.yaml"), "--compare", "static,elastc,static,nothing", "--json")
    assert answer.status == 1
    faults = answer.document["errors"]
    assert [one["error"] for one in faults] == [
        "no policy 'elastc'", "static is compared with itself", "no policy 'nothing'",
    ]  # fmt: skip
    assert "did you mean 'elastic'?" in faults[0]["hint"]
    assert all("swap-lru, restart-lru, token" in one["hint"] for one in faults[::2])


def test_a_policy_that_cannot_run_the_plan_is_named_before_any_runs(run: Run) -> None:
    for policy, says in (
        ("disaggregated", "disaggregated: prefill and decode apart need at least two replicas"),
        ("token", "token: models that are pooled token by token need requests a second"),
    ):
        answer = run("simulate", RAW, "--duration", "5s", "--compare", f"static,{policy}")
        assert answer.status == 1
        assert says in answer.err
        assert answer.out == ""
    answer = run("simulate", RAW, "--compare", "static,swap,token", "--fail", "mtbf:2h+90s")
    assert "swap: replicas that take turns" in answer.err
    assert "token has a scheduler of its own" in answer.err


def test_a_trace_for_a_model(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "few.csv"
    trace.write_text("arrival_time,input_tokens,output_tokens\n0,100,10\n1,100,10\n1,90,1\n")
    document = run("simulate", RAW, "--trace", f"scorer={trace}", "--duration", "5s", "--json").document
    assert document["models"][0]["finished"] == 3


def test_a_plan_is_replayed_as_it_stands(run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert run("plan", RAW, "-o", str(plan)).status == 0
    fleet, again = (run("simulate", each, "--duration", "5s", "--json") for each in (RAW, str(plan)))
    assert again.status == 0
    assert again.document == fleet.document


def test_seeds_are_set_side_by_side(run: Run) -> None:
    answer = run("simulate", RAW, "--duration", "3s", "--seeds", "2", "--workers", "1")
    assert answer.out.startswith("2 seeds (0 to 1), 3 s each")
    document = run("simulate", RAW, "--duration", "3s", "--seeds", "2", "--workers", "1", "--json").document
    assert [one["seed"] for one in document["runs"]] == [0, 1]
    spread = document["spread"][0]
    assert spread["ttft_p95_s"]["least"] <= spread["ttft_p95_s"]["median"] <= spread["ttft_p95_s"]["most"]


def test_compare_without_names_takes_four(run: Run) -> None:
    document = run("simulate", RAW, "--duration", "3s", "--compare", "--workers", "1", "--json").document
    assert [one["policy"] for one in document["policies"]] == ["static", "elastic", "swap", "restart"]


def test_a_report_is_written(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "report.html"
    assert run("simulate", RAW, "--duration", "3s", "--html", str(place)).status == 0
    text = place.read_text(encoding="utf-8")
    assert "cotenant simulate raw-figures.yaml --duration 3s" in text


def test_a_missed_slo_is_status_3(run: Run) -> None:
    answer = run("simulate", str(ROOT / "examples" / "a100-trio.yaml"), "--duration", "20s", "--policy", "restart")
    assert answer.status == 3
    assert "SLO missed by chat" in answer.out


def test_where_nobody_is_answered_nothing_holds(run: Run) -> None:
    answer = run("simulate", RAW, "--duration", "5s", "--timeout", "1ms")
    assert answer.status == 3
    assert "clients left before their answer was whole" in answer.out


def test_a_replica_that_is_away_is_the_reason(run: Run) -> None:
    answer = run("simulate", RAW, "--duration", "5s", "--fail", "scorer@0s+1000000s")
    assert answer.status == 3
    assert "no replica of it was up" in " ".join(answer.out.split())


def test_models_that_fit_no_card_find_no_replica_under_any_policy(run: Run, tmp_path: Path) -> None:
    fleet = tmp_path / "large.yaml"
    fleet.write_text(
        "engine: vllm\ngpus: [{type: L4, count: 2}]\nmodels:\n"
        "  - {name: a, model: meta-llama/Llama-3.1-70B-Instruct, quantization: [bf16],"
        " traffic: {requests_per_second: 0.1, "
        "input_tokens: {p50: 99, p95: 200}, output_tokens: {p50: 9, p95: 20}}}\n"
    )
    for policy in ("static", "swap", "token"):
        answer = run("simulate", str(fleet), "--duration", "20s", "--policy", policy)
        assert answer.status == 3, answer.err
        assert "found no replica" in answer.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("simulate", RAW, "--policy", "magic"), "no policy 'magic'"),
        (("simulate", RAW, "--duration", "5"), "5"),
        (("simulate", RAW, "--compare", "static,static"), "static is compared with itself"),
        (("simulate", RAW, "--fail", "mtbf:2h+10s", "--fail", "mtbf:1h+10s"), "two of mtbf"),
        (("simulate", RAW, "--arrivals", "on-off:0s/0s"), "a spell above zero"),
        (("simulate", RAW, "--trace", "x=nowhere.csv"), "which model"),
        (("workload", "nowhere.csv"), "no trace at nowhere.csv"),
        (("workload", RAW), "no column for"),
    ],
)
def test_bad_input_is_status_1(run: Run, arguments: tuple[str, ...], says: str) -> None:
    answer = run(*arguments)
    assert answer.status == 1
    assert says in answer.err


def test_workload_as_json(run: Run) -> None:
    document = run("workload", str(ROOT / "examples" / "traces" / "bursty.csv"), "--json").document
    assert document["schema"] == "cotenant/workload/1"
    assert document["requests"] == 305
    assert document["traffic"]["input_tokens"]["p50"] == document["input_tokens"]["p50"]
    assert document["variation"] == pytest.approx(2, rel=0.15)  # drawn with gaps of variation 2
