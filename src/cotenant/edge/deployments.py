"""A deployment's files on disk."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from cotenant.domain.deployment import Deployment
from cotenant.edge.store import write_atomic
from cotenant.errors import InputError


def write_deployment(found: Deployment, folder: Path) -> tuple[Path, ...]:
    """Every file under `folder`, each whole or not at all; the paths in order. What else lies there stays.

    Raises InputError where a file cannot be written, or its name would leave the folder.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder")
    return tuple(_write(folder, one.name, one.text, one.executable) for one in found.files)


def _write(folder: Path, name: str, text: str, executable: bool) -> Path:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise InputError(f"{name!r} is no name inside {folder}")
    path = folder.joinpath(*parts)
    write_atomic(path, text.encode())
    try:
        os.chmod(path, 0o755 if executable else 0o644)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", path=str(path)) from None
    return path
