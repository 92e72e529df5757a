"""Which pages of a file a process has in memory, and which of them others have too. Linux's /proc alone tells."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from cotenant.edge.engines.processes import descendants

_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ (\S+) (\d+)\s*(.*)")


def file_pages(pid: int, checkpoint: str) -> tuple[int, int]:
    """(bytes of the file that are resident, those of them that are shared) in a process and its children.

    Zero where `checkpoint` is no file here. Source: proc(5), /proc/pid/smaps: device and inode of a mapping, Rss,
    Shared_Clean, Shared_Dirty in kB.
    """
    try:
        wanted = Path(checkpoint).stat()
    except (OSError, ValueError):
        return 0, 0
    resident = shared = 0
    for one in (pid, *descendants(pid)):
        with suppress(OSError):
            text = Path(f"/proc/{one}/smaps").read_text(encoding="utf-8", errors="replace")
            held, with_others = _pages(text, wanted)
            resident, shared = resident + held, shared + with_others
    return resident, shared


def _pages(text: str, wanted: os.stat_result) -> tuple[int, int]:
    resident = shared = 0
    ours = False
    for line in text.splitlines():
        mapping = _MAPPING.match(line)
        if mapping is not None:
            ours = int(mapping.group(2)) == wanted.st_ino and mapping.group(2) != "0"
            continue
        if not ours:
            continue
        name, _, rest = line.partition(":")
        if name == "Rss":
            resident += int(rest.split()[0]) * 1024
        elif name in ("Shared_Clean", "Shared_Dirty"):
            shared += int(rest.split()[0]) * 1024
    return resident, shared
