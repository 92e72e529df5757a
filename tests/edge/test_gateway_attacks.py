"""What breakers tried on the gateway: full disks, journals that lie, engines and clients that drip."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import struct
import threading
import time
from dataclasses import replace

import pytest

pytest.importorskip("aiohttp")

from aiohttp import web

from bench.live_case import MIB, Gateway, plan_document
from cotenant.domain.running import EngineProcess
from cotenant.edge.engines.calls import address, call
from cotenant.edge.gateway import guard
from cotenant.edge.gateway.hardware import check_hardware
from cotenant.edge.gateway.journal import Entry, Journal
from cotenant.edge.gateway.log import Log
from cotenant.edge.gateway.relay import _DONE, _events_end
from cotenant.errors import EngineError, InputError, InputErrors
from cotenant.readers.plan_document import read_plan
from cotenant.serving.from_plan import fleet_of

PROCESS = EngineProcess(1234, "boot/5", ("llama-server", "-m", "x"), "http://127.0.0.1:81", "log")


@pytest.fixture
def gateway(tmp_path):
    one = Gateway(tmp_path, plan_document({"alpha": 100 * MIB, "beta": 100 * MIB}, 300 * MIB))
    for model in ("alpha", "beta"):
        one.wait_for(model, "ready")
    yield one
    one.stop()


def test_a_disk_that_takes_nothing_stops_neither_serving_nor_the_watch(gateway):
    """No journal and no log can be written: engines that die are still seen, and started again."""
    state, moved = gateway.folder / "state", gateway.folder / "moved"
    first, _ = gateway.engines()
    state.rename(moved)
    state.write_text("no folder")
    os.kill(first, signal.SIGKILL)
    end = time.monotonic() + 10
    while '"engine_gone"' not in gateway.logged() and time.monotonic() < end:
        time.sleep(0.05)
    assert gateway.chat("alpha")[0] == gateway.chat("beta")[0] == 200
    assert gateway.logged().count('"journal_not_written"') == 1
    state.unlink()
    shutil.move(moved, state)
    end = time.monotonic() + 15
    while first in gateway.engines() and time.monotonic() < end:
        time.sleep(0.1)
    assert first not in gateway.engines()  # it has caught up
    assert len(gateway.engines()) == 2


def test_an_engine_that_is_stopped_by_its_keyboard_does_not_hold_up_the_end(tmp_path):
    document = plan_document({"alpha": 100 * MIB}, 300 * MIB)
    one = Gateway(tmp_path, document, "--drain", "0.5s")
    one.wait_for("alpha", "ready")
    (pid,) = one.engines()
    os.kill(pid, signal.SIGSTOP)  # hung: SIGTERM does not reach it
    answers = []
    asking = threading.Thread(target=lambda: answers.append(one.chat("alpha")))
    asking.start()
    time.sleep(0.3)
    assert one.stop(wait_s=30) == 0
    asking.join(10)
    assert answers[0][0] == 503
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": 2**70}, {"pid": -1}, {"pid": 0}, {"pid": 1}, {"pid": True}, {"pid": 5.0}, {"log": "a\0b"},
        {"url": "http://[::1"}, {"url": "http://127.0.0.1:99999"}, {"url": "http://a:b@127.0.0.1"}, {"argv": []},
        {"argv": "llama-server"}, {"argv": [1]}, {"started": None},
    ],
)  # fmt: skip
def test_a_journal_that_we_cannot_have_written_is_set_aside(tmp_path, changes):
    told = {"pid": 1234, "started": "boot/5", "argv": ["x"], "url": "http://127.0.0.1:81", "log": "log"} | changes
    text = json.dumps([{"replica": "a", "key": "key", "process": told}])
    (tmp_path / "engines.json").write_text(text)
    journal = Journal(tmp_path)
    assert journal.entries() == ()
    assert (tmp_path / "engines.corrupt").read_text() == text
    journal.close()


def test_a_key_that_would_split_a_header_is_none(tmp_path):
    row = {"replica": "a", "key": "a\r\nX: y", "process": {"pid": 9, "started": "b", "argv": ["x"], "log": ""}}
    row["process"]["url"] = PROCESS.url
    (tmp_path / "engines.json").write_text(json.dumps([row]))
    journal = Journal(tmp_path)
    assert journal.entries() == ()
    journal.close()


def test_two_engines_of_one_replica_stand_side_by_side_in_the_journal(tmp_path):
    journal = Journal(tmp_path)
    old, new = Entry("a", PROCESS, "old"), Entry("a", replace(PROCESS, pid=1235), "new")
    journal.put(old)
    journal.put(new)
    assert journal.entries() == (old, new)
    journal.drop(old.process)
    journal.close()
    again = Journal(tmp_path)
    assert again.entries() == (new,)
    again.close()


def test_state_that_cannot_be_kept_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot keep state"):
        Journal(tmp_path / "file" / "state")


# --- engines ---


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


# --- clients ---


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


# --- plans ---


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checkpoint": "--trust-remote-code"}, "read as a flag"),
        ({"model": "-x"}, "read as a flag"),
        ({"quantization_flag": "--trust-remote-code"}, "read as a flag"),
        ({"type_k": "--api-key"}, "read as a flag"),
        ({"adapters": [{"name": "--x", "rank": 8, "source": "y"}]}, "read as a flag"),
        ({"adapters": [{"name": "a=b", "rank": 8, "source": "y"}]}, "read as a flag"),
        ({"checkpoint": "a\0b"}, "NUL"),
        ({"n_ctx": 10**50}, "no number"),
        ({"n_parallel": 0}, "no number"),
        ({"n_ctx": -5}, "no number"),
        ({"devices": [{"type": "CPU", "node": 0, "index": 0}] * 2}, "twice"),
    ],
)
def test_a_plans_words_never_become_flags(changes, words):
    document = plan_document({"alpha": MIB, "beta": MIB}, 10 * MIB)
    assert read_plan(document).replicas[0].model == "alpha"
    document["replicas"][0] |= changes
    with pytest.raises(InputErrors) as caught:
        read_plan(document)
    assert any(words in fault.message for fault in caught.value.errors)


def test_two_engines_on_one_port_are_refused():
    document = plan_document({"alpha": MIB, "beta": MIB}, 10 * MIB)
    document["replicas"][1]["port"] = document["replicas"][0]["port"]
    with pytest.raises(InputErrors, match="listens on port"):
        read_plan(document)


def test_a_plan_for_a_larger_machine_is_refused():
    document = plan_document({"alpha": MIB}, 2**50)
    with pytest.raises(InputErrors, match=r"1\.00 PiB|1,024|1048576|of host memory; here there are"):
        check_hardware(fleet_of(read_plan(document)), Log())


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
