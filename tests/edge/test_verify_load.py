"""Streams that are none, as verify's requests meet them."""

from __future__ import annotations

import io
import time

import pytest

from cotenant.domain.verification import Ask
from cotenant.edge.verifying.load import HttpLoad, _streamed


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
