"""The requests of `verify`: streams that are none, what is under way when a step ends."""

from __future__ import annotations

import io
import subprocess
import sys
import time

import pytest

from cotenant.domain.verification import Ask
from cotenant.edge.engines.calls import call_json
from cotenant.edge.verifying.load import HttpLoad, _streamed
from tests.edge.verified import STUB, engine_at, port


@pytest.mark.parametrize("data", ["5", "null", "[]", '"words"', "true"])
def test_an_event_that_is_no_object_is_an_error_of_the_engine(data):
    reply = _streamed(Ask("chat", 4, 4), io.BytesIO(f"data: {data}\n\n".encode()), time.monotonic())
    assert reply.error == f"an event that is none: {data}"


def test_a_fault_of_ours_is_not_lost_in_a_thread(monkeypatch):
    class Engine:
        """Reads nothing."""

        def reading(self):
            return None

    def broken(*_):
        raise ZeroDivisionError

    load = HttpLoad({"chat": Engine()}, seed=1, vocabulary={}, sample_s=0.01)
    monkeypatch.setattr(load, "ask", broken)
    with pytest.raises(ZeroDivisionError):
        load.send([Ask("chat", 4, 4)], concurrency={"chat": 1}, stop=lambda *_: "")


def test_what_is_under_way_ends_with_the_step(tmp_path):
    """A rule that stops a step takes back what it sent: nobody's engine goes on answering for nobody."""
    theirs = subprocess.Popen([sys.executable, "-S", str(STUB), "--port", str(number := port())])
    try:
        engine = engine_at(f"http://127.0.0.1:{number}", tmp_path)
        engine.start()
        load = HttpLoad({"chat": engine}, seed=1, vocabulary={}, sample_s=0.02)
        busy = lambda: call_json(engine.url, "/_stub", method="POST", body={})["running"]  # noqa: E731
        call_json(engine.url, "/_stub", method="POST", body={"fail": "stall", "after": 1, "times": 2})
        began = time.monotonic()
        asks = [Ask("chat", 4, 4)] * 5

        def full(_reading, _replies):
            return "its pool is 95% full" if busy() == 2 else ""

        replies, _, stopped = load.send(asks, concurrency={"chat": 2}, stop=full)
        assert (replies, stopped) == ((), "its pool is 95% full")
        while busy():
            assert time.monotonic() - began < 60
        call_json(engine.url, "/_stub", method="POST", body={"fail": "stall", "after": 1, "times": 1})

        def interrupted(_reading, _replies):
            if busy():
                raise KeyboardInterrupt
            return ""

        later = [*asks, Ask("chat", 4, 4, at_s=300.0)]  # of an open loop, not sent yet
        with pytest.raises(KeyboardInterrupt):
            load.send(later, concurrency={"chat": 9}, stop=interrupted)
        while busy():
            assert time.monotonic() - began < 60
        replies, _, stopped = load.send(asks, concurrency={"chat": 2}, stop=lambda *_: "")
        assert (len(replies), stopped, [one.error for one in replies]) == (5, "", [""] * 5)
    finally:
        theirs.kill()
        theirs.wait()
