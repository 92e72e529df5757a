"""The gateway's HTTP face over sockets, with stub engines that fail on command."""

from __future__ import annotations

import json
import time

import pytest

from bench.live_case import MIB, Gateway, plan_document

pytest.importorskip("aiohttp")


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


def test_the_status_is_as_its_schema_says(gateway):
    whole = gateway.ask("/openapi.json")[2]
    told = whole["paths"]["/status.json"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    status = gateway.status()
    assert set(told["properties"]) == set(status)
    for name in ("models", "replicas", "devices"):
        for one in status[name]:
            assert set(told["properties"][name]["items"]["properties"]) == set(one)
