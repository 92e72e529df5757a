"""`cotenant serve` on real llama-servers: real words from two models under a budget for one.

Not part of the quick tests: COTENANT_LIVE=1 python -m pytest tests/live. It installs what the example installs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not os.environ.get("COTENANT_LIVE"), reason="COTENANT_LIVE=1 runs the real engine")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "two-models-one-box" / "run.py"


def test_the_example_answers_from_both_models_and_leaves_nothing_running(tmp_path):
    home = os.environ.get("COTENANT_BOX", str(tmp_path))  # a folder where it was installed before
    argv = [sys.executable, str(EXAMPLE), "--home", home, "--port", "18281"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    assert "Rome" in done.stdout
    log = (Path(home) / "gateway.log").read_text()
    assert log.count('"engine_ready"') >= 2
    assert "engine_takes_more_than_planned" not in log
    assert '"stopped"' in log.splitlines()[-1]
    assert not subprocess.run(["pgrep", "-f", f"{home}/plan.json"], capture_output=True, check=False).stdout
