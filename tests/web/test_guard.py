"""Who may ask, under which name, and how much may come."""

from __future__ import annotations

import gzip
import time

import pytest

from cotenant.web.guard import Guard, Rules
from tests.web.conftest import LLAMA, Page

QUESTION = {"model": LLAMA, "gpu": "L4", "max_model_len": 8192}


def test_every_answer_is_dressed(page: Page) -> None:
    for answer in (page.get("/"), page.get("/nothing"), page.get("/api/catalogue"), page.post("/api/plan", {})):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "10.0.0.1"]
)
def test_a_name_that_is_not_ours_is_refused(page: Page, host: str) -> None:
    answer = page.get("/api/catalogue", host=host)
    assert answer.status == 421
    assert answer.errors


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:80"])
def test_names_of_this_machine_are_ours(page: Page, host: str) -> None:
    assert page.get("/api/catalogue", host=host).status == 200


@pytest.mark.parametrize(
    ("host", "ours"),
    [("10.0.0.7:80", True), ("[fe80::1]", True), ("gpu.lab", True), ("GPU.lab:1", True), ("evil.example", False)],
)
def test_beyond_loopback_addresses_and_told_names_are_ours(host: str, ours: bool) -> None:
    guard = Guard(lambda *_: None, Rules(local=False, names=frozenset({"gpu.lab"})))  # type: ignore[arg-type,return-value]
    assert guard._is_ours(host) is ours


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_posts_from_pages_of_elsewhere_are_refused(page: Page, headers: dict[str, str]) -> None:
    for path, body in (("/api/plan", {"fleet": {}}), ("/api/estimate", QUESTION), ("/api/models", {"hub": LLAMA})):
        answer = page.post(path, body, **headers)
        assert answer.status == 403
        assert answer.errors == ["a page of elsewhere may not ask for this"]
    assert page.ask("DELETE", "/api/jobs/x", headers={"origin": "https://evil.example"}).status == 403


def test_posts_from_our_own_page_are_answered(page: Page) -> None:
    own = {"origin": f"http://127.0.0.1:{page.port}", "sec_fetch_site": "same-origin"}
    assert page.post("/api/estimate", QUESTION, **own).status == 200


def test_a_form_of_elsewhere_cannot_pass_for_json(page: Page) -> None:
    """What a page can post without asking first has one of three types, none of them JSON."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = page.ask("POST", "/api/estimate", b'{"model": "x", "gpu": "L4"}', {"content-type": kind})
        assert answer.status in (415, 422)


def test_a_gigabyte_is_refused_before_it_comes(page: Page) -> None:
    began = time.monotonic()
    head = b"POST /api/models HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = page.raw(head + b"Content-Length: 1073741824\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"1,073,741,824 bytes: at most" in answer
    assert time.monotonic() - began < 5


def test_a_body_without_a_length_is_cut_off_where_it_grows_too_long(page: Page) -> None:
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    head = b"POST /api/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = page.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 3)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413 ")
    assert page.get("/api/catalogue").status == 200


def test_a_packed_body_is_never_unpacked(page: Page) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    for packing in ("gzip", "deflate", "br", "gzip, gzip"):
        answer = page.ask(
            "POST", "/api/estimate", bomb, {"content-type": "application/json", "content-encoding": packing}
        )
        assert answer.status == 415


def test_headers_that_stand_twice_are_refused(page: Page) -> None:
    for name in (b"Origin: http://localhost\r\n", b"Host: localhost\r\n"):
        head = b"POST /api/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n"
        assert page.raw(head + name * 2 + b"\r\n").startswith(b"HTTP/1.1 400 ")


def test_other_methods_are_not_answered(page: Page) -> None:
    for method in ("PUT", "PATCH", "OPTIONS", "TRACE"):
        assert page.ask(method, "/api/estimate").status == 405


def test_a_websocket_is_turned_away(page: Page) -> None:
    head = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b" 101 " not in page.raw(head.replace(b"Upgrade\r\n", b"Upgrade, close\r\n", 1)).split(b"\r\n")[0]


def test_head_is_answered_as_get_without_its_body(page: Page) -> None:
    """Watchers of a server ask so: the same status and headers, nothing else."""
    for path in ("/", "/static/main.js", "/api/catalogue", "/api/openapi.json", "/nothing"):
        whole, head = page.get(path), page.ask("HEAD", path)
        assert head.status == whole.status
        assert head.body == b""
        assert head.headers["content-length"] == whole.headers["content-length"]
    ticket = page.post("/api/plan", {"fleet": {}}).document["job"]
    assert page.ask("HEAD", f"/api/jobs/{ticket}/events").headers["content-type"].startswith("text/event-stream")
