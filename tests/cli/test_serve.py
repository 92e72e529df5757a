"""`cotenant serve`: what is said before anything is started."""

from __future__ import annotations

import json
from pathlib import Path

from bench.live_case import MIB, plan_document
from tests.cli.conftest import Run


def test_a_dry_run_says_what_would_be_started_and_where(run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 150 * MIB)))
    text = run("serve", str(plan), "--dry-run").out
    assert "device CPU #0.0: 150.00 MiB to give" in text
    assert "alpha-1: alpha, 2 at once, takes 100.00 MiB, is stopped to make room" in text
    document = run("serve", str(plan), "--dry-run", "--json", "--url", "beta=http://gpu-2:8000/v1/").document
    assert document["schema"] == "cotenant/serve/1"
    assert [one["ours"] for one in document["replicas"]] == [True, False]
    assert document["replicas"][1]["url"] == "http://gpu-2:8000"
    assert document["replicas"][1]["arguments"] == []
    assert document["replicas"][0]["arguments"][1:5] == ["-m", "/models/none.gguf", "--alias", "alpha"]
    assert document["devices"] == [{"name": "CPU #0.0", "bytes": 150 * MIB}]


def test_a_router_is_shown_its_models_as_sections(run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_document({"alpha": 100 * MIB}, 150 * MIB)))
    text = run("serve", str(plan), "--dry-run", "--llama-router").out
    assert "    [alpha-1-" in text
    assert "; m = /models/none.gguf; " in text
    (replica,) = run("serve", str(plan), "--dry-run", "--json", "--llama-router").document["replicas"]
    assert "c = 2048" in replica["arguments"]


def test_a_plans_own_command_is_never_run(run: Run, tmp_path: Path) -> None:
    document = plan_document({"alpha": 100 * MIB}, 150 * MIB)
    document["replicas"][0] |= {
        "command": "rm -rf /",
        "arguments": ["rm", "-rf", "/"],
        "environment": {"LD_PRELOAD": "x"},
    }
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(document))
    told = run("serve", str(plan), "--dry-run", "--json").document
    assert "rm" not in told["replicas"][0]["arguments"]


def test_it_costs_other_commands_nothing(run: Run) -> None:
    import subprocess
    import sys

    code = (
        "import sys, cotenant.cli.root; print([m for m in sys.modules if m.startswith(('aiohttp', 'prometheus'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _folded(name: str, **more: object) -> dict[str, object]:
    lengths = {"input_tokens": {"p50": 500, "p95": 1000}, "output_tokens": {"p50": 100, "p95": 200}}
    traffic = {"requests_per_second": 0.1, **lengths}
    return {
        "name": name, "model": "mistralai/Mistral-7B-Instruct-v0.3", "quantization": ["bf16"], "traffic": traffic,
    } | more  # fmt: skip


def test_a_folded_model_keeps_its_priority_and_its_slo(run: Run, tmp_path: Path) -> None:
    from cotenant import plan as make_plan
    from cotenant.api.carrying_out import plan_and_requests
    from cotenant.report.document import plan_document as written
    from cotenant.serving.from_plan import fleet_of

    adapters = [{"name": "law", "rank": 16, "source": "./law"}]
    models = [_folded("plain"), _folded("legal", priority=7, slo={"ttft": "3s"}, adapters=adapters)]
    fleet = {"gpus": [{"type": "L4", "price": "$0.4/h"}], "models": models}
    told = json.loads(json.dumps(written(make_plan(fleet), catalogue="")))
    plan, question = tmp_path / "plan.json", tmp_path / "fleet.json"
    question.write_text(json.dumps(fleet))
    whole, bare = json.dumps(told), json.dumps({key: one for key, one in told.items() if key != "fleet"})
    for text, more in ((whole, ()), (bare, ("--fleet", str(question))), (whole, ("--fleet", str(question)))):
        plan.write_text(text)
        assert run("serve", str(plan), "--dry-run", "--json", *more).document["models"] == [
            {"name": "plain", "priority": 7}
        ]
        found, requests, unknown = plan_and_requests(str(plan), more[1] if more else None, lambda _: None)
        assert unknown == ""
        assert [one.limit_ns for one in fleet_of(found, requests).models] == [3 * 10**9]
    assert run("verify", str(plan), "--dry-run", "--quick", "--fleet", str(question)).status == 0
    strange = json.dumps(fleet | {"models": [_folded("legal", adapters=adapters)]})
    question.write_text(strange)
    refused = run("serve", str(plan), "--dry-run", "--fleet", str(question))
    assert refused.status == 1
    assert "the plan runs 'plain', which the fleet does not ask for" in refused.err
    plan.write_text(bare)
    assert run("serve", str(plan), "--dry-run", "--json").document["models"] == [{"name": "plain", "priority": 0}]


def test_a_plans_fleet_that_cannot_be_opened_is_said(run: Run, tmp_path: Path) -> None:
    document = plan_document({"alpha": 100 * MIB}, 150 * MIB)
    document["fleet"] = {"gpus": [{"type": "L4"}], "models": [_folded("alpha") | {"model": "/nowhere/at-all"}]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(document))
    told = run("serve", str(plan), "--dry-run")
    assert told.status == 0
    assert "no priorities, SLOs and hours are known" in told.err
    assert "--fleet FILE" in told.err
