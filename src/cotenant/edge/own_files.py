"""The user's own facts: a YAML or JSON file in the configuration folder's `catalogue/`, read until it changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from cotenant.edge.store import user_catalogue_dir
from cotenant.errors import CotenantError, InputErrors

T = TypeVar("T")
SUFFIXES = (".yaml", ".yml", ".json")


def own_rows(stem: str, parse: Callable[[Any], tuple[T, ...]]) -> tuple[T, ...]:
    """What `parse` makes of the user's file `stem`; empty where there is none.

    Raises InputErrors with every fault, each with the file's path before its own.
    """
    folder = user_catalogue_dir()
    for suffix in SUFFIXES:
        path = folder / f"{stem}{suffix}"
        if path.is_file():
            rows: tuple[T, ...] = _read(path, path.stat().st_mtime_ns, parse)
            return rows
    return ()


@lru_cache(maxsize=8)
def _read(path: Path, _modified: int, parse: Callable[[Any], Any]) -> Any:
    from cotenant.edge.text import read_text
    from cotenant.readers.yaml_text import read_document

    document = read_document(read_text(path), path=str(path))
    try:
        if document.faults:
            raise InputErrors(document.faults)
        return parse(document.value)
    except CotenantError as error:
        for fault in error.faults():
            fault.path = f"{path} {fault.path}".strip()
        raise
