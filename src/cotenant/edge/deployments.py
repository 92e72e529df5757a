"""A deployment's files on disk."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from cotenant.domain.deployment import DeployFile, Deployment
from cotenant.errors import InputError


def write_deployment(found: Deployment, folder: Path) -> tuple[Path, ...]:
    """Every file under `folder`, all of them or none; the paths in order. What else lies there stays.

    All are written under other names first, and take their own once each is whole and on the disk: a disk that is
    full leaves what was there before. Raises InputError where a file cannot be written, or its name would leave
    the folder; what can be seen beforehand (no folder, a folder in a file's place, no right) is said first.
    """
    paths = [_inside(folder, one.name) for one in found.files]
    try:
        _check(folder, paths)
    except OSError as error:
        raise InputError(f"cannot write to {str(folder)[:200]!r}: {error.strerror or error}") from None
    _write_all(paths, found.files)
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


def _write_all(paths: Sequence[Path], files: Sequence[DeployFile]) -> None:
    staged: list[tuple[str, Path]] = []
    path = paths[0] if paths else Path()
    try:
        for path, one in zip(paths, files, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
            staged.append((name, path))
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), 0o755 if one.executable else 0o644)
                file.write(one.text.encode())
                file.flush()
                os.fsync(file.fileno())
        while staged:
            name, path = staged[0]
            os.replace(name, path)
            del staged[0]
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", path=str(path)) from None
    finally:
        for name, _ in staged:
            with contextlib.suppress(OSError):
                os.unlink(name)
