"""The edge of a plan on a processor, under a limit that the kernel keeps: a memory cgroup around a real server.

Not part of the quick tests: COTENANT_LIVE=1 python -m pytest tests/live. It needs root, or a delegated cgroup.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.live_cage import cage
from bench.live_edge import find
from bench.table import CannotRunError
from cotenant.edge.engines import llama_wheel
from cotenant.units import MIB

pytestmark = pytest.mark.skipif(not os.environ.get("COTENANT_LIVE"), reason="COTENANT_LIVE=1 runs the real engine")
BOX = Path(__file__).resolve().parents[2] / "examples" / "two-models-one-box"


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """(the wheel's server as a program, the plan): the example's own, or where it was installed before."""
    home = Path(os.environ.get("COTENANT_BOX") or tmp_path_factory.mktemp("box"))
    if not (home / "plan.json").exists():
        argv = [sys.executable, str(BOX / "run.py"), "--home", str(home), "--port", "18292"]
        subprocess.run(argv, capture_output=True, timeout=1800, check=True)
    return (str(home / "venv" / "bin" / "python"), "-P", llama_wheel.__file__), home / "plan.json"


@pytest.fixture
def limited():
    try:
        with cage() as here:
            yield here
    except CannotRunError as error:
        pytest.skip(str(error))


def verify(plan: Path, tmp_path: Path) -> tuple[int, dict]:
    """`cotenant verify` of the smaller model alone, its server the one that stands first on PATH."""
    given = json.loads(plan.read_text())
    given["replicas"] = [one for one in given["replicas"] if one["id"] == "smollm"]
    given["gpus"][0]["replicas"] = [one for one in given["gpus"][0]["replicas"] if one["id"] == "smollm"]
    alone = tmp_path / "plan.json"
    alone.write_text(json.dumps(given))
    argv = [sys.executable, "-m", "cotenant", "verify", str(alone), "--json", "--quick", "--max-tokens", "128"]
    argv += ["--state", str(tmp_path / "state"), "--no-calibration", "--fresh"]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=600, env=os.environ | {"PATH": path}, check=False
    )
    return done.returncode, json.loads(done.stdout)


def test_the_longest_context_of_a_budget_is_the_planned_one(box):
    program, plan = box
    models = {one["id"]: one["checkpoint"] for one in json.loads(plan.read_text())["replicas"]}
    try:
        edge = find(program, Path(models["smollm"]), 300 * MIB)
    except CannotRunError as error:
        pytest.skip(str(error))
    assert edge.low < edge.planned < edge.high
    assert edge.holds, edge
    assert edge.kills > 0  # beyond it the kernel does what a card's driver would
    assert edge.found == pytest.approx(edge.planned, rel=0.1)


def test_within_the_planned_bytes_all_is_answered_and_below_them_the_kernel_ends_it(box, limited, tmp_path):
    program, plan = box
    limited.door(tmp_path, program, "-lm", "none").rename(tmp_path / "llama-server")
    share = next(one for one in json.loads(plan.read_text())["gpus"][0]["replicas"] if one["id"] == "smollm")
    limited.limit(share["bytes"])
    code, found = verify(plan, tmp_path)
    assert code in (0, 3), found
    assert all(point["errors"] == 0 for one in found["replicas"] for point in one["points"])
    assert limited.kills() == 0
    limited.limit((share["weights_bytes"] + share["kv_cache_bytes"]) * 3 // 4)
    code, found = verify(plan, tmp_path)
    assert code == 1
    assert "smollm was killed" in found["errors"][0]["error"]
    assert limited.kills() > 0
