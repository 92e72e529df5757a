"""A model taken apart: what `cotenant inspect` shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.domain.loaded import LoadedModel
from cotenant.domain.model import LayerGroup, Role


@dataclass(frozen=True, slots=True)
class GroupCache:
    """What one group of layers keeps, in bytes: for each token, and for a sequence whatever its length."""

    group: LayerGroup
    bytes_per_token: int
    bytes_per_sequence: int


@dataclass(frozen=True, slots=True)
class Anatomy:
    """One model taken apart. `format` is what it is stored in, `weights_bytes` what its files hold; the cache is
    in the model's own dtype, padding of any engine left out."""

    model: LoadedModel
    format: str
    weights_bytes: int
    parameters_by_role: Mapping[Role, int]
    active_parameters: int | None
    bytes_by_format: Mapping[str, int]
    kv_bytes_per_token: int
    kv_bytes_per_sequence: int
    groups: tuple[GroupCache, ...]
