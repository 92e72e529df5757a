"""Engines that were started but never written down: the gateway was killed between the two.

Each engine writes into a log of its own in the state folder. A process that leads its session, and whose output
and errors both go into that folder, was started by a gateway that held the folder; one that the journal does not
name has a key that nobody knows, so that it can only be stopped.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from cotenant.domain.running import EngineProcess
from cotenant.edge.engines import processes

_SESSION = 3  # proc(5), stat, counted after the command: session is field 6


def strays(logs: Path, known: Collection[int]) -> list[EngineProcess]:
    """Engines of ours that write into the folder `logs` and are not among the pids `known`; none without /proc."""
    folder = f"{os.path.realpath(logs)}{os.sep}"
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        pid = int(place.name)
        if pid in known or pid == os.getpid():
            continue
        with suppress(OSError, ValueError, IndexError):
            if not _leads(place) or not all(os.readlink(place / "fd" / one).startswith(folder) for one in "12"):
                continue
            started, log = processes.start_of(pid), os.readlink(place / "fd" / "1")
            argv = (place / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
            if started is not None and argv:
                found.append(EngineProcess(pid, started, tuple(argv), "", log))
    return found


def _leads(place: Path) -> bool:
    stat = (place / "stat").read_bytes()
    return int(stat[stat.rindex(b")") + 2 :].split()[_SESSION]) == int(place.name)
