"""The user's own cards and prices: `catalogue/gpus.yaml` (or .json) in the configuration folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.catalogue.gpus import find_gpu, gpus_from
from cotenant.domain.gpu import GpuSpec
from cotenant.edge.own_files import own_rows


def open_gpu(source: str | Mapping[str, Any] | GpuSpec) -> GpuSpec:
    """A card by name (the user's own before the catalogue's), from a row of figures, or the value itself."""
    if isinstance(source, GpuSpec):
        return source
    if isinstance(source, Mapping):
        return gpus_from([dict(source)])[0]
    return find_gpu(str(source), own_gpus())


def own_gpus() -> tuple[GpuSpec, ...]:
    """The cards in the user's file; empty where there is none. Raises InputErrors naming the file."""
    return own_rows("gpus", gpus_from)
