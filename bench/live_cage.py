"""A memory limit that the kernel keeps: a cgroup around an engine, of version 2 or 1."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.table import CannotRunError

_ROOT = Path("/sys/fs/cgroup")
_FOREVER = 2**62


@dataclass(frozen=True, slots=True)
class Cage:
    """One cgroup. Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst in Linux."""

    place: Path
    second: bool

    def limit(self, size: int | None) -> None:
        """So many bytes at most, none of them swapped; None: no limit."""
        told = str(size or _FOREVER)
        if self.second:
            (self.place / "memory.max").write_text(told if size else "max")
            with suppress(OSError):
                (self.place / "memory.swap.max").write_text("0")
            return
        name = self.place / "memory.memsw.limit_in_bytes"
        for one in (name, self.place / "memory.limit_in_bytes", name):  # neither may pass the other
            with suppress(OSError):
                one.write_text(told)

    def kills(self) -> int:
        """How often the kernel killed somebody in here for want of memory."""
        text = (self.place / ("memory.events" if self.second else "memory.oom_control")).read_text()
        return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)

    def door(self, folder: Path, program: Sequence[str], *more: str) -> Path:
        """A program in `folder` that runs `program` in here, with `more` flags at the end."""
        script = folder / "caged-engine"
        words, further = " ".join(map(shlex.quote, program)), " ".join(map(shlex.quote, more))
        script.write_text(f'#!/bin/sh\necho $$ > {self.place}/cgroup.procs\nexec {words} "$@" {further}\n')
        script.chmod(0o755)
        return script


@contextmanager
def cage() -> Iterator[Cage]:
    """A new cgroup, gone at the end. Raises CannotRunError where none can be made."""
    found, name = None, f"cotenant-bench-{os.getpid()}"
    for place, second in ((_ROOT / name, True), (_ROOT / "memory" / name, False)):
        file = "memory.max" if second else "memory.limit_in_bytes"
        with suppress(OSError):
            if second and "memory" not in (_ROOT / "cgroup.subtree_control").read_text().split():
                (_ROOT / "cgroup.subtree_control").write_text("+memory")
            place.mkdir()
            if (place / file).exists():
                found = Cage(place, second)
                break
            place.rmdir()
    if found is None:
        raise CannotRunError("no memory cgroup can be made here (needs root, or a delegated cgroup)")
    try:
        yield found
    finally:
        for _ in range(50):  # its last process may still be ending
            with suppress(OSError):
                found.place.rmdir()
                break
            time.sleep(0.1)
