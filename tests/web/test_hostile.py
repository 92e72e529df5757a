"""The server as somebody who means harm asks it: floods, slow lines, odd names, long questions."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import struct
import time
from typing import Any

import pytest

from cotenant.edge.models import open_model
from cotenant.web import connections, questions, running, strict
from cotenant.web import shelf as shelves
from cotenant.web.guard import Rules
from cotenant.web.shelf import Shelf, packed, upload_id
from cotenant.web.state import Options
from tests.web.conftest import LLAMA, Page, served
from tests.web.test_jobs import LONG, TRIO

QUESTION = {"model": LLAMA, "gpu": "L4", "max_model_len": 8192}


@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil",
        "localhost:80:evil",
        "localhost:",
        "127.1",
        "0x7f.1",
        "a@127.0.0.1",
        "127.0.0.1 evil",
        "[::1",
        "ⓛocalhost",
    ],
)
def test_no_name_passes_for_ours_by_its_beginning(page: Page, host: str) -> None:
    assert page.raw(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())[9:12] in (
        b"421",
        b"400",
    )


def test_pages_of_elsewhere_may_link_to_us_and_no_more(page: Page) -> None:
    """Not even read: a script, an image or a stream of events of ours on another page."""
    for path in ("/", "/api/catalogue", "/api/live", "/api/jobs/x/events", "/static/main.js"):
        for site in ("cross-site", "same-site"):
            assert page.get(path, sec_fetch_site=site, sec_fetch_mode="no-cors").status == 403
    assert page.get("/", sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200
    assert page.get("/", sec_fetch_site="same-origin", sec_fetch_mode="cors").status == 200


def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.5)
    for before, beginning in ((b"", b""), (b"", b"GET / HTTP/1.1\r\nHost: loc"), (b"x", b"GET /")):
        with socket.create_connection(("127.0.0.1", page.port), timeout=20) as line:
            if before:
                line.sendall(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert line.recv(65536).startswith(b"HTTP/1.1 200")
            line.sendall(beginning)
            try:
                while line.recv(65536):
                    pass
            except ConnectionError:
                continue  # closed, which is what is asked


def test_idle_connections_make_room(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    idle = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(60)]
    try:
        for _ in range(5):
            assert page.post("/api/estimate", QUESTION).status == 200
    finally:
        for one in idle:
            one.close()


@pytest.mark.parametrize(
    "begun",
    [
        b"POST /api/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
        b"GET /api/catalogue HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300,
    ],
    ids=["bodies that do not come", "answers that nobody fetches"],
)
def test_who_keeps_us_waiting_makes_room(page: Page, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    page.get("/api/catalogue")
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    lines = []
    try:
        for _ in range(30):
            line = socket.socket()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            line.connect(("127.0.0.1", page.port))
            line.sendall(begun)
            lines.append(line)
        time.sleep(0.5)
        for _ in range(5):
            assert page.post("/api/estimate", QUESTION).status == 200
    finally:
        for line in lines:
            line.close()


def test_an_upload_is_read_elsewhere_and_kept_within_bounds(page: Page) -> None:
    """Six megabytes of tensors: their structure would be kept for as long as the server runs."""
    head = gguf_of(30_000)
    answer = page.post("/api/models", {"gguf": base64.b64encode(head).decode(), "size_bytes": 2**40})
    assert answer.status == 422
    assert "bytes of structure, above" in answer.errors[0]
    assert (
        page.post("/api/models", {"gguf": base64.b64encode(gguf_of(9)).decode(), "size_bytes": 2**40}).status
        == 201
    )


def gguf_of(tensors: int) -> bytes:
    """The head of a llama of 32 layers with so many tensors of long names."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    figures = {
        "block_count": 32, "embedding_length": 4096, "context_length": 4096, "feed_forward_length": 11008,
        "attention.head_count": 32, "vocab_size": 32000,
    }  # fmt: skip
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    keys += [text(f"llama.{name}") + struct.pack("<II", 4, value) for name, value in figures.items()]
    names = [f"blk.{number % 32}.x{number}.{'y' * 160}.weight" for number in range(tensors)]
    found = [text(name) + struct.pack("<IQQIQ", 2, 32, 32, 0, 4096 * number) for number, name in enumerate(names)]
    return b"GGUF" + struct.pack("<IQQ", 3, len(found), len(keys)) + b"".join(keys) + b"".join(found)


def test_what_is_kept_of_uploads_is_bounded_in_bytes_and_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_model(LLAMA)
    held, shelf = packed(model), Shelf()
    names = [upload_id() for _ in range(5)]
    monkeypatch.setattr(shelves, "_KEPT_BYTES", 3 * len(held))
    for name in names:
        shelf.add(name, held)
    text = json.dumps({"fleet": "models:\n- model: " + " # ".join(names), "plan": [names[2]]})
    assert list(shelf.named_in(text, ())) == names[2:]
    assert shelf.named_in(json.dumps([f"{names[2]}0", names[3][:-1]]), ()) == {}
    assert shelf.find(names[4], ()) == (True, model)
    shelf.keep("my own, named oddly", (), model)
    shelf.keep("Owner/Name@main", (), model)
    found = shelf.named_in(json.dumps({"a": "my own, named oddly", "b": ["Owner/Name@main"]}), ())
    assert list(found) == ["my own, named oddly", "Owner/Name@main"]


def test_long_bodies_are_read_beside_the_others_with_the_same_answer(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bytes]] = [
        ("/api/estimate", b"[" * 100),
        ("/api/estimate", json.dumps(QUESTION).encode()),
    ]
    here = [page.ask("POST", path, body, {"content-type": "application/json"}) for path, body in asked]
    assert [one.status for one in here] == [400, 200]
    monkeypatch.setattr(strict, "_AT_ONCE_BYTES", 0)
    there = [page.ask("POST", path, body, {"content-type": "application/json"}) for path, body in asked]
    assert [one.body for one in there] == [one.body for one in here]


def test_bodies_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rules, "__init__", _small(Rules.__init__))
    for page in served(Options(port=0)):
        held = [http.client.HTTPConnection("127.0.0.1", page.port, timeout=20) for _ in range(3)]
        for one in held:
            one.putrequest("POST", "/api/plan")
            one.putheader("Content-Length", str(2**20))
            one.endheaders(b" " * 300_000)  # and no more
        time.sleep(0.3)
        full = page.ask("POST", "/api/plan", b" " * 300_000, {"content-type": "application/json"})
        assert full.status == 503
        assert full.errors == ["too much is being read at once"]
        for one in held:
            one.close()
        time.sleep(0.3)
        assert page.post("/api/estimate", QUESTION).status == 200


def _small(real: Any) -> Any:
    def init(self: Rules, **given: Any) -> None:
        real(self, **given, held_bytes=2**20)

    return init


def test_followers_are_bounded(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_MOST_FOLLOWERS", 3)
    job = page.post("/api/simulate", LONG | {"seed": 99}).document["job"]
    lines = []
    for _ in range(3):
        line = socket.create_connection(("127.0.0.1", page.port), timeout=20)
        line.sendall(f"GET /api/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 200")
        lines.append(line)
    refused = page.get(f"/api/jobs/{job}/events")
    assert refused.status == 429
    assert refused.headers["retry-after"]
    page.ask("DELETE", f"/api/jobs/{job}")
    for line in lines:
        line.close()
    while page.state.followers:
        time.sleep(0.05)
    assert page.get(f"/api/jobs/{job}/events").status == 200


def test_long_questions_leave_the_loop_and_say_the_same(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = page.job("/api/plan", {"fleet": TRIO}).document
    asked = [("/api/check", {"plan": plan}), ("/api/deploy", {"plan": plan, "target": "compose"})]
    here = [page.post(*one).body for one in asked]
    monkeypatch.setattr(questions, "_QUICK_BYTES", 0)
    assert [page.post(*one).body for one in asked] == here
    for path in ("/api/check", "/api/deploy"):
        refused = page.post(
            path, {"plan": {"fleet": {"models": 3}}, "target": "nowhere"} if "deploy" in path else {"plan": {}}
        )
        assert refused.status == 422


@pytest.mark.parametrize(
    "words",
    [
        {"concurrent": 8, "context_tokens": {"p50": 1, "p95": 10**9}},
        {"concurrent": 10**6, "context_tokens": {"p50": 10, "p95": 4000}},
        {"options": {f"k{number}": number for number in range(5000)}},
        {"adapters": [{"name": f"a{number}", "rank": 8} for number in range(1001)]},
        {
            "requests_per_second": 1e6,
            "input_tokens": {"p50": 9, "p95": 10**8},
            "output_tokens": {"p50": 9, "p95": 10**8},
        },
    ],
)
def test_no_estimate_holds_up_the_others(page: Page, words: dict[str, Any]) -> None:
    began = time.monotonic()
    assert page.post("/api/estimate", {"model": LLAMA, "gpu": "L40S", **words}).status in (200, 422)
    assert time.monotonic() - began < 20  # seconds of a machine that is busy; it was for ever


def test_a_number_without_end_is_refused_in_our_words(page: Page) -> None:
    body = b'{"fleet": {"headroom": ' + b"9" * 100_000 + b"}}"
    answer = page.ask("POST", "/api/plan", body, {"content-type": "application/json"})
    assert answer.status == 400
    assert answer.document["errors"][0]["error"].endswith("a number of thousands of digits")


def test_yaml_that_unfolds_is_refused(page: Page) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
    ]
    answer = page.job("/api/plan", {"fleet": "\n".join(lines)})
    assert answer.status == 422
    assert json.loads(answer.body)["errors"]
