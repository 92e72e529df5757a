"""What the user's own folders hold now: answers kept from before a change are not given again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from cotenant.errors import CotenantError

Stamp = tuple[tuple[str, int, int], ...]


def own_stamp() -> Stamp:
    """(path, time, size) of each file that may change an answer: calibrations, own cards, prices and models, and
    what lies where an own model's row names a path."""
    from cotenant.edge.calibrations import calibrations_dir
    from cotenant.edge.store import user_catalogue_dir

    own = user_catalogue_dir()
    found = [*_files(calibrations_dir()), *_files(own)]
    if found:
        found += [each for path in _named_paths() for each in _files(path)]
    return tuple(sorted(set(found)))


def _named_paths() -> Iterator[Path]:
    from cotenant.edge.own_models import own_models

    try:
        rows = own_models()
    except CotenantError:
        return  # whoever asks for a model is told what is wrong with the file
    for row in rows:
        if isinstance(row.model, str):
            yield Path(row.model.strip()).expanduser()
        elif isinstance(row.model, Mapping):
            yield from (Path(text).expanduser() for text in row.model.values() if isinstance(text, str))


def _files(place: Path) -> Iterator[tuple[str, int, int]]:
    """Of a folder the files in it, of a file itself; nothing where there is neither."""
    try:
        if not place.is_dir():
            yield _row(str(place), place.stat())
            return
        with os.scandir(place) as entries:
            for entry in entries:
                yield _row(entry.path, entry.stat())
    except (OSError, ValueError):
        return  # not there, or no name of a file


def _row(path: str, found: os.stat_result) -> tuple[str, int, int]:
    return path, found.st_mtime_ns, found.st_size
