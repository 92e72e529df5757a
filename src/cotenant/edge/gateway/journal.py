"""Which engines we started: written before they are used, so that a gateway that comes back knows its own.

One gateway at a time holds a state folder. An entry names pid, start time, command, and the key that the engine
asks for; the file is readable by its owner alone. Two entries may serve one replica, while a new plan's engine
takes over from the old one's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from cotenant.domain.running import EngineProcess
from cotenant.edge.engines.calls import address
from cotenant.edge.store import claim, write_atomic
from cotenant.errors import CotenantError, InputError

_NAME = "engines.json"
_MOST_PID = 2**22  # proc(5): /proc/sys/kernel/pid_max is never more
MOST_LOG_BYTES = 64 * 2**20  # of one engine, before it is begun anew
_EVERY_CALLS = 50  # a write that failed is tried again after so many looks


class Stage(StrEnum):
    """How far an engine had come when its entry was written. MOVING: it was told to sleep or to wake, so that
    nobody knows what it holds until it has said that it did."""

    LOADING = "loading"
    AWAKE = "awake"
    ASLEEP = "asleep"
    MOVING = "moving"


@dataclass(frozen=True, slots=True)
class Entry:
    """One engine: the replica that it serves, its process, its key; how far it has come, the level at which it
    sleeps, and what it answered when it was new ("" where it was not asked)."""

    replica: str
    process: EngineProcess
    key: str
    stage: Stage = Stage.AWAKE
    level: int = 0
    reference: str = ""


class Journal:
    """The file in a folder that is ours alone while we run. `told` hears of what could not be written: engines are
    served all the same, and the file catches up as soon as the disk lets it."""

    def __init__(self, folder: Path, told: Callable[[str], None] = lambda reason: None) -> None:
        self.folder, self.told = folder, told
        self._behind = 0
        self._lock = claim(folder, "gateway")
        self._entries = {_which(entry.process): entry for entry in self._read()}

    def entries(self) -> tuple[Entry, ...]:
        """What stands there."""
        return tuple(self._entries.values())

    def put(self, entry: Entry) -> None:
        """Remember an engine, before anything is sent to it."""
        self._entries[_which(entry.process)] = entry
        self._write()

    def drop(self, process: EngineProcess) -> None:
        """Forget one that is gone."""
        if self._entries.pop(_which(process), None) is not None:
            self._write()

    def catch_up(self) -> None:
        """Write what could not be written before; to be called again and again."""
        if self._behind:
            self._behind += 1
            if self._behind % _EVERY_CALLS == 0:
                self._write()

    def log_of(self, replica: str) -> Path:
        """Where the engine of a replica writes what it has to say: a file of its own, whatever it is called."""
        name = re.sub("[^A-Za-z0-9_.-]", "_", replica)[:80].lstrip(".")
        if name != replica:  # no longer told apart by its name
            name += f"-{hashlib.sha256(replica.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
        return self.folder / "logs" / f"{name}.log"

    def trim_logs(self, most_bytes: int = MOST_LOG_BYTES) -> None:
        """Engines append to their logs for as long as they run: what is longer goes to a second file, in the place
        of what went there before. A disk that takes no second file gets the room back all the same."""
        for log in (self.folder / "logs").glob("*.log"):
            with suppress(OSError):
                if log.stat().st_size > most_bytes:
                    with suppress(OSError):
                        shutil.copyfile(log, log.with_suffix(".log.1"))
                    os.truncate(log, 0)

    def close(self) -> None:
        """Let the folder go."""
        self._lock.close()

    def _write(self) -> None:
        rows = [asdict(entry) for entry in self._entries.values()]
        try:
            write_atomic(self.folder / _NAME, json.dumps(rows, indent=1).encode(), private=True)
            os.chmod(self.folder / _NAME, 0o600)
        except (CotenantError, OSError) as error:
            if not self._behind:
                self.told(error.message if isinstance(error, CotenantError) else str(error.strerror or error))
            self._behind = max(1, self._behind)
        else:
            self._behind = 0

    def _read(self) -> list[Entry]:
        """Entries that can be read; a file that cannot is set aside under another name, and nothing is adopted."""
        place = self.folder / _NAME
        try:
            text = place.read_text(encoding="utf-8") if place.is_file() or not place.exists() else ""
            return [_entry(row) for row in json.loads(text)]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            with suppress(OSError):
                place.replace(place.with_suffix(".corrupt"))
            return []


def _which(process: EngineProcess) -> tuple[int, str]:
    return process.pid, process.started


def _entry(row: Any) -> Entry:
    """One row. Raises TypeError, ValueError or KeyError for what we never wrote."""
    told = row["process"]
    argv = told["argv"]
    stage, level, reference = Stage(row.get("stage", "awake")), row.get("level", 0), row.get("reference", "")
    texts = (row["replica"], row["key"], reference, told["started"], told["url"], told["log"], *argv)
    if type(told["pid"]) is not int or type(level) is not int or not isinstance(argv, list) or not argv:
        raise TypeError("not an entry")
    if not 1 < told["pid"] <= _MOST_PID or not all(_is_text(text) for text in texts):
        raise ValueError("not an entry")
    if not row["key"].isascii() or not row["key"].isprintable():
        raise ValueError("not a key")
    try:
        address(told["url"])
    except InputError as error:
        raise ValueError(error.message) from None
    process = EngineProcess(told["pid"], told["started"], tuple(argv), told["url"], told["log"])
    return Entry(row["replica"], process, row["key"], stage, level, reference)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value
