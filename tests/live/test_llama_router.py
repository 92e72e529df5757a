"""`cotenant serve --llama-router`: a real llama-server in router mode runs two real models as the plan wants it.

Not part of the quick tests. The wheel's server has no such mode, so it needs the program itself, and two models:

    COTENANT_LIVE=1 COTENANT_LLAMA_SERVER=llama-server COTENANT_GGUF=one.gguf:two.gguf python -m pytest tests/live
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from bench.live_case import MIB, Gateway, plan_document
from cotenant.edge.engines import processes

SERVER, MODELS = os.environ.get("COTENANT_LLAMA_SERVER", ""), os.environ.get("COTENANT_GGUF", "").split(":")
pytestmark = pytest.mark.skipif(
    not os.environ.get("COTENANT_LIVE") or not SERVER or len(MODELS) != 2,
    reason="COTENANT_LIVE=1, COTENANT_LLAMA_SERVER and COTENANT_GGUF run the real router",
)


@pytest.fixture
def own(tmp_path):
    started = []

    def start(capacity: int, **more: object) -> Gateway:
        document = plan_document({"alpha": 450 * MIB, "beta": 450 * MIB}, capacity * MIB, engine="llama.cpp@11434")
        for replica, model in zip(document["replicas"], MODELS, strict=True):
            replica |= {"checkpoint": str(Path(model).resolve()), "n_ctx": 1024, **more}
        flags = ("--residency", "0s", "--llama-router", "--engine-binary", f"llama.cpp={SERVER}")
        started.append(Gateway(tmp_path, document, *flags))
        return started[-1]

    yield start
    for one in started:
        one.stop(30)


def said(one: Gateway, model: str, **more: object) -> str:
    asked = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}
    status, _, found = one.ask("/v1/chat/completions", asked | more, timeout=180)
    assert status == 200, (found, one.logged(), (one.folder / "state" / "logs" / "llama-router.log").read_text())
    return found["choices"][0]["message"]["content"]


def pids(one: Gateway) -> dict[str, int]:
    return dict(one.entries())


def test_two_models_take_turns_in_one_router(own):
    one = own(500)
    first = said(one, "alpha")
    router = pids(one)["llama-server router"]
    assert processes.descendants(router) == (pids(one)["alpha-1"],)
    (key,) = {row["key"] for row in json.loads((one.folder / "state" / "engines.json").read_text())}
    for pid in pids(one).values():
        assert key not in Path(f"/proc/{pid}/cmdline").read_text()
    assert said(one, "beta") != first
    assert set(pids(one)) == {"llama-server router", "beta-1"}  # alpha made room
    assert processes.descendants(router) == (pids(one)["beta-1"],)
    assert said(one, "alpha") == first
    assert pids(one)["llama-server router"] == router
    logged = one.logged()
    assert logged.count('"router_started"') == 1
    assert logged.count('"engine_started"') == 3
    assert "engine_version_differs" not in logged
    assert one.stop(30) == 0
    assert processes.start_of(router) is None


def test_what_dies_is_started_again_and_what_lives_is_taken_over(own):
    one = own(1000)
    for model in ("alpha", "beta"):
        one.wait_for(model, "ready", 60)
    before = pids(one)
    os.kill(before["beta-1"], signal.SIGKILL)
    said(one, "beta")
    assert pids(one)["beta-1"] != before["beta-1"]
    assert pids(one)["alpha-1"] == before["alpha-1"]
    before = pids(one)
    one.process.kill()
    one.process.wait()
    one.process.stdout.close()
    one.start()
    assert [one.state(model) for model in ("alpha", "beta")] == ["ready", "ready"]
    assert pids(one) == before
    said(one, "alpha")
    os.kill(before["llama-server router"], signal.SIGKILL)  # and its models with it
    said(one, "alpha")
    end = time.monotonic() + 30
    while pids(one).get("llama-server router") in (None, before["llama-server router"]) and time.monotonic() < end:
        time.sleep(0.2)
    said(one, "beta")
    assert not set(pids(one).values()) & set(before.values())
    assert all(processes.start_of(pid) is None for pid in before.values())


def test_a_new_plan_is_read_by_the_router_that_runs(own):
    one = own(2000)
    one.wait_for("alpha", "ready", 60)
    router = pids(one)["llama-server router"]
    document = dict(one.document)
    document["replicas"][0]["n_ctx"] = 512
    (one.folder / "plan.json").write_text(json.dumps(document))
    before = pids(one)["alpha-1"]
    one.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 30
    while pids(one).get("alpha-1") in (None, before) and time.monotonic() < end:
        time.sleep(0.1)
    said(one, "alpha")
    assert pids(one)["llama-server router"] == router
    assert pids(one)["alpha-1"] != before
