"""What engines answer, as the gateway hears it: dripping, broken, full."""

from __future__ import annotations

import socket
import threading
import time

import pytest

pytest.importorskip("aiohttp")


from bench.live_case import MIB, Gateway, plan_document
from cotenant.edge.engines.calls import address, call
from cotenant.edge.gateway.relay import _DONE, _events_end
from cotenant.errors import EngineError, InputError


@pytest.fixture
def gateway(tmp_path):
    one = Gateway(tmp_path, plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 300 * MIB))
    for model in ("alpha", "beta"):
        one.wait_for(model, "ready")
    yield one
    one.stop()


def answering(*parts: bytes, pause_s: float = 0.0) -> str:
    """An address that answers once, part by part."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        one, _ = listener.accept()
        with one, listener:
            one.recv(65536)
            for part in parts:
                try:
                    one.sendall(part)
                except OSError:
                    return
                time.sleep(pause_s)

    threading.Thread(target=answer, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("drip", [b"X: y\r\n", b"H"])
def test_an_engine_that_drips_its_answer_holds_nobody(drip):
    """A socket's timeout begins anew with each byte; ours does not."""
    url = answering(b"HTTP/1.1 200 OK\r\n" if drip != b"H" else b"", *[drip] * 100, pause_s=0.1)
    began = time.monotonic()
    with pytest.raises(EngineError, match="no answer in time"):
        call(url, "/health", timeout_s=0.5)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"\0" * 100, b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error_of_the_engine(answer):
    with pytest.raises(EngineError):
        call(answering(answer), "/health", timeout_s=2)


@pytest.mark.parametrize(
    "url",
    [
        "http://x:abc", "http://h:99999", "http://h:0", "ftp://x", "http://", "x", "http://h/a?b", "http://h/#a",
        "http://h :1", "http://u:p@h", "http://[::1", "http://h\r\nX: y", "http://\u2024:1", "",
    ],
)  # fmt: skip
def test_addresses_are_read_strictly(url):
    with pytest.raises(InputError):
        address(url)
    with pytest.raises(EngineError):
        call(url, "/health")


def test_sound_addresses():
    assert address("http://gpu-2:8000/v1/").url == "http://gpu-2:8000/v1"
    assert address("https://[::1]").url == "https://[::1]:443"


def test_only_whole_events_are_passed_on():
    assert _events_end(b"data: 1\n\ndata: 2") == 9
    assert _events_end(b"data: 1\r\n\r\ndata") == 11
    assert _events_end(b"data: 1\r\rdata") == 9
    assert _events_end(b"data: 1\n") == 0
    assert _DONE.search(b"data: x\n\ndata: [DONE]\n\n")
    assert not _DONE.search(b'data: {"text": "data: [DONE]"}\n\n')  # a model that was asked to say so


def test_an_engine_that_is_full_is_asked_again_and_lives(gateway):
    first = gateway.engines()
    gateway.stub("alpha", fail="429", times=3)
    began = time.monotonic()
    status, _, found = gateway.chat("alpha")
    assert (status, found["choices"][0]["finish_reason"]) == (200, "length")
    assert 2.5 < time.monotonic() - began < 10  # a second's rest after each time
    assert gateway.engines() == first


def test_who_waits_for_a_full_engine_until_its_deadline_is_told_to_come_again(gateway):
    gateway.stub("alpha", fail="429", times=10)
    status, headers, found = gateway.chat("alpha", headers={"X-Request-Timeout": "2"})
    assert (status, found["error"]["code"], found["error"]["type"]) == (429, "queue_full", "rate_limit_error")
    assert int(headers["retry-after"]) >= 1
    gateway.stub("alpha", fail="", times=0)
    assert gateway.chat("alpha")[0] == 200
    assert gateway.status()["replicas"][0]["failures"] == 0
