"""Traces as they are published, and as hostile hands leave them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.errors import FormatError
from cotenant.readers.traces import read_trace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:03.9799600,4808,10
"""
AEGAEON = "Request Time,Model Name,Input Length,Output Length\n00:00:03.071,m,619,503\n00:01:05.068,m,706,28\n"
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,api\n"
MOONCAKE = '{"timestamp": 27000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}\n'


def read(text: str) -> tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]:
    trace = read_trace(text.splitlines(keepends=True), name="t.csv")
    return trace.arrivals_s, trace.input_tokens, trace.output_tokens


def test_public_traces_are_read_as_they_are() -> None:
    assert read(AZURE) == (pytest.approx((0.0, 0.052)), (4808, 3180), (10, 8))
    assert read(AEGAEON) == (pytest.approx((0.0, 61.997)), (619, 706), (503, 28))
    assert read(BURSTGPT) == ((0.0,), (472,), (18,))
    assert read(MOONCAKE + MOONCAKE.replace("27000", "30500")) == ((0.0, 3.5), (6758, 6758), (500, 500))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no requests"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no requests"),
        ("time,input tokens\n1,2\n", "no column for output"),
        ("<html><body>404</body></html>\n", "no column"),
        (AZURE + "2023-11-16 18:17:03,x,1\n", "line 4"),
        (AZURE + "2023-11-16 18:17:03,-5,1\n", "line 4"),
        (AZURE + "2023-11-16 18:17:03,nan,1\n", "line 4"),
        (AZURE + "2023-11-16 18:17:03,99999999999,1\n", "line 4"),
        (AZURE + "yesterday,1,1\n", "line 4"),
        (AZURE + "2023-11-16 18:17:03\n", "line 4 .* only 1 column, fewer than the header"),
        (AZURE + "2023-02-29 18:17:03,1,1\n", "no day of the calendar"),
        (AZURE + "2023-11-16 18:61:03,1,1\n", "line 4 .* '2023-11-16 18:61:03' is not a time"),
        (AZURE + ",1,1\n", "line 4 .* '' is not a time"),
        ("\n  \n" + AZURE + ",1,1\n", "line 6 .* '' is not a time"),
        ("\n\n" + MOONCAKE + "[1, 2]\n", "line 4 .* not a JSON object"),
        (AZURE + "2023-11-16 18:17:03,1_000,1\n", "line 4 .* '1_000' is not a number of tokens"),
        (AZURE + "2023-11-16 18:17:03,\u0663,1\n", "line 4 .* is not a number of tokens"),
        (BURSTGPT + "1_0,ChatGPT,1,1,2,api\n", "line 3 .* '1_0' is not a time"),
        (AZURE + "2023-11-16 18:17:03,,1\n", "line 4 .* '' is not a number of tokens"),
        (BURSTGPT + "1e12,ChatGPT,1,1,2,api\n", "lasts 1e.12 s, more than ten years"),
        (BURSTGPT + "1e300,ChatGPT,1,1,2,api\n", "more than ten years"),
        (MOONCAKE + MOONCAKE.replace("27000", "true"), "line 2 .* 'True' is not a time"),
        (MOONCAKE + MOONCAKE.replace("27000", "null"), "line 2 .* 'None' is not a time"),
        (MOONCAKE + "[1, 2]\n", "line 2"),
        (MOONCAKE + '{"timestamp": 1}\n', "line 2"),
        (MOONCAKE + "{" * 100_000 + "\n", "line 2"),
        ("x" * 2_000_000, "longer than"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read(text)


@given(
    st.text(max_size=300)
    | st.builds(lambda cut, junk: AZURE[:cut] + junk, st.integers(0, 120), st.text(max_size=40))
)
def test_only_our_own_errors_leave_the_reader(text: str) -> None:
    with suppress(FormatError):
        read(text)


def test_what_is_odd_is_said() -> None:
    rows = ["Timestamp,Request tokens,Response tokens", "5,10,1", "3,0,2", "4,7,0"]
    found = read_trace(rows, name="t.csv")
    assert found.arrivals_s == (0, 1, 2)
    assert found.input_tokens == (1, 7, 10)
    assert [note.partition(":")[0] for note in found.notes] == [
        "1 request listed after later ones",
        "1 prompt without tokens",
        "1 request without an answer",
    ]


def test_times_before_zero_are_refused() -> None:
    with pytest.raises(FormatError, match="cannot be read: the time -5 s lies before zero"):
        read_trace(["Timestamp,Request tokens,Response tokens", "-5,10,1"], name="t.csv")


def test_a_leap_day_and_a_leap_second_are_times() -> None:
    rows = [
        "2024-02-29 23:59:59,1,1",
        "2024-03-01 00:00:00,1,1",
        "2016-12-31 23:59:60,1,1",
        "2017-01-01 00:00:01,1,1",
    ]
    for first, second, apart in ((rows[0], rows[1], 1.0), (rows[2], rows[3], 1.0)):
        assert read("\n".join(["time,input tokens,output tokens", first, second]))[0] == (0.0, apart)


def test_block_names_are_kept() -> None:
    row = '{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [7, 9]}'
    found = read_trace([row], name="m.jsonl")
    assert (found.blocks, found.block_tokens) == (((7, 9),), 512)


def test_a_time_says_how_far_it_is_from_utc() -> None:
    """As Azure's traces of 2024 do; of two clocks the same moment is the same."""
    rows = [
        "2024-05-10 00:00:00.500000+00:00,1,1",
        "2024-05-10T01:30:00.75+01:30,1,1",
        "2024-05-09 19:00:01-0500,1,1",
    ]
    assert read("\n".join(["time,input tokens,output tokens", *rows]))[0] == (0.0, 0.25, 0.5)
    with pytest.raises(FormatError, match="is not a time"):
        read("time,input tokens,output tokens\n2024-05-10 00:00:00.half,1,1\n")


def test_a_prompt_is_a_text_whatever_it_says() -> None:
    rows = ['{"prompt": "20240510", "output_tokens": 3}', '{"prompt": "", "output_tokens": 3}']
    found = read_trace(rows, name="t.jsonl")
    assert found.input_tokens == (2, 1)
    assert found.notes == ("1 prompt without tokens: counted as one each",)
