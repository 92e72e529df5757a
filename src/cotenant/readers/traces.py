"""Request traces: text lines -> `Trace`. CSV with a header, or JSON lines; public traces read as they are.

Columns go by name, whatever their order (Azure 2023 TIMESTAMP, ContextTokens, GeneratedTokens; BurstGPT Timestamp,
Request tokens, Response tokens; Aegaeon Request Time, Input Length, Output Length; Mooncake timestamp in ms,
input_length, output_length). Reading is bounded in rows and in the length of a line.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from math import isfinite

from cotenant.domain.workload import Trace
from cotenant.errors import FormatError

MOST_REQUESTS = 5_000_000
_LONGEST_LINE = 1_000_000  # a Mooncake request lists its prefix hashes
_MOST_TOKENS = 10_000_000
_NAMES: dict[str, tuple[str, ...]] = {
    "arrival": ("timestamp", "requesttime", "arrivaltime", "arrival", "arrivals", "time"),
    "input": ("contexttokens", "requesttokens", "inputlength", "inputtokens", "prompttokens", "promptlen"),
    "output": (
        "generatedtokens",
        "responsetokens",
        "outputlength",
        "outputtokens",
        "completiontokens",
        "outputlen",
    ),
}
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d:\d\d:\d\d)Z?")
_HINT = "a CSV with a header, or JSON lines, with a time and the tokens in and out of each request"


def read_trace(lines: Iterable[str], *, name: str) -> Trace:
    """The trace in `lines`, ordered by arrival. Raises FormatError naming the line that cannot be read."""
    bounded = _bounded(lines, name)
    first = next((line for line in bounded if line.strip()), None)
    if first is None:
        raise FormatError(f"{name} holds no requests", hint=_HINT)
    rows = _json_rows if first.lstrip().startswith("{") else _csv_rows
    found = sorted(rows(chain([first], bounded), name), key=lambda row: row[0])
    if not found:
        raise FormatError(f"{name} holds no requests", hint=_HINT)
    start = found[0][0]
    return Trace(
        name=name,
        arrivals_s=tuple(arrival - start for arrival, _, _ in found),
        input_tokens=tuple(tokens for _, tokens, _ in found),
        output_tokens=tuple(tokens for _, _, tokens in found),
    )


Row = tuple[float, int, int]


def _bounded(lines: Iterable[str], name: str) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number > MOST_REQUESTS:
            raise FormatError(f"{name} has more than {MOST_REQUESTS:,} requests", hint="cut it, or sample it")
        if len(line) > _LONGEST_LINE:
            raise FormatError(
                f"line {number + 1} of {name} is longer than {_LONGEST_LINE:,} characters", hint=_HINT
            )
        yield line


def _csv_rows(lines: Iterable[str], name: str) -> Iterator[Row]:
    reader = csv.reader(lines, strict=True)
    try:
        columns = _columns(next(reader), name)
        for cells in reader:
            if cells:
                try:
                    arrival, given, written = (cells[column] for column in columns)
                    yield _row(_seconds(arrival), given, written)
                except (IndexError, ValueError, OverflowError) as error:
                    raise _bad_line(name, reader.line_num, error) from None
    except csv.Error as error:
        raise _bad_line(name, reader.line_num, error) from None


def _json_rows(lines: Iterable[str], name: str) -> Iterator[Row]:
    keys: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            keys = keys or [list(value)[column] for column in _columns(list(value), name)]
            arrival, given, written = (value[key] for key in keys)
            yield _row(_milliseconds(arrival), given, written)
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise _bad_line(name, number, error) from None


def _columns(header: list[str], name: str) -> tuple[int, int, int]:
    """Where the arrival, the input and the output stand."""
    plain = ["".join(letter for letter in word.lower() if letter.isalnum()) for word in header]
    places = [next((plain.index(word) for word in words if word in plain), None) for words in _NAMES.values()]
    missing = [what for what, place in zip(_NAMES, places, strict=True) if place is None]
    if missing:
        shown = ", ".join(header)[:80]
        raise FormatError(f"{name} has no column for {' and '.join(missing)} among {shown!r}", hint=_HINT)
    arrival, given, written = (place or 0 for place in places)
    return arrival, given, written


def _row(moment: float, given: object, written: object) -> Row:
    tokens = [float(str(value)) for value in (given, written)]
    if not all(isfinite(value) and 0 <= value <= _MOST_TOKENS for value in tokens):
        raise ValueError(f"{given!r} and {written!r} tokens")
    if not isfinite(moment):
        raise ValueError("the time is not finite")
    return moment, max(1, round(tokens[0])), round(tokens[1])


def _seconds(text: object) -> float:
    """A number of seconds, a clock time or a date with a time."""
    word = str(text).strip()
    try:
        return float(word)
    except ValueError:
        pass
    head, _, fraction = word.partition(".")
    digits = fraction.rstrip("Z")
    part = float(f"0.{digits}") if digits.isdigit() else 0.0
    if "-" not in head:
        return _clock(head) + part
    match = _DATE.fullmatch(head + ("Z" if fraction.endswith("Z") else ""))
    if match is None:
        raise ValueError(f"{word!r} is not a time")
    year, month, day = (int(piece) for piece in match.group(1, 2, 3))
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(f"{word!r} is no day of the calendar")
    return _days(year, month, day) * 86_400 + _clock(match.group(4)) + part


def _clock(text: str) -> int:
    hours, minutes, seconds = (int(piece) for piece in text.split(":"))
    return hours * 3600 + minutes * 60 + seconds


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 by the Gregorian calendar; the year starts in March, so that leap days come last."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return year * 365 + year // 4 - year // 100 + year // 400 + (month * 153 + 2) // 5 + day - 719_469


def _milliseconds(value: object) -> float:
    """JSON traces count milliseconds where the time is a number (Mooncake)."""
    return float(value) / 1000 if isinstance(value, (int, float)) else _seconds(value)


def _bad_line(name: str, number: int, error: Exception) -> FormatError:
    return FormatError(f"line {number} of {name} cannot be read: {str(error)[:80]}", hint=_HINT)
