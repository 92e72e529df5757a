"""Priorities that vLLM follows, and what the driver says of the cards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from cotenant.domain.engine import EngineSettings
from cotenant.domain.running import Launch
from cotenant.edge.engines import find_driver, programs
from cotenant.edge.gateway.cards import held_by
from tests.edge.test_verify import NVML

pytest.importorskip("aiohttp")


def launch_of(version: str, **more) -> Launch:
    return Launch("r", "chat", "vllm", version, "org/model", EngineSettings(), 8101, devices=(0,), **more)


@pytest.mark.parametrize(
    ("version", "priorities", "follows"), [("0.21", True, True), ("0.21", False, False), ("0.8.5", True, False)]
)
def test_vllm_follows_priorities_where_they_are_given_and_it_can(monkeypatch, version, priorities, follows):
    monkeypatch.setattr(programs, "_told", {"vllm": "/opt/vllm"})
    driver, launch = find_driver("vllm"), launch_of(version, priorities=priorities)
    words = " ".join(driver.command(launch).argv)
    assert ("--scheduling-policy priority" in words) is follows
    assert driver.follows_priorities(launch) is follows


def test_what_processes_hold_together():
    told = {10: 5, 11: 7, 12: None}
    assert held_by(told, frozenset({10, 11, 99})) == 12
    assert held_by(told, frozenset({99})) == 0
    assert held_by(told, frozenset({10, 12})) is None


def test_the_real_binding_tells_what_is_free_and_who_holds_what(tmp_path):
    pytest.importorskip("pynvml")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "nvml.c").write_text(NVML)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    script = "from cotenant.edge.gateway.cards import driver, read; print(read(driver(), (0,)))"
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    free = 85899345920 - 12884901888
    assert done.stdout.strip() == str({0: (free, {4242: 8589934592, 7: 1048576})})
