"""Which engines we started: written before they are used, so that a gateway that comes back knows its own.

One gateway at a time holds a state folder. An entry names pid, start time, command, and the key that the engine
asks for; the file is readable by its owner alone.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from cotenant.domain.running import EngineProcess
from cotenant.edge.store import write_atomic
from cotenant.errors import InputError

_NAME = "engines.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One engine: the replica that it serves, its process, its key."""

    replica: str
    process: EngineProcess
    key: str


class Journal:
    """The file in a folder that is ours alone while we run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _locked(folder / "lock")
        self._entries = {entry.replica: entry for entry in self._read()}

    def entries(self) -> tuple[Entry, ...]:
        """What stands there."""
        return tuple(self._entries.values())

    def put(self, entry: Entry) -> None:
        """Remember an engine, before anything is sent to it."""
        self._entries[entry.replica] = entry
        self._write()

    def drop(self, replica: str) -> None:
        """Forget one that is gone."""
        if self._entries.pop(replica, None) is not None:
            self._write()

    def close(self) -> None:
        """Let the folder go."""
        self._lock.close()

    def _write(self) -> None:
        rows = [asdict(entry) for entry in self._entries.values()]
        write_atomic(self.folder / _NAME, json.dumps(rows, indent=1).encode())
        os.chmod(self.folder / _NAME, 0o600)

    def _read(self) -> list[Entry]:
        """Entries that can be read; a file that cannot is set aside under another name, and nothing is adopted."""
        place = self.folder / _NAME
        try:
            rows = json.loads(place.read_text(encoding="utf-8"))
            return [_entry(row) for row in rows]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            place.replace(place.with_suffix(".corrupt"))
            return []


def _entry(row: Any) -> Entry:
    told = row["process"]
    argv = told["argv"]
    texts = (row["replica"], row["key"], told["started"], told["url"], told["log"], *argv)
    sound = isinstance(told["pid"], int) and isinstance(argv, list)
    if not sound or not all(isinstance(text, str) for text in texts):
        raise TypeError("not an entry")
    process = EngineProcess(told["pid"], told["started"], tuple(argv), told["url"], told["log"])
    return Entry(row["replica"], process, row["key"])


def _locked(path: Path) -> IO[str]:
    file = path.open("a+", encoding="ascii")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except OSError:
        file.close()
        raise InputError(
            f"another gateway runs with the state in {path.parent}", hint="stop it, or give another --state folder"
        ) from None
    return file
