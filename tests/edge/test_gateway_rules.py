"""Rules of the gateway with their right values: queues, refusals, fairness, foresight, versions, keys, cards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

pytest.importorskip("aiohttp")

from bench.live_case import MIB, STUB, Gateway, free_port, plan_document
from cotenant.edge.engines.calls import call
from cotenant.edge.gateway.foresight import check_clocks, expected
from cotenant.errors import EngineError, InputError
from cotenant.policy.turns import is_expected
from cotenant.serving.from_plan import Hours
from tests.edge.stub_nvml import NVML

ALICE, BOB = "alice-secret-key", "bob-secret-key"


@pytest.fixture
def own(tmp_path):
    started = []

    def start(*flags, document=None):
        found = document or plan_document({"alpha": 100 * MIB}, 300 * MIB, slots=1)
        started.append(Gateway(tmp_path, found, *flags))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def keys_file(tmp_path, name: str, text: str) -> str:
    place = tmp_path / name
    place.write_text(text)
    place.chmod(0o600)
    return str(place)


def requests_of(one: Gateway) -> list[dict]:
    lines = [json.loads(line) for line in one.logged().splitlines()]
    return [line for line in lines if line["event"] == "request"]


def test_clients_take_turns_and_a_full_queue_is_said(own, tmp_path):
    """One slot: Alice asks four times, then Bob once. He is second, not fifth; a sixth finds the queue full."""
    keys = keys_file(tmp_path, "keys", f"alice {ALICE}\nbob {BOB}\n")
    one = own("--api-keys", keys, "--max-waiting", "4")
    headers = {"Authorization": f"Bearer {ALICE}"}
    while one.status(headers)["replicas"][0]["state"] != "ready":
        time.sleep(0.05)
    one.stub("alpha", token_s=0.5)
    clients = []
    for count, key in enumerate((ALICE, ALICE, ALICE, ALICE, BOB), 1):
        told = {"headers": {"Authorization": f"Bearer {key}"}, "max_tokens": 1 + (count == 1) * 3}
        clients.append(threading.Thread(target=one.chat, args=("alpha",), kwargs=told))
        clients[-1].start()
        while f'cotenant_waiting{{model="alpha"}} {count - 1}.0' not in one.ask("/metrics", headers=headers)[2]:
            time.sleep(0.02)
    status, told, found = one.chat("alpha", headers={"Authorization": f"Bearer {BOB}"})
    assert (status, found["error"]["code"], found["error"]["type"]) == (429, "queue_full", "rate_limit_error")
    assert int(told["retry-after"]) >= 1
    for client in clients:
        client.join(20)
    served = [row for row in requests_of(one) if row["status"] == 200]
    assert [row["client"] for row in served] == ["alice", "bob", "alice", "alice", "alice"]
    (refused,) = (row for row in requests_of(one) if row["status"] == 429)
    told = {"time", "event", "id", "model", "client", "path", "status", "came", "queue_s", "total_s"}
    assert set(refused) == told
    text = one.ask("/metrics", headers=headers)[2]
    assert 'cotenant_requests_total{model="alpha",status="200"} 5.0' in text
    assert 'cotenant_requests_total{model="alpha",status="429"} 1.0' in text
    assert 'cotenant_request_seconds_count{model="alpha"} 6.0' in text


@pytest.mark.parametrize(("build", "said"), [("b11549-abc", False), ("b7000-abc", True), ("", False)])
def test_another_version_than_planned_is_said(own, tmp_path, build, said):
    program = tmp_path / "llama-server"
    flag = f" --build {build}" if build else ""
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STUB}"{flag} "$@"\n')
    program.chmod(0o755)
    one = own("--engine-binary", f"llama.cpp={program}")
    one.wait_for("alpha", "ready")
    assert one.chat("alpha")[0] == 200
    assert ('"engine_version_differs"' in one.logged()) is said
    assert ('"planned": "11549", "runs": "7000"' in one.logged()) is said


def test_an_engine_elsewhere_may_ask_for_a_key(own, tmp_path):
    port = free_port()
    engine = subprocess.Popen(
        [sys.executable, str(STUB), "--port", str(port)], env=os.environ | {"VLLM_API_KEY": ALICE}
    )
    try:
        for _ in range(200):
            try:
                call(f"http://127.0.0.1:{port}", "/health")
                break
            except EngineError:
                time.sleep(0.05)
        keys = keys_file(tmp_path, "theirs", f"alpha {ALICE}\n")
        one = own("--url", f"alpha=http://127.0.0.1:{port}/v1", "--engine-keys", keys)
        assert one.chat("alpha")[0] == 200
        assert ALICE not in one.logged() + " ".join(one.argv) + json.dumps(one.told)
        one.stop()
        other = own("--url", f"alpha=http://127.0.0.1:{port}")
        status, _, found = other.chat("alpha")
        assert (status, found["error"]["code"]) == (502, "engine_failed")
    finally:
        engine.kill()
        engine.wait()


def test_a_model_is_woken_before_the_hour_of_its_traffic():
    day = tuple(10.0 if 9 <= hour < 17 else 1.0 for hour in range(24))
    assert [hour for hour in range(24) if is_expected(day, hour)] == list(range(9, 17))
    hours = [Hours("office", day, "Europe/Berlin"), Hours("always", (1.0,) * 24, "UTC")]
    assert expected(hours, datetime(2026, 1, 12, 7, 54, tzinfo=UTC)) == []
    assert expected(hours, datetime(2026, 1, 12, 7, 56, tzinfo=UTC)) == ["office"]  # 8:56 in Berlin
    assert expected(hours, datetime(2026, 7, 13, 6, 56, tzinfo=UTC)) == ["office"]  # summer: an hour earlier
    assert expected(hours, datetime(2026, 7, 13, 14, 56, tzinfo=UTC)) == []
    night = (Hours("night", tuple(float(hour == 3) for hour in range(24)), "Europe/Berlin"),)
    assert expected(night, datetime(2026, 3, 29, 0, 56, tzinfo=UTC)) == ["night"]  # 1:56, and then it is 3


def test_a_clock_that_nobody_knows_is_refused():
    with pytest.raises(InputError, match="Middle/Earth"):
        check_clocks([Hours("m", (1.0,) * 24, "Middle/Earth")])


def test_a_plan_for_other_cards_is_refused(tmp_path):
    """The real binding over a stub of NVML: cards of 80 GiB."""
    pytest.importorskip("pynvml")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "nvml.c").write_text(NVML)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)

    def served(index: int, capacity: int) -> str:
        document = plan_document({"alpha": 100 * MIB}, capacity, engine="vllm@0.21")
        for row in (document["replicas"][0]["devices"][0], document["gpus"][0]):
            row |= {"type": "A100-80GB-SXM", "index": index}
        for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
            del document["replicas"][0][name]
        (tmp_path / "plan.json").write_text(json.dumps(document))
        argv = [sys.executable, "-m", "cotenant", "serve", str(tmp_path / "plan.json"), "--port", "0"]
        argv += ["--state", str(tmp_path / "state"), "--url", "other=http://127.0.0.1:1"]
        done = subprocess.run(
            argv[:-2], capture_output=True, text=True, check=False, timeout=60,
            env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 1, done.stderr
        return done.stderr

    assert "the plan wants card 7 (A100-80GB-SXM #0.7); the driver knows" in served(7, 2**36)
    assert "the plan gives 96.00 GiB of card 0 (A100-80GB-SXM #0.0); here it is a" in served(0, 96 * 2**30)
