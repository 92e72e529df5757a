"""A deployment's files on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from cotenant.domain.deployment import Deployment
from cotenant.edge.store import write_atomic
from cotenant.errors import InputError


def write_deployment(found: Deployment, folder: Path) -> tuple[Path, ...]:
    """Every file under `folder`, each whole or not at all; the paths in order. What else lies there stays.

    Raises InputError where a file cannot be written, or its name would leave the folder; what can be seen
    beforehand (no folder, a folder in a file's place, no right to write) is said before any is written.
    """
    paths = [_inside(folder, one.name) for one in found.files]
    try:
        _check(folder, paths)
    except OSError as error:
        raise InputError(f"cannot write to {str(folder)[:200]!r}: {error.strerror or error}") from None
    for path, one in zip(paths, found.files, strict=True):
        _write(path, one.text, one.executable)
    return tuple(paths)


def _inside(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise InputError(f"{name!r} is no name inside {folder}")
    return folder.joinpath(*parts)


def _check(folder: Path, paths: Sequence[Path]) -> None:
    for place in dict.fromkeys([folder, *(path.parent for path in paths)]):
        if place.is_symlink() and not place.exists():
            raise InputError(f"{place} is a link to {os.readlink(place)!r}, which is not there")
        standing = next(one for one in (place, *place.parents) if one.exists())
        if not standing.is_dir():
            raise InputError(f"{standing} is not a folder")
        if not os.access(standing, os.W_OK | os.X_OK):
            raise InputError(f"cannot write to {standing}: it is read-only for you")
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            raise InputError(f"{path} is a folder, and a file of that name is to be written")


def _write(path: Path, text: str, executable: bool) -> None:
    write_atomic(path, text.encode())
    try:
        os.chmod(path, 0o755 if executable else 0o644)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", path=str(path)) from None
