"""Clients that take their time, leave, or send what is no HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time

import pytest

pytest.importorskip("aiohttp")

from aiohttp import web

from bench.live_case import MIB, Gateway, plan_document
from cotenant.edge.gateway import guard


@pytest.fixture
def gateway(tmp_path):
    one = Gateway(tmp_path, plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 300 * MIB))
    for model in ("alpha", "beta"):
        one.wait_for(model, "ready")
    yield one
    one.stop()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_clients_that_leave_a_stream_do_not_count_as_an_engine_that_fails(tmp_path, loop):
    """They leave by a reset, in the middle of a stream that comes without a pause."""
    (tmp_path / "uvloop.py").write_text("raise ImportError")
    environment = {"PYTHONPATH": str(tmp_path)} if loop == "asyncio" else {}
    one = Gateway(tmp_path, plan_document({"alpha": 100 * MIB}, 300 * MIB, slots=20), environment=environment)
    try:
        one.wait_for("alpha", "ready")
        first = one.engines()
        body = json.dumps({"model": "alpha", "messages": [], "stream": True, "max_tokens": 2000}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        one.stub("alpha", width=4000)
        for _ in range(10):
            leaver = socket.create_connection(("127.0.0.1", one.port), timeout=10)
            leaver.sendall(head % len(body) + body)
            assert leaver.recv(1024).startswith(b"HTTP/1.1 200")
            for _ in range(10):
                leaver.recv(65536)
            leaver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            leaver.close()
        end = time.monotonic() + 10
        while one.logged().count('"status": 499') < 10 and time.monotonic() < end:
            time.sleep(0.05)
        assert one.logged().count('"status": 499') == 10
        assert one.chat("alpha")[0] == 200
        assert one.engines() == first
        assert '"engine_stops"' not in one.logged()
    finally:
        one.stop()


def scene(handler, talk, **more):
    """What `talk(port)` sees of a guarded server."""

    async def play():
        server = guard.GuardedServer(handler, **more)
        listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        try:
            return await talk(listening.sockets[0].getsockname()[1])
        finally:
            listening.close()
            await server.shutdown(0.1)

    return asyncio.run(asyncio.wait_for(play(), 20))


async def fine(request: web.BaseRequest) -> web.StreamResponse:
    request.protocol.disarm()
    return web.Response(text="fine")


def test_who_waits_longest_without_a_request_makes_room():
    async def talk(port):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        ended = []
        for one, _ in idle:
            try:
                ended.append(await asyncio.wait_for(one.read(), 0.3) == b"")
            except TimeoutError:
                ended.append(False)
            except ConnectionResetError:
                ended.append(True)
        for _, one in (*idle, (reader, writer)):
            one.close()
        return answer, ended

    answer, ended = scene(fine, talk, most=4)
    assert answer.endswith(b"fine")
    assert ended == [True, True, True, False, False, False]


def test_who_reads_nothing_is_cut_off(monkeypatch):
    monkeypatch.setattr(guard, "UNREAD_S", 0.2)
    ends: list[str] = []

    async def pour(request: web.BaseRequest) -> web.StreamResponse:
        request.protocol.disarm()
        out = web.StreamResponse()
        await out.prepare(request)
        try:
            while True:
                await out.write(b"x" * 65536)
        except (ConnectionError, asyncio.CancelledError):
            ends.append("cut")
            raise

    async def talk(port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(60):
            await asyncio.sleep(0.05)
            if ends:
                break
        writer.close()
        return ends

    assert scene(pour, talk, handler_cancellation=True) == ["cut"]


def test_a_body_that_stops_being_http_is_answered_at_once(gateway):
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=3) as one:
        one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        time.sleep(0.1)
        one.sendall(b"1\r\n{\r\n")
        time.sleep(0.1)
        one.sendall(b"zz\r\n")
        answer = one.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"bad_request"' in answer
    status, _, found = gateway.ask("/v1/chat/completions", b'{"model": "alpha", "model": "beta", "messages": []}')
    assert (status, found["error"]["code"]) == (400, "invalid_json")


def test_a_body_that_does_not_come_is_no_reason_to_miss_a_deadline(gateway):
    head = (
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Timeout: 0.5\r\nContent-Length: 99\r\n\r\n"
    )
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as one:
        one.sendall(head + b"{")
        assert one.recv(4096).startswith(b"HTTP/1.1 504")
    assert time.monotonic() - began < 5  # of 60 s that a body may take


def test_what_the_parser_refuses_is_logged_by_name_and_without_what_was_sent(gateway):
    gateway.raw(b"GET /secret words HTTP/1.1\r\n\r\n", wait_s=2)
    (line,) = (json.loads(line) for line in gateway.logged().splitlines() if '"http"' in line)
    assert (line["what"], line["error"]) == ("bad_request", "BadStatusLine")
    assert "secret" not in gateway.logged()


REQUEST = b"POST /v1/chat/completions HTTP/1.%d\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"


def half_closed(gateway, body: bytes, *, minor: int = 1) -> bytes:
    """A client that says that it sends nothing more, and reads to the end."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as one:
        one.sendall(REQUEST % (minor, len(body), body))
        one.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: one.recv(65536), b""))


@pytest.mark.parametrize("stream", [False, True])
def test_who_closes_its_own_side_still_gets_its_answer(gateway, stream):
    gateway.stub("alpha", token_s=0.1)
    told = {"model": "alpha", "messages": [], "stream": stream, "max_tokens": 4}
    try:
        found = half_closed(gateway, json.dumps(told).encode())
    finally:
        gateway.stub("alpha", token_s=0)
    *interim, answer = found.split(b"HTTP/1.1 ")[1:]
    assert answer.startswith(b"200")
    assert set(interim) <= {b"100 Continue\r\n\r\n"}
    assert (b"[DONE]" if stream else b'"content"') in answer


def test_who_leaves_before_its_answer_begins_is_noticed(gateway):
    gateway.stub("alpha", token_s=0.1)
    body = json.dumps({"model": "alpha", "messages": [], "max_tokens": 1000}).encode()
    try:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as one:
            one.sendall(REQUEST % (1, len(body), body))
            end = time.monotonic() + 5
            while not gateway.stub("alpha")["running"] and time.monotonic() < end:
                time.sleep(0.02)
        while gateway.stub("alpha")["running"] and time.monotonic() < end:
            time.sleep(0.02)
        assert gateway.stub("alpha")["running"] == 0
    finally:
        gateway.stub("alpha", token_s=0)


@pytest.mark.parametrize(
    ("body", "minor"), [(b'{"model": "alpha"', 1), (b'{"model": "alpha", "messages": []}', 0)]
)
def test_half_of_a_request_and_old_clients_end_as_they_did(gateway, body, minor):
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as one:
        one.sendall(REQUEST % (minor, len(body) + minor, body))
        one.shutdown(socket.SHUT_WR)
        found = b"".join(iter(lambda: one.recv(65536), b""))
    assert b"100 Continue" not in found
    assert time.monotonic() - began < 5


def test_headers_that_never_end_close_the_connection(monkeypatch):
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
