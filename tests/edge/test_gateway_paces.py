"""How fast streams came, by event: what the live tab holds to a TPOT target."""

from __future__ import annotations

import re

import pytest

from cotenant.edge.gateway.relay import _count


def figure(text: str, name: str) -> float:
    found = re.search(rf'^cotenant_event_seconds_{name}{{model="alpha"}} (\S+)$', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_streams_tell_their_pace_and_answers_in_one_piece_none(own):
    one = own(stub=("--token-s", "0.05"))
    assert one.chat("alpha", max_tokens=3)[0] == 200
    assert figure(one.ask("/metrics")[2], "count") == 0
    stream = one.stream("alpha", max_tokens=10)
    stream.read()
    text = one.ask("/metrics")[2]
    assert figure(text, "count") == 1
    # ten words, then one event that says why it ended: nine gaps of 50 ms among ten
    assert 0.8 * 0.045 < figure(text, "sum") < 3 * 0.045


@pytest.mark.parametrize(
    ("events", "count"),
    [
        (b'data: {"a": 1}\n\n', 1),
        (b'data: {"a": 1}\n\ndata: {"a": 2}\n\n', 2),
        (b'data: {"text": "\\ndata: no"}\n\n', 1),
        (b': a remark\n\ndata: {"a": 1}\r\n\r\ndata: [DONE]\n\n', 1),
        (b"data: [DONE]\n\n", 0),
        (b'data:{"a": 1}\n\ndata:[DONE]\r\n\r\n', 1),
        (b'data: {"text": "data: [DONE]"}\n\n', 1),
        (b": a remark\n\n", 0),
    ],
)
def test_events_are_counted(events, count):
    assert _count(events) == count
