# ruff: noqa: E501 - log lines are long
"""Logs cut, mangled and hostile: an answer or a refusal, in bounded time and memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.engines.logs import LOGS
from cotenant.errors import CotenantError
from cotenant.readers.logs import LogReading, read_log
from cotenant.readers.logs.blocks import BLOCK_BYTES
from cotenant.readers.logs.values import read_line
from tests.readers.logs import LOG_FILES, V0, one, values


def test_lines_without_end_are_cut() -> None:
    line = b"x" * (3 * BLOCK_BYTES) + b" Available KV cache memory: 4.75 GiB " + b"y" * (3 * BLOCK_BYTES)
    found = read_log([b"Model loading took 1.5 GiB and 3 s\n", line, b"\nGPU KV cache size: 38,944 tokens\n"])
    assert values(found.measurements[0], "weights_gib", "kv_cache_tokens") == [1.5, 38944]


def test_a_stream_of_any_size_needs_no_memory() -> None:
    """200 MB of a server's own lines, made on the way."""
    serving = (
        b"INFO 11-29 18:20:01 [loggers.py:123] Engine 000: Avg prompt throughput: 1234.5 tokens/s, Running: 12 reqs\n"
        b'INFO:     10.0.0.1:1234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    ) * 5000

    def stream() -> Iterator[bytes]:
        yield V0.encode()
        for _ in range(200_000_000 // len(serving)):
            yield serving
        yield b"ERROR ValueError: No available memory for the cache blocks.\n"

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reading = read_log(stream())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 64, f"{grown:.0f} MiB"
    assert reading.size_bytes > 199_000_000
    assert reading.measurements[0].failures[0].line == reading.lines


def test_a_hostile_log_fills_no_memory() -> None:
    """Thousands of figures of thousands of processes: the first are kept, and a note says so."""
    lines = b"".join(b"(Worker_TP%d pid=%d) Available KV cache memory: 1.5 GiB\n" % (n, n) for n in range(5_000))
    reading = read_log([lines])
    assert len(reading.measurements[0].figures) <= 2000
    assert reading.notes


def answered(data: bytes) -> LogReading | CotenantError:
    """What was read, or the refusal; anything else that is raised fails the test."""
    try:
        return read_log([data])
    except CotenantError as error:
        return error


def is_sound(answer: LogReading | CotenantError) -> bool:
    if isinstance(answer, CotenantError):
        return bool(answer.message)
    known = {log.engine for log in LOGS}
    return bool(answer.measurements) and all(
        found.engine in known and all(isfinite(figure.value) for figure in found.figures)
        for found in answer.measurements
    )


BY_NAME = pytest.mark.parametrize("path", LOG_FILES, ids=[path.stem for path in LOG_FILES])


@BY_NAME
def test_cut_anywhere_a_log_is_read_or_refused(path: Path) -> None:
    data = path.read_bytes()
    assert all(is_sound(answered(data[:end])) for end in range(0, len(data), max(1, len(data) // 40)))


@BY_NAME
@pytest.mark.parametrize("size", [1, 7, 100])
def test_pieces_of_any_size_read_alike(path: Path, size: int) -> None:
    data = path.read_bytes()
    if size == 1 and len(data) > 4000:
        data = data[: data.rfind(b"\n", 0, 4000) + 1]
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    try:
        told: object = read_log(pieces).measurements
    except CotenantError as error:
        told = error.message
    whole = answered(data)
    assert told == (whole.message if isinstance(whole, CotenantError) else whole.measurements)


ALL_LINES = [line for path in LOG_FILES for line in path.read_bytes().splitlines(keepends=True)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mangled_logs_never_break_it(data: st.DataObject) -> None:
    """Lines of every engine shuffled, cut, doubled and salted with noise: an answer or a refusal."""
    lines = data.draw(st.lists(st.sampled_from(ALL_LINES), max_size=40))
    for piece in data.draw(st.lists(st.binary(max_size=60), max_size=6)):
        lines.insert(data.draw(st.integers(0, len(lines))), piece)
    cut = data.draw(st.integers(0, 30))
    assert is_sound(answered(b"".join(lines)[cut:]))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ALL_LINES), st.integers(0, 400), st.binary(max_size=8))
def test_a_byte_changed_never_breaks_it(line: bytes, place: int, other: bytes) -> None:
    place = min(place, len(line))
    assert is_sound(answered(line[:place] + other + line[place + 1 :]))


@settings(max_examples=100, deadline=None)
@given(weights=st.integers(-(10**6), 10**7), tokens=st.integers(0, 10**9))
def test_figures_come_back_to_the_last_digit(weights: int, tokens: int) -> None:
    printed = f"{weights / 10**4:.4f}"
    found = one(f"Model loading took {printed} GiB and 3.2 seconds\nGPU KV cache size: {tokens:,} tokens\n")
    assert values(found, "weights_gib", "kv_cache_tokens") == [float(printed), tokens]


def test_a_hostile_line_takes_no_time() -> None:
    """20 KB of nothing but what is searched for, for every kind of line: no expression runs away."""
    kinds = [line for log in LOGS for line in log.lines]
    started = process_time()
    for line in kinds:
        read_line(line, (f"{line.needle} 1.5 GiB " * 20_000)[:20_000])
    assert process_time() - started < 0.05 * len(kinds)
