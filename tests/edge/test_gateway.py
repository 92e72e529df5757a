"""The gateway over sockets, with stub engines that fail on command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from cotenant.cli.root import cli
from cotenant.edge.engines import processes

pytest.importorskip("aiohttp")

from bench.live_case import MIB, STUB, Gateway, plan_document


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """Two models that fit together."""
    one = Gateway(
        tmp_path_factory.mktemp("gateway"), plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 300 * MIB)
    )
    one.wait_for("alpha", "ready")
    one.wait_for("beta", "ready")
    yield one
    one.stop()


@pytest.fixture
def own(tmp_path):
    """One that a test may break: two models on a budget for one."""
    started = []

    def start(*flags, document=None, **more):
        models = {"alpha": 100 * MIB, "beta": 100 * MIB}
        one = Gateway(tmp_path, document or plan_document(models, 150 * MIB), "--residency", "0s", *flags, **more)
        started.append(one)
        return one

    yield start
    for one in started:
        one.stop()


def test_openai_shapes(gateway):
    status, _, found = gateway.ask("/v1/models")
    assert status == 200
    assert [one["id"] for one in found["data"]] == ["alpha", "beta"]
    status, _, found = gateway.chat("alpha", max_tokens=3)
    assert status == 200
    assert found["choices"][0]["message"]["content"] == "w0 w1 w2 "
    status, _, found = gateway.ask("/v1/completions", {"model": "beta", "prompt": "x", "max_tokens": 2})
    assert (status, found["choices"][0]["text"]) == (200, "w0 w1 ")
    status, _, found = gateway.ask("/v1/embeddings", {"model": "beta", "input": "x"})
    assert (status, found["data"][0]["embedding"]) == (200, [0.1, 0.2])
    assert gateway.ask("/v1/models/beta")[2]["id"] == "beta"
    assert gateway.ask("/health")[:1] == (200,)


def test_a_stream_is_not_buffered(gateway):
    gateway.stub("alpha", token_s=0.15)
    try:
        began = time.monotonic()
        answer = gateway.stream("alpha", max_tokens=6)
        first = answer.readline()
        early = time.monotonic() - began
        rest = answer.read()
        whole = time.monotonic() - began
    finally:
        gateway.stub("alpha", token_s=0)
    assert answer.getheader("Content-Type") == "text/event-stream"
    assert b"w0" in first
    assert rest.rstrip().endswith(b"data: [DONE]")
    assert whole - early > 0.5
    assert early < 0.6


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "param"),
    [
        ("/v1/chat/completions", b"{bad", 400, "invalid_json", None),
        ("/v1/chat/completions", b"[" * 100_000, 400, "invalid_json", None),
        ("/v1/chat/completions", b"\xff\xfe\x00", 400, "invalid_json", None),
        ("/v1/chat/completions", b"[1]", 400, "invalid_json", None),
        ("/v1/chat/completions", {"messages": []}, 400, "invalid_model", "model"),
        ("/v1/chat/completions", {"model": 7, "messages": []}, 400, "invalid_model", "model"),
        ("/v1/chat/completions", {"model": "gamma", "messages": []}, 404, "model_not_found", "model"),
        ("/v1/chat/completions", {"model": "alpha"}, 400, "missing_parameter", "messages"),
        (
            "/v1/chat/completions",
            {"model": "alpha", "messages": [], "stream": "yes"},
            400,
            "invalid_type",
            "stream",
        ),
        ("/v1/embeddings", {"model": "alpha", "prompt": "x"}, 400, "missing_parameter", "input"),
        ("/v1/nothing", {}, 404, "not_found", None),
        ("/v1/models/gamma", None, 404, "model_not_found", "model"),
    ],
)
def test_bad_input_is_answered_in_openais_shape(gateway, path, body, status, code, param):
    found_status, _, found = gateway.ask(path, body)
    assert (found_status, found["error"]["code"], found["error"]["param"]) == (status, code, param)
    assert set(found["error"]) == {"message", "type", "param", "code"}


def test_wrong_methods_and_headers(gateway):
    assert gateway.ask("/v1/completions")[0] == 405
    body = {"model": "alpha", "messages": []}
    for name, value, code in [
        ("X-Request-Timeout", "never", "invalid_timeout"),
        ("X-Request-Timeout", "-3", "invalid_timeout"),
        ("X-Request-Timeout", "nan", "invalid_timeout"),
        ("X-Priority", "high", "invalid_priority"),
    ]:
        status, _, found = gateway.ask("/v1/chat/completions", body, headers={name: value})
        assert (status, found["error"]["code"]) == (400, code)
    status, _, found = gateway.ask("/v1/chat/completions", body, headers={"Content-Encoding": "gzip"})
    assert (status, found["error"]["code"]) == (415, "unsupported_encoding")


def test_a_prompt_of_100_mb_is_refused_before_it_is_read(gateway):
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\n\r\n"
    began = time.monotonic()
    answer = gateway.raw(head + b"{" * 65536, wait_s=3)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"request_too_large" in answer
    assert time.monotonic() - began < 10
    chunked = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = gateway.raw(chunked + (b"100000\r\n" + b"x" * 2**20 + b"\r\n") * 34, wait_s=3)
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_client_that_asks_before_it_sends_is_told_to_go_on(gateway):
    body = json.dumps({"model": "alpha", "prompt": "x"}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nConnection: close\r\n"
    answer = gateway.raw(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nA: b\x00c\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 500 + b"\r\n",
        b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(gateway, head):
    answer = gateway.raw(head + b"0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", wait_s=2)
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400", b"HTTP/1.1 413", b"HTTP/1.1 431"))
    assert b"cotenant_requests" not in answer
    assert gateway.ask("/health")[0] == 200


def test_pages_of_elsewhere_are_kept_out(gateway):
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        status, _, found = gateway.ask("/v1/models", headers=headers)
        assert (status, found["error"]["code"]) == (403, "foreign_origin")
    assert gateway.ask("/v1/models", headers={"Origin": "http://localhost:3000"})[0] == 200


def test_metrics_and_the_status_page(gateway):
    gateway.chat("alpha")
    text = gateway.ask("/metrics")[2]
    assert 'cotenant_requests_total{model="alpha",status="200"}' in text
    assert 'cotenant_device_held_bytes{device="CPU 0.0"} 2.097152e+08' in text
    status, headers, page = gateway.ask("/")
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "alpha" in page
    assert "<script" not in page


def test_no_prompt_and_no_answer_in_the_logs(gateway):
    gateway.chat("alpha")
    logged = gateway.logged()
    assert '"event": "request"' in logged
    assert "secret words" not in logged
    assert "w0 w1" not in logged
    for line in logged.splitlines():
        json.loads(line)


@pytest.mark.parametrize("mode", ["garbage", "500", "not-json"])
def test_an_engine_that_answers_badly_is_asked_once_more(gateway, mode):
    gateway.stub("beta", fail=mode, times=1)
    assert gateway.chat("beta")[0] == 200
    gateway.stub("beta", fail=mode, times=2)
    status, _, found = gateway.chat("beta")
    assert (status, found["error"]["code"]) == (502, "engine_failed")
    assert gateway.chat("beta")[0] == 200


def test_a_stream_that_breaks_off_ends_with_an_error(gateway):
    gateway.stub("beta", fail="cut", times=1, after=2)
    text = gateway.stream("beta", max_tokens=5).read()
    assert b"w1" in text
    assert b"[DONE]" not in text
    last = text.strip().rpartition(b"data: ")[2]
    assert json.loads(last)["error"]["code"] == "engine_failed"


def test_a_deadline_is_kept(gateway):
    gateway.stub("beta", fail="hang", times=1)
    began = time.monotonic()
    status, _, found = gateway.chat("beta", headers={"X-Request-Timeout": "0.5"})
    assert (status, found["error"]["code"]) == (504, "deadline")
    assert 0.4 < time.monotonic() - began < 3
    assert gateway.chat("beta")[0] == 200


def test_when_the_client_leaves_the_engine_stops(gateway):
    gateway.stub("alpha", token_s=0.1)
    try:
        answer = gateway.stream("alpha", max_tokens=1000)
        answer.readline()
        assert gateway.stub("alpha")["running"] == 1
        answer.connection.sock.close()
        answer.close()
        end = time.monotonic() + 5
        while gateway.stub("alpha")["running"] and time.monotonic() < end:
            time.sleep(0.05)
        assert gateway.stub("alpha")["running"] == 0
        assert [one["running"] for one in gateway.status()["replicas"]] == [0, 0]
    finally:
        gateway.stub("alpha", token_s=0)


def test_two_models_on_a_budget_for_one_take_turns(own):
    one = own("--no-prestart")
    for model in ("alpha", "beta", "alpha"):
        assert one.chat(model)[0] == 200
        held = one.status()["devices"][0]
        assert held["held_bytes"] == 100 * MIB <= held["capacity_bytes"]
    assert one.logged().count('"engine_started"') == 3


@pytest.mark.parametrize("wrong", [False, True])
def test_sleepers_are_woken_and_checked_before_traffic(own, tmp_path, wrong):
    """vLLM's level 1; one that wakes up wrong is healthy by its own word, and is started anew all the same."""
    document = plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 150 * MIB, engine="vllm@0.21")
    for replica in document["replicas"]:
        replica |= {"sharing": "sleep", "checkpoint": "org/model"}
        for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
            del replica[name]
    program = tmp_path / "vllm"
    flag = " --wrong-after-wake" if wrong else ""
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STUB}"{flag} "$@"\n')
    program.chmod(0o755)
    one = own("--no-prestart", "--engine-binary", f"vllm={program}", document=document)
    for model in ("alpha", "beta", "alpha"):
        status, _, found = one.chat(model, max_tokens=2)
        assert (status, found["choices"][0]["message"]["content"]) == (200, "w0 w1 ")
    logged = one.logged()
    assert logged.count('"engine_sleeps"') == 2
    assert logged.count('"engine_woke"') == (0 if wrong else 1)
    assert logged.count('"engine_started"') == (3 if wrong else 2)
    assert ("its answer is empty" in logged) is wrong


def test_vllm_is_told_the_priority_that_the_key_allows(own, tmp_path):
    """Lower numbers come first there; what a client writes into the body does not count."""
    document = plan_document({"alpha": 100 * MIB}, 150 * MIB, engine="vllm@0.21")
    (replica,) = document["replicas"]
    replica |= {"checkpoint": "org/model"}
    for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
        del replica[name]
    program, keys = tmp_path / "vllm", tmp_path / "keys"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STUB}" "$@"\n')
    program.chmod(0o755)
    keys.write_text("alice alice-secret-key priority=3\n")
    keys.chmod(0o600)
    one = own("--engine-binary", f"vllm={program}", "--api-keys", str(keys), document=document)
    for asked, told in (("9", -3), ("-2", 2), (None, 0)):
        headers = {"Authorization": "Bearer alice-secret-key"} | ({"X-Priority": asked} if asked else {})
        assert one.chat("alpha", max_tokens=1, priority=-1000, headers=headers)[0] == 200
        assert one.stub("alpha")["priorities"][-1] == told
    with open(f"/proc/{one.engines()[0]}/cmdline", "rb") as file:
        assert b"--scheduling-policy\0priority" in file.read()


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


def test_keys(own, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("alice alice-secret-key priority=3\nbob bob-secret-key # a comment\n")
    keys.chmod(0o600)
    one = own("--api-keys", str(keys))
    assert one.ask("/v1/models")[0] == 401
    assert one.ask("/v1/models", headers={"Authorization": "Bearer nonsense"})[0] == 401
    headers = {"Authorization": "Bearer alice-secret-key", "X-Priority": "9"}
    assert one.chat("alpha", headers=headers)[0] == 200
    assert '"client": "alice"' in one.logged()
    assert "alice-secret-key" not in one.logged()
    for pid in (one.process.pid, *one.engines()):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
        assert b"secret" not in words
    key = json.loads((one.folder / "state" / "engines.json").read_text())[0]["key"]
    assert key
    assert key.encode() not in words
    assert (one.folder / "state" / "engines.json").stat().st_mode & 0o077 == 0


def test_a_missing_engine_is_said_and_the_gateway_lives_on(own):
    one = own("--no-prestart")
    (one.folder / "stub-engine").unlink()
    status, headers, found = one.chat("alpha")
    assert (status, found["error"]["code"]) == (503, "engine_failed")
    assert "could not be started" in found["error"]["message"]
    assert int(headers["retry-after"]) >= 1
    assert one.ask("/health")[0] == 200


def test_headers_that_never_end_close_the_connection(monkeypatch):
    import asyncio

    from aiohttp import web

    from cotenant.edge.gateway import guard

    monkeypatch.setattr(guard, "HEADERS_S", 0.2)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        request.protocol.disarm()
        await asyncio.sleep(0.6)  # a slow answer is not a slow request
        return web.Response(text="fine")

    async def scene() -> tuple[bytes, bytes]:
        server = await asyncio.get_running_loop().create_server(guard.GuardedServer(handle), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, slow = await asyncio.open_connection("127.0.0.1", port)
        slow.write(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
        cut = await asyncio.wait_for(reader.read(), 5)
        other, whole = await asyncio.open_connection("127.0.0.1", port)
        whole.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(other.read(), 5)
        slow.close()
        whole.close()
        server.close()
        return cut, answer

    cut, answer = asyncio.run(scene())
    assert cut == b""
    assert answer.endswith(b"fine")


def refused(*words: str) -> str:
    done = CliRunner().invoke(cli, ["serve", *words])
    assert done.exit_code == 1, done.output
    return done.stderr


def test_hostile_plans_and_wrong_beginnings_are_refused(tmp_path):
    plan = tmp_path / "plan.json"
    document = plan_document({"alpha": 100 * MIB}, 150 * MIB)
    plan.write_text(json.dumps(document))
    keys = tmp_path / "keys"
    keys.write_text("alice alice-secret-key\n")
    keys.chmod(0o644)
    assert "can be read by others" in refused(str(plan), "--api-keys", str(keys))
    assert "no keys are given" in refused(str(plan), "--host", "0.0.0.0", "--state", str(tmp_path / "s"))
    own_port = str(document["replicas"][0]["port"])
    assert "gives port" in refused(str(plan), "--port", own_port, "--state", str(tmp_path / "s"))
    assert "no program" in refused(str(plan), "--engine-binary", "llama.cpp=/nowhere")
    assert "not NAME=VALUE" in refused(str(plan), "--url", "alpha")
    assert "no replica or model" in refused(str(plan), "--url", "gamma=http://127.0.0.1:1")
    document["replicas"][0]["engine"] = "abacus@1"
    plan.write_text(json.dumps(document))
    assert "abacus" in refused(str(plan))
    document["feasible"], document["replicas"] = False, []
    document["gpus"] = []
    plan.write_text(json.dumps(document))
    assert "not feasible" in refused(str(plan))
    plan.write_text('{"schema": "cotenant/plan/1"')
    assert "error" in refused(str(plan))
