"""Any bytes, any JSON: the gateway answers each with an error or an answer in OpenAI's shape, and lives on."""

from __future__ import annotations

import http.client
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("aiohttp")

from bench.live_case import MIB, Gateway, plan_document

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["alpha", "", "gamma"]) | values,
        "messages": values,
        "prompt": values,
        "input": values,
        "stream": st.booleans() | values,
        "max_tokens": st.integers(0, 5),
    },
)
headers = st.dictionaries(
    st.sampled_from(["X-Priority", "X-Request-Timeout", "Content-Type", "Authorization", "Accept", "Origin"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12),
    max_size=2,
)
paths = st.sampled_from(
    [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/models",
        "/v1/models/%00",
        "/",
        "/health",
        "/x",
    ]
)
quick = settings(
    max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    one = Gateway(tmp_path_factory.mktemp("fuzz"), plan_document({"alpha": 100 * MIB}, 300 * MIB), "--quiet")
    one.wait_for("alpha", "ready")
    yield one
    one.stop()


@quick
@given(path=paths, method=st.sampled_from(["GET", "POST", "PUT", "HEAD", "OPTIONS"]), body=bodies, more=headers)
def test_any_request_is_answered(gateway, path, method, body, more):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    try:
        connection.request(method, path, json.dumps(body).encode(), more)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    assert answer.status < 500
    if answer.status >= 400 and method != "HEAD":
        error = json.loads(text)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]


@quick
@given(data=st.binary(min_size=1, max_size=300))
def test_any_bytes_are_survived(gateway, data):
    answer = gateway.raw(data + b"\r\n\r\n", wait_s=0.05)
    assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 2"))
    assert b"Traceback" not in answer


def test_it_still_serves(gateway):
    assert gateway.chat("alpha")[0] == 200
    assert '"internal_error"' not in gateway.logged()
