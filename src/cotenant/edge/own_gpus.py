"""The user's own cards and prices: `catalogue/gpus.yaml` (or .json) in the configuration folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from cotenant.catalogue.gpus import find_gpu, gpus_from
from cotenant.domain.gpu import GpuSpec
from cotenant.edge.store import user_catalogue_dir
from cotenant.errors import CotenantError, InputErrors

NAMES = ("gpus.yaml", "gpus.yml", "gpus.json")


def open_gpu(source: str | Mapping[str, Any] | GpuSpec) -> GpuSpec:
    """A card by name (the user's own before the catalogue's), from a row of figures, or the value itself."""
    if isinstance(source, GpuSpec):
        return source
    if isinstance(source, Mapping):
        return gpus_from([dict(source)])[0]
    return find_gpu(str(source), own_gpus())


def own_gpus() -> tuple[GpuSpec, ...]:
    """The cards in the user's file; empty where there is none. Raises InputErrors naming the file."""
    folder = user_catalogue_dir()
    for name in NAMES:
        path = folder / name
        if path.is_file():
            return _read(path, path.stat().st_mtime_ns)
    return ()


@lru_cache(maxsize=4)
def _read(path: Path, _modified: int) -> tuple[GpuSpec, ...]:
    from cotenant.edge.text import read_text
    from cotenant.readers.yaml_text import read_document

    document = read_document(read_text(path), path=str(path))
    try:
        if document.faults:
            raise InputErrors(document.faults)
        return gpus_from(document.value)
    except CotenantError as error:
        for fault in error.faults():
            fault.path = f"{path} {fault.path}".strip()
        raise
