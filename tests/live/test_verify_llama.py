"""`cotenant verify` on real llama-servers with two real models: figures in their intervals, nothing left running.

Not part of the quick tests: COTENANT_LIVE=1 python -m pytest tests/live. It installs what the example installs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not os.environ.get("COTENANT_LIVE"), reason="COTENANT_LIVE=1 runs the real engine")
BOX = Path(__file__).resolve().parents[2] / "examples" / "two-models-one-box"


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """(interpreter with engine and models, the plan): the example's own, or where it was installed before."""
    home = Path(os.environ.get("COTENANT_BOX") or tmp_path_factory.mktemp("box"))
    argv = [sys.executable, str(BOX / "run.py"), "--home", str(home), "--port", "18291"]
    subprocess.run(argv, capture_output=True, timeout=1800, check=True)
    return home / "venv" / "bin" / "python", home / "plan.json"


def verify(box, tmp_path, *words):
    python, plan = box
    argv = [
        str(python),
        "-m",
        "cotenant",
        "verify",
        str(plan),
        "--json",
        "--state",
        str(tmp_path / "state"),
        *words,
    ]
    environment = os.environ | {"XDG_DATA_HOME": str(tmp_path / "data")}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1200, env=environment, check=False)
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


def test_memory_is_as_predicted_and_is_learnt(box, tmp_path):
    found = verify(box, tmp_path, "--max-tokens", "128")
    for replica in found["replicas"]:
        terms = replica["terms"]
        for name, within in (("weights", 0.01), ("kv_cache", 0.01)):
            assert terms[name]["measured_bytes"] == pytest.approx(terms[name]["predicted_bytes"], rel=within)
        assert terms["total"]["measured_bytes"] < terms["total"]["interval"][1]
        assert all(point["errors"] == 0 for point in replica["points"])
    checks = {(line["replica"], line["check"]): line["verdict"] for line in found["findings"]}
    assert {checks[one["id"], "weights loaded once"] for one in found["replicas"]} == {"holds"}
    assert {checks[one["id"], "KV grows as predicted"] for one in found["replicas"]} == {"holds"}
    assert len(found["calibrations"]) == 2
    kept = list((tmp_path / "data" / "cotenant" / "calibrations").glob("*.json"))
    assert len(kept) == 2
    assert not subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, check=False).stdout
