"""Bodies: how many values they may have, told without reading them; what is no JSON."""

from __future__ import annotations

import json
import time

import pytest

pytest.importorskip("aiohttp")

from hypothesis import given
from hypothesis import strategies as st

from bench.live_case import MIB, plan_document
from cotenant.edge.gateway.asked import MOST_VALUES, has_more_values, parsed
from cotenant.edge.gateway.refused import RefusedError

trees = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('a,[{"\\\\}]é'), max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def marks(value: object) -> int:
    """Brackets, braces and commas outside of texts."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(0, len(value) - 1) + sum(map(marks, value)) if isinstance(value, list) else 0


@given(trees, st.integers(0, 30), st.booleans())
def test_values_are_counted_as_json_has_them(tree, most, plain):
    body = json.dumps(tree, ensure_ascii=not plain).encode()
    assert has_more_values(body, most) is (marks(tree) > most)


@pytest.mark.parametrize("unit", [b"1,", b"[],", b'{"a":1},', b'"",', b'",",', b'"\\\\",'])
def test_a_body_of_too_many_values_is_refused_at_once(unit):
    body = b'{"model":"a","x":[' + unit * (31 * MIB // len(unit)) + b"1]}"
    began = time.process_time()
    with pytest.raises(RefusedError) as caught:
        parsed(body)
    assert (caught.value.status, caught.value.code) == (413, "request_too_large")
    assert time.process_time() - began < 2  # read, it took 10 to 30 s


def test_long_texts_and_a_million_tokens_are_read():
    text = 'a, [b], {c} and "d" \\ ' * (20 * MIB // 24)
    assert parsed(json.dumps({"prompt": text}).encode())["prompt"] == text
    tokens = [7] * (MOST_VALUES - 10)
    assert parsed(json.dumps({"prompt": tokens}).encode())["prompt"] == tokens


@pytest.mark.parametrize(
    "body",
    [
        '{"model": "a"}'.encode("utf-16"),
        '{"model": "a"}'.encode("utf-32-le"),
        b'\xef\xbb\xbf{"model": "a"}',
        b'{"model": "\xed\xa0\x80"}',
        b'{"model": "a\xff"}',
        b'{"model": "a", "model": "b"}',
        b'{"x": {"a": 1, "a": 2}}',
    ],
)
def test_what_an_engine_might_read_otherwise_is_no_json(body):
    with pytest.raises(RefusedError) as caught:
        parsed(body)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


def test_others_are_served_while_somebody_sends_what_takes_long_to_read(own):
    one = own(document=plan_document({"alpha": 100 * MIB}, 300 * MIB))
    one.wait_for("alpha", "ready")
    body = b'{"model":"alpha","messages":[' + b"[]," * 10 * MIB + b"[]]}"
    status, _, found = one.ask("/v1/chat/completions", body, timeout=60)
    assert (status, found["error"]["code"]) == (413, "request_too_large")
    assert one.chat("alpha")[0] == 200
    assert one.status()["replicas"][0]["failures"] == 0
