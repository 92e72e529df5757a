"""Request traces: text lines -> `Trace`. CSV with a header, or JSON lines; public traces read as they are.

Columns go by name, whatever their order (Azure 2023 TIMESTAMP, ContextTokens, GeneratedTokens; BurstGPT Timestamp,
Request tokens, Response tokens; Aegaeon Request Time, Input Length, Output Length; Mooncake timestamp in ms,
input_length, output_length, and hash_ids, which say what blocks prompts begin with alike). Files that benchmarks
take may hold no times, and are then not timed: `vllm bench serve`'s prompt and output_tokens, guidellm's
prompt_tokens_count and output_tokens_count, genai-perf's text_input (aiperf's input_length) and output_length.
Reading is bounded in rows and in the length of a line.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from math import isfinite
from typing import NamedTuple

from cotenant.domain.workload import Trace
from cotenant.errors import CotenantError, FormatError
from cotenant.units import plural

MOST_REQUESTS = 5_000_000
_LONGEST_LINE = 1_000_000  # a Mooncake request lists its prefix hashes
_MOST_TOKENS = 10_000_000
_LONGEST_S = 10 * 366 * 86_400  # a trace that lasts longer has its times in another unit
_HASHED_TOKENS = 512  # of a Mooncake block (github.com/kvcache-ai/Mooncake, FAST25-release/traces)
_TEXTS = ("prompt", "text", "textinput")  # names of the input that stand for the text itself
_NAMES: dict[str, tuple[str, ...]] = {
    "arrival": ("timestamp", "requesttime", "arrivaltime", "arrival", "arrivals", "time"),
    "input": (
        "contexttokens",
        "requesttokens",
        "inputlength",
        "inputtokens",
        "prompttokens",
        "prompttokenscount",
        "promptlen",
        *_TEXTS,
    ),
    "output": (
        "generatedtokens",
        "responsetokens",
        "outputlength",
        "outputtokens",
        "completiontokens",
        "outputlen",
        "outputtokenscount",
    ),
}
_WHEN = re.compile(
    r"(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?=\d\d:\d\d:\d\d))?"
    r"(?P<hours>\d{1,6}):(?P<minutes>[0-5]?\d):(?P<seconds>[0-5]?\d|60)(?P<part>\.\d+)?"
    r"(?:Z|(?P<east>[+-])(?P<zone_hours>[01]\d|2[0-3]):?(?P<zone_minutes>[0-5]\d))?"
)
_HINT = "a CSV with a header, or JSON lines, with a time and the tokens in and out of each request"


def read_trace(lines: Iterable[str], *, name: str) -> Trace:
    """The trace in `lines`, ordered by arrival. Raises FormatError naming the line that cannot be read."""
    bounded = _bounded(lines, name)
    number, first = next(((at, line) for at, line in enumerate(bounded) if line.strip()), (0, ""))
    if not first:
        raise FormatError(f"{name} holds no requests", hint=_HINT)
    if first.strip() == "{":
        raise FormatError(f"{name} is JSON over several lines, not a request a line", hint=_HINT)
    rows = _json_rows if first.lstrip().startswith("{") else _csv_rows
    listed = list(rows(chain([first], bounded), name, number))
    if not listed:
        raise FormatError(f"{name} holds no requests", hint=_HINT)
    found = sorted(listed, key=lambda row: row.moment or 0.0)
    timed = found[0].moment is not None
    hashed = any(row.blocks for row in found)
    start, end = found[0].moment or 0.0, found[-1].moment or 0.0
    if end - start > _LONGEST_S:
        raise FormatError(
            f"{name} lasts {end - start:.3g} s, more than ten years",
            hint="times are seconds in a CSV, milliseconds in JSON lines",
        )
    return Trace(
        name=name,
        arrivals_s=tuple((row.moment or 0.0) - start if timed else 0.0 for row in found),
        input_tokens=tuple(row.given for row in found),
        output_tokens=tuple(row.written for row in found),
        seen_tokens=_seen(found),
        timed=timed,
        blocks=tuple(row.blocks for row in found) if hashed else (),
        block_tokens=_HASHED_TOKENS if hashed else 0,
        notes=tuple(_notes(listed)),
    )


def looks_like_trace(line: str) -> bool:
    """Whether `line` could be a trace's first: the header of a CSV, or a request in JSON."""
    if len(line) > _LONGEST_LINE:
        return False
    try:
        words = (
            list(json.loads(line))
            if line.startswith("{")
            else next(csv.reader([line], strict=True, delimiter=_separator(line)), [])
        )
        return len(words) > 1 and len(_columns([str(word) for word in words], "")) > 0
    except (CotenantError, ValueError, TypeError, RecursionError, csv.Error):
        return False


class Row(NamedTuple):
    """One line: seconds (None: not said), tokens in and out, and what the blocks of its prompt are called."""

    moment: float | None
    given: int
    written: int
    blocks: tuple[int, ...] = ()
    empty: bool = False  # a prompt of no tokens, counted as one


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """What is odd, and what was made of it."""
    back = sum((after.moment or 0.0) < (before.moment or 0.0) for before, after in pairwise(rows))
    if back:
        yield f"{plural(back, 'request')} listed after later ones: put in order of time"
    empty = sum(row.empty for row in rows)
    if empty:
        yield f"{plural(empty, 'prompt')} without tokens: counted as one each"
    silent = sum(row.written == 0 for row in rows)
    if silent:
        yield f"{plural(silent, 'request')} without an answer: prompts are read all the same"


def _seen(rows: Sequence[Row]) -> tuple[int, ...]:
    """How many tokens each prompt begins with that an earlier one began with too. A block's name stands for all
    before it as well (Mooncake), so the first block that is new ends what was seen."""
    if not any(row.blocks for row in rows):
        return ()
    known: set[int] = set()
    found = []
    for row in rows:
        fresh = next((place for place, block in enumerate(row.blocks) if block not in known), len(row.blocks))
        found.append(min(row.given, fresh * _HASHED_TOKENS))
        known.update(row.blocks)
    return tuple(found)


def _bounded(lines: Iterable[str], name: str) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number > MOST_REQUESTS:
            raise FormatError(f"{name} has more than {MOST_REQUESTS:,} requests", hint="cut it, or sample it")
        if len(line) > _LONGEST_LINE:
            raise FormatError(
                f"line {number + 1} of {name} is longer than {_LONGEST_LINE:,} characters", hint=_HINT
            )
        yield line


def _csv_rows(lines: Iterable[str], name: str, before: int) -> Iterator[Row]:
    """`before`: lines that stand above these in the file."""
    head = next(iter(lines))
    reader = csv.reader(chain([head], lines), strict=True, delimiter=_separator(head))
    try:
        columns = _columns(next(reader), name)
        for cells in reader:
            if cells:
                try:
                    arrival, given, written = (None if column is None else cells[column] for column in columns)
                    yield _row(None if arrival is None else _seconds(arrival), given, written)
                except IndexError:
                    short = ValueError(f"only {plural(len(cells), 'column')}, fewer than the header")
                    raise _bad_line(name, before + reader.line_num, short) from None
                except (ValueError, OverflowError) as error:
                    raise _bad_line(name, before + reader.line_num, error) from None
    except csv.Error as error:
        raise _bad_line(name, before + reader.line_num, error) from None


def _separator(head: str) -> str:
    """As spreadsheets write it where a comma marks decimals: a semicolon, or a tabulator."""
    return next((sign for sign in (",", ";", "\t") if sign in head), ",")


def _json_rows(lines: Iterable[str], name: str, before: int) -> Iterator[Row]:
    """`before`: lines that stand above these in the file."""
    keys: list[str | None] = []
    text = False
    for number, line in enumerate(lines, start=before + 1):
        if not line.strip():
            continue
        try:
            value = _object(line)
            if not keys:
                keys = [None if at is None else list(value)[at] for at in _columns(list(value), name)]
                text = _plain(keys[1] or "") in _TEXTS
            arrival, given, written = (None if key is None else _named(value, key) for key in keys)
            moment = None if arrival is None and keys[0] is None else _milliseconds(arrival)
            yield _row(moment, _tokens_of(given) if text else given, written, _blocks(value.get("hash_ids")))
        except (ValueError, OverflowError) as error:
            raise _bad_line(name, number, error) from None


def _object(line: str) -> dict[str, object]:
    """One request as JSON; ValueError in plain words for anything else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - told as a line that is bad
    return value


def _named(value: dict[str, object], key: str) -> object:
    if key not in value:
        raise ValueError(f"{key[:40]!r} is missing")
    return value[key]


def _columns(header: list[str], name: str) -> tuple[int | None, int, int]:
    """Where the arrival (if any), the input and the output stand."""
    plain = [_plain(word) for word in header]
    places = [next((plain.index(word) for word in words if word in plain), None) for words in _NAMES.values()]
    missing = [what for what, place in zip(_NAMES, places, strict=True) if place is None and what != "arrival"]
    if missing:
        shown = ", ".join(header)[:80]
        raise FormatError(f"{name} has no column for {' and '.join(missing)} among {shown!r}", hint=_HINT)
    arrival, given, written = places
    return arrival, given or 0, written or 0


def _plain(word: str) -> str:
    """A name as `_NAMES` has them."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


def _tokens_of(given: object) -> object:
    """Of a text, about one for four characters; of a count, itself."""
    return (max(1, round(len(given) / 4)) if given else 0) if isinstance(given, str) else given


def _blocks(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if not (isinstance(value, list) and all(type(one) is int for one in value)):
        raise ValueError("hash_ids are whole numbers")
    return tuple(value)


def _row(moment: float | None, given: object, written: object, blocks: tuple[int, ...] = ()) -> Row:
    tokens = [_number(value) for value in (given, written)]
    for said, value in zip((given, written), tokens, strict=True):
        if not (isfinite(value) and 0 <= value <= _MOST_TOKENS):
            raise ValueError(f"{said!r} is no number of tokens (0 to {_MOST_TOKENS:,})")
    if moment is not None and not isfinite(moment):
        raise ValueError("the time is not finite")
    if moment is not None and moment < 0:
        raise ValueError(f"the time {moment:g} s lies before zero")
    read = round(tokens[0])
    return Row(moment, max(1, read), round(tokens[1]), blocks, empty=read == 0)


def _number(value: object) -> float:
    try:
        return _decimal(str(value))
    except ValueError:
        raise ValueError(f"{str(value)[:40]!r} is not a number of tokens") from None


def _decimal(text: str) -> float:
    """A number in plain digits; Python would take 1_000 too, and the digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def _seconds(text: object) -> float:
    """A number of seconds, a clock time or a date with a time, in UTC or so far from it (Azure 2024's +00:00)."""
    word = str(text).strip()
    try:
        return _decimal(word)
    except ValueError:
        pass
    found = _WHEN.fullmatch(word)
    if found is None:
        raise ValueError(f"{word[:40]!r} is not a time")
    clock = [int(found[name]) for name in ("hours", "minutes", "seconds")]
    east = [int(found[name] or 0) for name in ("zone_hours", "zone_minutes")]
    away = (east[0] * 3600 + east[1] * 60) * (-1 if found["east"] == "-" else 1)
    part = float(f"0{found['part'] or ''}")
    return _midnight(found) + clock[0] * 3600 + clock[1] * 60 + clock[2] - away + part


def _midnight(found: re.Match[str]) -> int:
    """Seconds from 1970 to the day of a date; none for a clock time."""
    if found["year"] is None:
        return 0
    year, month, day = (int(found[name]) for name in ("year", "month", "day"))
    if not (1 <= month <= 12 and 1 <= day <= _days(year, month + 1, 1) - _days(year, month, 1)):
        raise ValueError(f"{found[0]!r} is no day of the calendar")
    return _days(year, month, day) * 86_400


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 by the Gregorian calendar; the year starts in March, so that leap days come last."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return year * 365 + year // 4 - year // 100 + year // 400 + (month * 153 + 2) // 5 + day - 719_469


def _milliseconds(value: object) -> float:
    """JSON traces count milliseconds where the time is a number (Mooncake)."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(str(value)) / 1000 if number else _seconds(value)


def _bad_line(name: str, number: int, error: Exception) -> FormatError:
    return FormatError(f"line {number} of {name} cannot be read: {str(error)[:80]}", hint=_HINT)
