"""What stands before the engine's own words: containers, timestamps, processes, JSON.

vllm-1  | (EngineCore_DP0 pid=271) (Worker_TP0 pid=280) INFO 11-02 04:20:48 [gpu_worker.py:298] Available ...
└ source   └ processes, outermost first, each with what its name says of its rank     └ text
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_DAY_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
# Each takes one prefix off the front; a group `source` names where the line came from.
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_DAY_TIME} (?:stdout|stderr) [FP] ",  # CRI, as a node keeps it
        rf"{_DAY_TIME}\s+(?:\|\s*)?(?=\S)",
        r"(?P<source>[A-Za-z0-9][\w.-]{0,80}?)\s+\|(?!\s*\d+(?:\.\d+)?\s*$) ?",  # docker compose
        r"\[(?P<source>pod/[\w./-]{1,200})\] ",  # kubectl logs --prefix
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,80} (?P<source>[\w.@/-]{1,80}?)(?:\[\d+\])?: ",  # journal
        rf"{_DAY_TIME} \S{{1,80}} (?P<source>[\w.@/-]{{1,80}}?)\[\d+\]: ",  # journalctl -o short-iso
        r"\[\d+,(?P<mpi>\d+)\]<std(?:out|err)>: ?",  # mpirun --tag-output
    )
)
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z]\w{0,60})(?: rank=(?P<rank>\d+))?[ ,]+pid=(?P<pid>\d+)(?:, ip=[^)]{1,60})?\)"
)
_LABEL = re.compile(r"(?:^|_)((?:[A-Z]{2,3}\d+_?)+)$")
_RANKS = (
    re.compile(
        r"^\W{0,3}\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d((?: [A-Z]{2,4}\d+)+)\]"
    ),  # SGLang: [2025-01-01 00:00:00 TP0]
    re.compile(r"\[RANK (\d+)\]"),
    re.compile(r"\brank=(\d+)\s*$"),
)
_MESSAGES = ("log", "message", "msg", "MESSAGE", "textPayload", "text", "content")
_SOURCES = ("container_name", "_SYSTEMD_UNIT", "service", "pod")
MAX_JSON = 65536


@dataclass(frozen=True, slots=True)
class Process:
    """One process of an engine: its name (EngineCore_DP0), number and rank ("" where the name holds none)."""

    name: str
    pid: int
    rank: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line taken apart. `rank` is the innermost that is said; `processes` are outermost first."""

    number: int
    source: str
    processes: tuple[Process, ...]
    rank: str
    text: str


def entries(number: int, line: str) -> Iterator[Entry]:
    """The messages of one line: one, or several where a JSON entry holds several."""
    source, messages = _unwrapped(line)
    for message in messages:
        yield _entry(number, source, message)


def _unwrapped(line: str) -> tuple[str, list[str]]:
    """(source, messages) of a line that may be a JSON entry; a cut one is taken as it stands."""
    place = line.find("{")
    if not (0 <= place < 200 and line.rstrip().endswith("}") and len(line) <= MAX_JSON and '":' in line):
        return "", [line]
    source, _ = _stripped(line[:place])
    try:
        value = json.loads(line[place:])
    except (ValueError, RecursionError):
        return "", [line]
    if not isinstance(value, dict):
        return "", [line]
    fields = value.get("fields")
    inner = fields if isinstance(fields, dict) else {}
    message = next(
        (m for word in _MESSAGES for m in (value.get(word), inner.get(word)) if isinstance(m, str)), None
    )
    if message is None:
        return "", [line]
    named = next((value[word] for word in _SOURCES if isinstance(value.get(word), str)), source)
    span = value.get("span")
    rank = f" rank={span['rank']}" if isinstance(span, dict) and isinstance(span.get("rank"), int) else ""
    if "Args {" in message:  # TGI prints its arguments over many lines
        message = " ".join(message.split())
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", message)
    return named, [part + rank for part in plain.splitlines() if part.strip()]


def _stripped(text: str) -> tuple[str, str]:
    """(source, the rest) with every known prefix taken off."""
    source = ""
    for _ in range(5):
        match = next((m for prefix in _PREFIXES if (m := prefix.match(text)) is not None), None)
        if match is None:
            break
        source = source or match.groupdict().get("source") or ""
        text = text[match.end() :]
    return source, text


def _entry(number: int, source: str, message: str) -> Entry:
    found, text = _stripped(message.lstrip())
    processes = tuple(
        Process(match["name"], int(match["pid"][:12]), match["rank"] or _label(match["name"]))
        for match in _PROCESS.finditer(text[:400])
    )
    rank = next((process.rank for process in reversed(processes) if process.rank), "")
    return Entry(number, source or found, processes, rank or _rank(text), text)


def _rank(text: str) -> str:
    """The rank that stands in the line itself."""
    matches = (_RANKS[0].search(text[:200]), _RANKS[1].search(text[:200]), _RANKS[2].search(text[-40:]))
    return next((match.group(1).strip() for match in matches if match is not None), "")


def _label(name: str) -> str:
    """What a process's name says of its rank: Worker_DP0_TP1 -> DP0_TP1; an engine core's DP0 is none."""
    match = _LABEL.search(name)
    return match.group(1).strip("_") if match and not name.startswith("EngineCore") else ""
