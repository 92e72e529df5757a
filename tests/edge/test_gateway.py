"""The gateway over sockets, with stub engines that fail on command."""

from __future__ import annotations

import json
import sys
import time

import pytest
from click.testing import CliRunner

from cotenant.cli.root import cli

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
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: x, chunked\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nA: b\rTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nA: b\r\n Transfer-Encoding: chunked\r\n\r\n",
        b"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/0.9\r\nHost: localhost\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nA: b\x00c\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 500 + b"\r\n",
        b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(gateway, head):
    answer = gateway.raw(head + b"0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", wait_s=2)
    assert answer[5:12] in (
        b"1.1 400",
        b"1.0 400",
        b"1.1 413",
        b"1.1 431",
        b"1.1 501",
        b"1.0 501",
        b"2.0 505",
        b"0.9 505",
    )
    assert b'{"error": {"message": ' in answer
    assert answer.count(b"HTTP/") == 1
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
    assert 'cotenant_device_held_bytes{device="CPU #0.0"} 2.097152e+08' in text
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


def sleeping(own, tmp_path, flag):
    """Two models that sleep to make room for each other, as vLLM does; `flag`: what the stub does after a wake."""
    document = plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 150 * MIB, engine="vllm@0.21")
    for replica in document["replicas"]:
        replica |= {"sharing": "sleep", "checkpoint": "org/model"}
        for name in ("n_ctx", "n_parallel", "n_gpu_layers"):
            del replica[name]
    program = tmp_path / "vllm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STUB}" {flag} "$@"\n')
    program.chmod(0o755)
    return own("--no-prestart", "--engine-binary", f"vllm={program}", document=document)


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("", None),
        ("--wrong-after-wake", "its answer is empty"),
        ("--other-after-wake", "it answers otherwise than before it slept"),
    ],
)
def test_sleepers_are_woken_and_checked_before_traffic(own, tmp_path, flag, says):
    """vLLM's level 1; one that wakes up wrong is healthy by its own word, and is started anew all the same."""
    one = sleeping(own, tmp_path, flag)
    for model in ("alpha", "beta", "alpha"):
        status, _, found = one.chat(model, max_tokens=2)
        assert (status, found["choices"][0]["message"]["content"]) == (200, "w0 w1 ")
    logged = one.logged()
    assert logged.count('"engine_sleeps"') == 2
    assert logged.count('"engine_woke"') == (0 if says else 1)
    assert logged.count('"engine_started"') == (3 if says else 2)
    assert says is None or says in logged


def test_what_was_taken_over_is_checked_after_its_wake_too(own, tmp_path):
    """Who was asked when it was new is gone: so it is asked before it sleeps."""
    one = sleeping(own, tmp_path, "--other-after-wake")
    assert one.chat("alpha")[0] == 200
    one.process.kill()
    one.process.wait()
    one.process.stdout.close()
    one.start()
    for model in ("beta", "alpha"):
        status, _, found = one.chat(model, max_tokens=2)
        assert (status, found["choices"][0]["message"]["content"]) == (200, "w0 w1 ")
    logged = one.logged()
    assert logged.count('"engine_adopted"') == 1
    assert "it answers otherwise than before it slept" in logged


def killed(one: Gateway) -> None:
    """`kill -9`: its engines go on."""
    one.process.kill()
    one.process.wait()
    one.process.stdout.close()


@pytest.mark.parametrize("flag", ["", "--other-after-wake"])
def test_a_sleeper_is_taken_over_asleep_and_checked_after_its_wake(own, tmp_path, flag):
    one = sleeping(own, tmp_path, flag)
    for model in ("alpha", "beta"):
        assert one.chat(model)[0] == 200
    one.wait_for("alpha", "asleep")
    before = sorted(one.engines())
    killed(one)
    one.start()
    assert [one.state(model) for model in ("alpha", "beta")] == ["asleep", "ready"]
    assert sorted(one.engines()) == before
    floor = one.status()["devices"][0]
    assert floor["held_bytes"] == 100 * MIB  # beta's, and what alpha keeps: nothing
    status, _, found = one.chat("alpha", max_tokens=2)
    assert (status, found["choices"][0]["message"]["content"]) == (200, "w0 w1 ")
    logged = one.logged()
    assert logged.count('"engine_adopted"') == 2
    assert '"orphan_stopped"' not in logged
    assert ("it answers otherwise than before it slept" in logged) == bool(flag)
    assert logged.count('"engine_started"') == (3 if flag else 2)


@pytest.mark.parametrize("change", [{"stage": "moving"}, {"level": 2}, {"reference": ""}])
def test_a_sleeper_of_which_too_little_is_known_is_stopped(own, tmp_path, change):
    one = sleeping(own, tmp_path, "")
    for model in ("alpha", "beta"):
        assert one.chat(model)[0] == 200
    one.wait_for("alpha", "asleep")
    killed(one)
    place = one.folder / "state" / "engines.json"
    rows = json.loads(place.read_text())
    assert {row["replica"]: row["stage"] for row in rows} == {"alpha-1": "asleep", "beta-1": "awake"}
    assert {row["level"] for row in rows} == {1}
    assert all(len(row["reference"]) == 64 for row in rows)
    place.write_text(json.dumps([row | (change if row["replica"] == "alpha-1" else {}) for row in rows]))
    one.start()
    assert one.logged().count('"orphan_stopped"') == 1
    assert one.chat("alpha")[0] == 200


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
    assert found["error"]["message"] == "alpha does not start: llama.cpp is not installed here"
    assert int(headers["retry-after"]) >= 1
    assert one.ask("/health")[0] == 200
    assert "--engine-binary llama.cpp=PATH" in one.logged()


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


def test_the_status_is_as_its_schema_says(gateway):
    whole = gateway.ask("/openapi.json")[2]
    told = whole["paths"]["/status.json"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    status = gateway.status()
    assert set(told["properties"]) == set(status)
    for name in ("models", "replicas", "devices"):
        for one in status[name]:
            assert set(told["properties"][name]["items"]["properties"]) == set(one)
