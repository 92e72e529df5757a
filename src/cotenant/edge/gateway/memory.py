"""How much memory this gateway and its engines may have: the machine's, or less where a container has less.

A limit binds wherever it stands between us and the root, so the least counts. Version 2 has ``memory.max`` in each
folder of one tree, version 1 ``memory.limit_in_bytes`` in the tree of its own controller; inside a container the
part of the path that lies outside is not there, and its root stands for it.
Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst in Linux.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def memory_bytes(proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """The bytes of memory that there are for us."""
    import psutil

    return min([int(psutil.virtual_memory().total), *cgroup_limits(proc, root)])


def cgroup_limits(proc: Path, root: Path) -> Iterator[int]:
    """Every limit between us and the root, in bytes; none where there is none, or no cgroups."""
    for folder, name in _folders(proc, root):
        with suppress(OSError, ValueError):
            yield int((folder / name).read_text(encoding="ascii"))  # "max" is no number, and no limit


def _folders(proc: Path, root: Path) -> Iterator[tuple[Path, str]]:
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, found, rest = line.partition(":")
        controllers, also, path = rest.partition(":")
        if not found or not also:
            continue
        if controllers and "memory" not in controllers.split(","):
            continue
        top, name = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            yield top.joinpath(*parts[:depth]), name
