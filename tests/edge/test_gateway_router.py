"""The gateway with llama.cpp's models in one llama-server in router mode: a stub; tests/live has the real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cotenant.edge.engines import processes

pytest.importorskip("aiohttp")

from bench.live_case import MIB, Gateway, plan_document

ROUTER = "llama-server router"
STUB = Path(__file__).with_name("stub_router.py")


@pytest.fixture
def routed(own, tmp_path):
    def start(capacity: int) -> Gateway:
        program = tmp_path / "llama-server"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{STUB}" "$@"\n')
        program.chmod(0o755)
        document = plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, capacity * MIB)
        return own("--llama-router", "--engine-binary", f"llama.cpp={program}", document=document)

    return start


def pids(one: Gateway) -> dict[str, int]:
    return dict(one.entries())


def killed(one: Gateway) -> None:
    one.process.kill()
    one.process.wait()
    one.process.stdout.close()


def test_models_take_turns_in_one_router_and_leave_with_it(routed):
    one = routed(150)
    for model in ("alpha", "beta", "alpha"):
        status, _, found = one.chat(model, max_tokens=2)
        assert (status, found["choices"][0]["message"]["content"]) == (200, "w0 w1 ")
        assert one.status()["devices"][0]["held_bytes"] == 100 * MIB
        assert set(pids(one)) == {ROUTER, f"{model}-1"}
        assert processes.descendants(pids(one)[ROUTER]) == (pids(one)[f"{model}-1"],)
    assert one.stream("alpha", max_tokens=2).read().rstrip().endswith(b"[DONE]")
    logged = one.logged()
    assert logged.count('"router_started"') == 1
    assert logged.count('"engine_started"') == 3
    (key,) = {row["key"] for row in json.loads((one.folder / "state" / "engines.json").read_text())}
    assert key not in Path(f"/proc/{pids(one)[ROUTER]}/cmdline").read_text()
    assert key not in (one.folder / "state" / "router.ini").read_text()
    left = pids(one)
    assert one.stop() == 0
    assert [processes.start_of(pid) for pid in left.values()] == [None, None]


def test_a_model_that_dies_is_loaded_again(routed):
    one = routed(300)
    one.wait_for("alpha", "ready")
    one.wait_for("beta", "ready")
    before = pids(one)
    os.kill(before["beta-1"], signal.SIGKILL)
    assert one.chat("beta")[0] == 200
    assert pids(one)["beta-1"] != before["beta-1"]
    assert pids(one)["alpha-1"] == before["alpha-1"]


def test_a_router_and_its_models_are_taken_over(routed):
    one = routed(300)
    one.wait_for("alpha", "ready")
    one.wait_for("beta", "ready")
    before = pids(one)
    killed(one)
    one.start()
    assert [one.state(model) for model in ("alpha", "beta")] == ["ready", "ready"]
    assert pids(one) == before
    assert one.chat("alpha")[0] == 200
    logged = one.logged()
    assert (logged.count('"router_adopted"'), logged.count('"engine_adopted"')) == (1, 2)
    assert '"orphan_stopped"' not in logged
    document = json.loads((one.folder / "plan.json").read_text())
    document["replicas"][0]["n_ctx"] = 1024  # another alpha: beta stays, in the same router
    (one.folder / "plan.json").write_text(json.dumps(document))
    one.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 15
    while pids(one).get("alpha-1") in (None, before["alpha-1"]) and time.monotonic() < end:
        time.sleep(0.05)
    one.wait_for("alpha", "ready")
    assert one.chat("alpha")[0] == 200
    assert {name: pids(one)[name] for name in (ROUTER, "beta-1")} == {n: before[n] for n in (ROUTER, "beta-1")}
    killed(one)
    os.kill(before[ROUTER], signal.SIGKILL)
    one.start()  # without its router a model is an orphan
    one.wait_for("alpha", "ready")
    assert one.chat("beta")[0] == 200
    assert not set(before.values()) & set(pids(one).values())


def test_a_router_that_was_begun_with_other_cards_is_not_taken_over(routed):
    one = routed(300)
    one.wait_for("alpha", "ready")
    before = pids(one)
    killed(one)
    journal = one.folder / "state" / "engines.json"
    rows = json.loads(journal.read_text())
    for row in rows:
        if row["replica"] == ROUTER:  # as one that an earlier version began: the same command, no order of cards
            os.kill(before[ROUTER], signal.SIGKILL)
            end = time.monotonic() + 10
            while processes.start_of(before[ROUTER]) is not None and time.monotonic() < end:
                time.sleep(0.05)
            environment = {"PATH": os.environ["PATH"], "LLAMA_API_KEY": row["key"]}
            old = subprocess.Popen(row["process"]["argv"], env=environment, start_new_session=True)
            row["process"] |= {"pid": old.pid, "started": processes.start_of(old.pid)}
    journal.write_text(json.dumps(rows))
    try:
        one.start()
        one.wait_for("alpha", "ready")
        assert '"router_adopted"' not in one.logged()
        assert old.wait(10) is not None
    finally:
        old.kill()
        old.wait()
