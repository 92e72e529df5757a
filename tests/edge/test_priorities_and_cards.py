"""Priorities that vLLM follows, and what the driver says of the cards."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from cotenant.domain.engine import EngineSettings
from cotenant.domain.running import Launch
from cotenant.edge.engines import find_driver, processes, programs
from cotenant.edge.gateway.cards import held_by, held_by_each
from cotenant.edge.gateway.watch import Watch
from cotenant.serving.ledger import Ledger
from tests.edge.stub_nvml import NVML

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
    assert held_by(told, frozenset({10, 12})) is None
    # not nothing: in a container with pids of its own none of ours is listed, and their bytes are nobody else's
    assert held_by(told, frozenset({99})) is None


def test_one_that_is_up_and_not_listed_counts_with_its_place_one_that_loads_with_nothing():
    ours = {0: frozenset({99}), 1: frozenset({98}), 2: frozenset({10})}
    assert held_by_each({10: 5}, ours, {1}) == {0: None, 1: 0, 2: 5}
    ledger = Ledger([100])
    for replica, size in ((0, 40), (1, 30), (2, 5)):
        ledger.hold(replica, (0,), size)
    assert ledger.beyond(0, 100 - 40 - 5, held_by_each({10: 5}, ours, {1})) == 0
    assert ledger.beyond(0, 100 - 40 - 5 - 20, held_by_each({10: 5, 77: 20}, ours, {1})) == 20


def test_one_that_loads_in_a_container_holds_nobody_elses_memory():
    """The driver lists numbers of another namespace: 700 may be the one that loads, or anybody."""
    ledger = Ledger([100])
    ledger.hold(0, (0,), 60)
    ours = held_by_each({700: 45}, {0: frozenset({12})}, {0})
    assert ours == {0: None}
    assert ledger.beyond(0, 100 - 45, ours, moving={0}) == 0
    assert ledger.beyond(0, 100 - 75, ours, moving={0}) == 15


def test_a_routers_own_memory_is_of_the_device_of_its_models_on_the_processor(monkeypatch):
    """Replica 0 runs elsewhere, 1 on card 0, 2 on the processor, which is device 1 of the ledger."""
    hosts, cards = [(), (0,), (1,)], [(), (0,), ()]
    replicas = [SimpleNamespace(host=SimpleNamespace(devices=one)) for one in hosts]
    engines = [SimpleNamespace(launch=SimpleNamespace(devices=one)) for one in cards]
    core = SimpleNamespace(router=SimpleNamespace(floor=SimpleNamespace(replicas=replicas)))
    hands = SimpleNamespace(core=core, engines=engines, router=SimpleNamespace(process=object()))
    monkeypatch.setattr(processes, "own_memory", lambda _: SimpleNamespace(resident_bytes=500))
    assert asyncio.run(Watch(hands)._router_memory({})) == {1: 500}


def test_the_real_binding_tells_what_is_free_and_who_holds_what(tmp_path):
    pytest.importorskip("pynvml")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "nvml.c").write_text(NVML)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    script = "from cotenant.edge.gateway.cards import driver, read; print(read(driver()[0], (0,)))"
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    free = 85899345920 - 12884901888
    assert done.stdout.strip() == str({0: (free, {4242: 8589934592, 7: 1048576})})
