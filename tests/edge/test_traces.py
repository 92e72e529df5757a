"""Trace files that cannot be opened as text are refused with what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cotenant.edge import traces
from cotenant.edge.traces import named_traces, open_trace
from cotenant.errors import FormatError, InputError

TEXT = "time,input_tokens,output_tokens\n1,10,5\n2,20,6\n"


@pytest.mark.parametrize(
    "data", [gzip.compress(TEXT.encode(), mtime=0), TEXT.encode("utf-16"), b"time,input\xff\n"]
)
def test_what_is_no_text_says_so_and_what_to_do(tmp_path: Path, data: bytes) -> None:
    place = tmp_path / "t.csv"
    place.write_bytes(data)
    with pytest.raises(FormatError, match="is not text in UTF-8") as found:
        open_trace(place)
    assert "gunzip" in str(found.value.hint)


@pytest.mark.parametrize("data", [TEXT, "\ufeff" + TEXT, TEXT.replace("\n", "\r\n"), TEXT.replace("\n", "\r")])
def test_marks_and_line_ends_of_other_systems_are_read(tmp_path: Path, data: str) -> None:
    place = tmp_path / "t.csv"
    place.write_bytes(data.encode())
    found = open_trace(place)
    assert (found.arrivals_s, found.input_tokens, found.output_tokens) == ((0.0, 1.0), (10, 20), (5, 6))


def test_a_model_has_one_trace(tmp_path: Path) -> None:
    place = tmp_path / "t.csv"
    place.write_text(TEXT)
    assert list(named_traces([f"a={place}"], ["a", "b"])) == ["a"]
    with pytest.raises(InputError, match="two traces for 'a'"):
        named_traces([f"a={place}", f"a={place}"], ["a", "b"])


def test_too_many_lines_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five million requests are read at most; files short enough to hold no more are not counted."""
    place = tmp_path / "t.csv"
    place.write_text(TEXT + "3,30,7\n" * 3)
    monkeypatch.setattr(traces, "MOST_REQUESTS", 5)
    assert len(open_trace(place).arrivals_s) == 5
    monkeypatch.setattr(traces, "MOST_REQUESTS", 3)
    monkeypatch.setattr(traces, "read_trace", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(FormatError, match="has more than 3 requests"):
        open_trace(place)
