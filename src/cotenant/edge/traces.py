"""Opening request traces, as a fleet file or a command names them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cotenant.domain.workload import Trace
from cotenant.errors import FormatError, InputError
from cotenant.readers.traces import MOST_REQUESTS, read_trace

MAX_TRACE_BYTES = 2 * 2**30
_SHORTEST_LINE, _PART = 6, 2**24  # bytes: of a time, two counts and what parts them; and of what is read at once
_HINT = "name a CSV with a header, or a file of JSON lines, with a request a line"
_FOLDER = "paths are taken from the fleet file's own folder"


def open_trace(path: str | os.PathLike[str], *, hint: str = _HINT) -> Trace:
    """The trace in the file at `path`; `hint` is for one that is not there.

    Raises InputError where it cannot be opened, FormatError where it cannot be read.
    """
    place = Path(path)
    try:
        if not place.is_file():
            reason = "no such file" if not place.exists() else "a folder" if place.is_dir() else "not a file"
            raise InputError(f"no trace at {path}: {reason}", hint=hint)
        if place.stat().st_size > MAX_TRACE_BYTES:
            raise FormatError(f"{path} is larger than {MAX_TRACE_BYTES:,} bytes", hint="cut it, or sample it")
        if place.stat().st_size > MOST_REQUESTS * _SHORTEST_LINE and _lines_beyond(place):
            raise FormatError(
                f"{place.name} has more than {MOST_REQUESTS:,} requests", hint="cut it, or sample it"
            )
        with place.open(encoding="utf-8-sig", newline="") as lines:
            return read_trace(lines, name=place.name)
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not text in UTF-8", hint="unpack it (gunzip), or save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _lines_beyond(place: Path) -> bool:
    """Whether a file has more lines than a trace may have: counting them takes a second, reading them minutes."""
    lines = 0
    with place.open("rb") as file:
        while part := file.read(_PART):
            lines += part.count(b"\n")
            if lines > MOST_REQUESTS + 1:
                return True
    return False


def trace_opener(fleet: str | os.PathLike[str] | None = None) -> Callable[[str], Trace]:
    """Opens traces named in a fleet file: relative to that file, each once."""
    folder = Path(fleet).parent if fleet is not None else Path()
    opened: dict[str, Trace] = {}

    def opener(name: str) -> Trace:
        if name not in opened:
            opened[name] = open_trace(folder / Path(name).expanduser(), hint=_FOLDER)
        return opened[name]

    return opener


def named_traces(
    traces: Sequence[str] | Mapping[str, str | os.PathLike[str] | Trace], names: Sequence[str]
) -> dict[str, Trace]:
    """Traces by model, from a mapping or from ``NAME=FILE`` words; a bare FILE where there is one model.

    Raises InputError for a model that is not among `names` or has two traces, and as `open_trace` does.
    """
    pairs = traces.items() if isinstance(traces, Mapping) else [_pair(word, names) for word in traces]
    found: dict[str, Trace] = {}
    for name, source in pairs:
        if name not in names:
            raise InputError(f"no model {name!r} for this trace", hint=f"one of {', '.join(names)}")
        if name in found:
            raise InputError(f"two traces for {name!r}", hint="name one a model; several are joined in one file")
        found[name] = source if isinstance(source, Trace) else open_trace(source)
        if not found[name].timed:
            raise InputError(
                f"{found[name].name} holds lengths without times, and cannot be replayed as it came",
                hint="name it in the fleet file beside a rate: {requests_per_second: 1, trace: FILE}",
            )
    return found


def _pair(word: str, names: Sequence[str]) -> tuple[str, str]:
    name, equals, file = word.partition("=")
    if equals and name in names:
        return name, file
    if len(names) == 1:
        return names[0], word
    raise InputError(f"which model is {word!r} for?", hint=f"write NAME=FILE, NAME one of {', '.join(names)}")
