"""The live tab: what a gateway says of itself, from the address of the command line alone."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cotenant.errors import EngineError, InputError
from cotenant.web import live
from cotenant.web.live import Gateway, samples
from cotenant.web.state import Options
from tests.web.conftest import Page, served

STATUS = {
    "draining": False,
    "models": [{"name": "chat", "waiting": 2, "priority": 0}],
    "replicas": [],
    "devices": [],
}
METRICS = """# HELP cotenant_swaps_total Models woken.
# TYPE cotenant_swaps_total counter
cotenant_swaps_total{model="chat \\"a\\"",mode="sleep"} 3
cotenant_queue 1.5e2 1700000000
cotenant_nothing NaN
cotenant_endless{le="+Inf"} +Inf
not a sample at all
"""


class _Answers(BaseHTTPRequestHandler):
    key: str | None = None

    def do_GET(self) -> None:
        if self.key is not None and self.headers.get("Authorization") != f"Bearer {self.key}":
            self.send_response(401)
            self.end_headers()
            return
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/status.json")
            self.end_headers()
            return
        body = json.dumps(STATUS).encode() if self.path == "/status.json" else METRICS.encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_samples_are_read_and_what_is_no_number_is_left_out() -> None:
    assert samples(METRICS) == [
        {"name": "cotenant_swaps_total", "labels": {"model": 'chat "a"', "mode": "sleep"}, "value": 3.0},
        {"name": "cotenant_queue", "labels": {}, "value": 150.0},
    ]


def test_status_and_metrics_come_through(gateway: str) -> None:
    for page in served(Options(port=0, gateway=gateway)):
        asked(page, gateway)


def asked(page: Page, gateway: str) -> None:
    told = page.get("/api/live?url=http://evil.example/").document
    assert told["gateway"] == gateway
    assert told["status"] == STATUS
    assert len(told["metrics"]) == 2


def test_a_redirect_is_not_followed(gateway: str) -> None:
    with pytest.raises(OSError, match="302"):
        Gateway(gateway)._read("/moved")


def test_one_that_is_not_there_is_said() -> None:
    with pytest.raises(EngineError, match="does not answer"):
        Gateway("http://127.0.0.1:9").document()


NOISE = (
    b"no http at all\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}",  # ends before it is whole
    *(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body) for body in (
        b"[]", b"{}", b'{"models": 1, "replicas": [], "devices": []}', b"[" * 5000, b'{"a": NaN}', b"<html>",
    )),
)  # fmt: skip


@pytest.mark.parametrize("noise", NOISE, ids=range(len(NOISE)))
def test_what_is_no_gateway_is_the_gateways_fault(noise: bytes) -> None:
    """A line to somebody else's server: the page says so, and has no fault of its own."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(noise)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(EngineError, match="does not answer"):
            Gateway(f"http://127.0.0.1:{other.getsockname()[1]}").document()
        thread.join()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://h/path", "http://u:p@h", "h:80", "http://h?x", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        Gateway(url)


KEY = "a-key-of-somebody"


def test_a_key_goes_to_the_gateway_and_is_kept_nowhere(gateway: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Answers, "key", KEY)
    for page in served(Options(port=0, gateway=gateway)):
        for wrong in ({}, {"x_gateway_key": "another-key"}):
            refused = page.get("/api/live", **wrong)
            assert refused.status == 401
            assert "asks for a key" in refused.errors[0]
        answer = page.get("/api/live", x_gateway_key=KEY)
        assert answer.document["status"] == STATUS
        assert answer.headers["cache-control"] == "no-store"
        assert KEY.encode() not in answer.body
        assert page.get("/api/live").status == 401  # the next one has to give it too
        for evil in ("short", "with space in it", "x" * 600, "tab\tin-the-key"):
            assert page.get("/api/live", x_gateway_key=evil).status == 422


_ENTRIES = {
    "models": {"name": "chat", "waiting": 2},
    "replicas": {
        "id": "chat", "model": "chat", "state": "ready", "reason": "", "running": 1, "slots": 4, "held_bytes": 5,
    },
    "devices": {"name": "A100 #0", "held_bytes": 5, "capacity_bytes": 9},
}  # fmt: skip


def test_a_status_that_the_page_could_not_draw_is_refused_here() -> None:
    """A part that is missing would end the whole page's drawing: of another program, or of another release."""
    whole = {name: [entry] for name, entry in _ENTRIES.items()}
    assert live._status(json.dumps(whole).encode()) == whole
    for name, entry in _ENTRIES.items():
        for wrong in (None, 1, "x", {}, [None], [1], *([{**entry, key: None}] for key in entry)):
            with pytest.raises(ValueError, match="no gateway's status"):
                live._status(json.dumps({**whole, name: wrong}).encode())
