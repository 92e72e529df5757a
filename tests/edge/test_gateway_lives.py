"""Engines that die, gateways that end or are killed, and plans that change, with requests under way."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from cotenant.edge.engines import processes

pytest.importorskip("aiohttp")

from bench.live_case import MIB, Gateway, plan_document
from cotenant.edge.gateway.log import Log
from cotenant.edge.gateway.run import Options, Reload
from cotenant.errors import InputError


def test_a_killed_engine_is_started_again_and_nothing_is_lost(own):
    one = own()
    one.wait_for("alpha", "ready")
    one.stub("alpha", fail="hang", times=1)
    found = []
    asking = threading.Thread(target=lambda: found.append(one.chat("alpha")))
    asking.start()
    time.sleep(0.4)
    os.kill(one.engines()[0], signal.SIGKILL)
    asking.join(20)
    assert found[0][0] == 200
    assert "signal 9" in one.logged()


def test_sigterm_lets_a_stream_end_and_leaves_no_engine(own):
    one = own()
    one.wait_for("alpha", "ready")
    one.stub("alpha", token_s=0.1)
    answer = one.stream("alpha", max_tokens=12)
    answer.readline()
    (pid,) = one.engines()
    one.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert one.chat("beta")[0] == 503
    assert one.ask("/health")[0] == 503
    assert answer.read().rstrip().endswith(b"[DONE]")
    assert one.process.wait(10) == 0
    assert not os.path.exists(f"/proc/{pid}")


def test_who_is_not_answered_by_the_end_of_a_drain_is_told_when_to_come_again(own):
    one = own("--drain", "500ms")
    one.wait_for("alpha", "ready")
    one.stub("alpha", fail="hang", times=1)
    found = []
    asking = threading.Thread(target=lambda: found.append(one.chat("alpha")))
    asking.start()
    time.sleep(0.3)
    one.process.send_signal(signal.SIGTERM)
    asking.join(20)
    status, headers, answer = found[0]
    assert (status, headers["retry-after"], answer["error"]["code"]) == (503, "5", "shutting_down")
    assert one.process.wait(10) == 0


def test_a_gateway_that_was_killed_adopts_its_engines_and_stops_its_orphans(own):
    models = {"alpha": 100 * MIB, "beta": 100 * MIB}
    one = own(document=plan_document(models, 300 * MIB))
    for model in models:
        one.wait_for(model, "ready")
    before = sorted(one.engines())
    stranger = subprocess.Popen(["sleep", "60"])
    one.process.kill()
    one.process.wait()
    one.process.stdout.close()
    rows = json.loads((one.folder / "state" / "engines.json").read_text())
    (beta,) = (row for row in rows if row["replica"] == "beta-1")
    forged = beta | {"replica": "gone", "process": beta["process"] | {"pid": stranger.pid}}
    (one.folder / "state" / "engines.json").write_text(json.dumps([*rows, forged]))
    document = dict(one.document, replicas=[dict(row) for row in one.document["replicas"]])
    document["replicas"][1]["n_ctx"] = 4096  # the plan wants another beta now
    (one.folder / "plan.json").write_text(json.dumps(document))
    one.start()
    one.wait_for("beta", "ready")
    logged = one.logged()
    assert logged.count('"engine_adopted"') == 1
    assert logged.count('"orphan_stopped"') == 1
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    after = sorted(one.engines())
    assert len(set(before) & set(after)) == 1
    assert one.chat("alpha")[0] == 200


def test_an_engine_that_loads_is_taken_over_and_waited_for(own):
    one = own(stub=("--load-s", "2"))
    one.wait_for("alpha", "starting")
    while not (before := one.engines()):
        time.sleep(0.02)
    one.process.kill()
    one.process.wait()
    one.process.stdout.close()
    one.start()
    assert one.state("alpha") == "starting"
    assert one.status()["devices"][0]["held_bytes"] == 100 * MIB
    assert one.chat("alpha")[0] == 200
    assert one.engines() == before
    logged = one.logged()
    assert (
        logged.count('"engine_started"') == logged.count('"engine_adopted"') == logged.count('"engine_ready"') == 1
    )
    assert '"stage": "loading"' in logged
    assert '"orphan_stopped"' not in logged


def replanned(one: Gateway, **changes: dict) -> None:
    """Change replicas of its plan (None: leave one out), and say SIGHUP."""
    document = json.loads(json.dumps(one.document))
    for row in document["replicas"]:
        row |= changes.get(row["model"]) or {}
    for place in (document, *document["gpus"]):
        place["replicas"] = [
            row for row in place["replicas"] if changes.get(row["id"].removesuffix("-1"), {}) is not None
        ]
    one.document = document
    (one.folder / "plan.json").write_text(json.dumps(document))
    seen = one.logged().count('"reloaded"')
    one.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 15
    while one.logged().count('"reloaded"') == seen and time.monotonic() < end:
        time.sleep(0.05)


def settled(one: Gateway, wait_s: float = 20) -> list[str]:
    """The states of its replicas, once none retires or loads."""
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        rows = one.status()["replicas"]
        if all(row["state"] == "ready" and not row["retires"] for row in rows):
            return [row["id"] for row in rows]
        time.sleep(0.05)
    raise AssertionError(one.logged())


def test_a_reload_keeps_engines_that_stay_the_same(own):
    models = {"alpha": 100 * MIB, "beta": 100 * MIB}
    one = own(document=plan_document(models, 300 * MIB))
    for model in models:
        one.wait_for(model, "ready")
    before = set(one.engines())
    (one.folder / "plan.json").write_text("{}")
    one.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 15
    while '"reload_refused"' not in one.logged() and time.monotonic() < end:
        time.sleep(0.05)
    assert one.chat("beta")[0] == 200
    one.stub("beta", token_s=0.05)
    stream = one.stream("beta", max_tokens=20)
    stream.readline()
    replanned(one, beta=None)
    assert one.chat("beta")[0] == 404
    assert stream.read().rstrip().endswith(b"[DONE]")  # what has begun goes on
    assert settled(one) == ["alpha-1"]
    assert [model["id"] for model in one.ask("/v1/models")[2]["data"]] == ["alpha"]
    (after,) = one.engines()
    assert after in before
    assert '"stay": ["alpha-1"], "start": [], "retire": ["beta-1"]' in one.logged()


def test_a_reload_that_is_asked_for_while_another_one_reads_is_not_forgotten():
    reads, going, told = [], threading.Event(), io.StringIO()

    def again():
        reads.append(time.monotonic())
        going.wait(10)
        raise InputError("no plan")

    async def scene():
        core = SimpleNamespace(log=Log(told))
        reload = Reload(core, None, None, Options(again=again))
        reload.begin()
        while not reads:
            await asyncio.sleep(0.01)
        for _ in range(3):
            reload.begin()
        going.set()
        async with asyncio.timeout(10):
            while told.getvalue().count("reload_refused") < 2:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)

    asyncio.run(scene())
    assert len(reads) == 2


@pytest.mark.parametrize("beside", [True, False])
def test_a_reload_under_load_loses_nobody(own, beside):
    """Where there is room the new engine is warm before the old one stops; else the old one stops first."""
    models = {"alpha": 100 * MIB, "beta": 100 * MIB}
    one = own(document=plan_document(models, (320 if beside else 220) * MIB))
    for model in models:
        one.wait_for(model, "ready")
    before, answers, over = set(one.engines()), [], threading.Event()

    def ask(model: str) -> None:
        while not over.is_set():
            answers.append((model, one.chat(model, max_tokens=2)[0]))

    clients = [threading.Thread(target=ask, args=(model,)) for model in ("alpha", "alpha", "beta")]
    for client in clients:
        client.start()
    held = []
    replanned(one, alpha={"n_ctx": 1024})
    for _ in range(10):
        held.append(one.status()["devices"][0]["held_bytes"])
        time.sleep(0.05)
    assert settled(one) == ["beta-1", "alpha-1"]
    over.set()
    for client in clients:
        client.join(20)
    assert {status for _, status in answers} == {200}
    assert max(held) <= (320 if beside else 220) * MIB
    assert len(set(one.engines()) & before) == 1  # beta's
    lines = [json.loads(line) for line in one.logged().splitlines()]
    events = [line["event"] for line in lines if line.get("replica") == "alpha-1"]
    order = ["engine_started", "engine_ready", "engine_stops", "engine_gone"] if beside else [
        "engine_stops", "engine_gone", "engine_started", "engine_ready",
    ]  # fmt: skip
    assert events == ["engine_started", "engine_ready", *order]
    replanned(one, alpha={"n_ctx": 2048})  # and back again
    settled(one)
    assert one.chat("alpha")[0] == one.chat("beta")[0] == 200


def test_a_gateway_that_is_killed_between_two_plans_keeps_the_new_engine_only(own):
    one = own(document=plan_document({"alpha": 100 * MIB}, 300 * MIB))
    one.wait_for("alpha", "ready")
    (old,) = one.engines()
    one.stub("alpha", token_s=0.2)
    stream = one.stream("alpha", max_tokens=100)
    stream.readline()  # the old engine cannot go yet
    replanned(one, alpha={"n_ctx": 1024})
    end = time.monotonic() + 15
    while one.logged().count('"engine_ready"') < 2 and time.monotonic() < end:
        time.sleep(0.05)
    both = set(one.engines())
    assert old in both
    assert len(both) == 2
    one.process.kill()
    one.process.wait()
    one.process.stdout.close()
    one.start()
    one.wait_for("alpha", "ready")
    assert set(one.engines()) == both - {old}
    assert one.logged().count('"engine_adopted"') == one.logged().count('"orphan_stopped"') == 1
    assert processes.start_of(old) is None
    assert one.chat("alpha")[0] == 200
