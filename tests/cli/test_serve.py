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
