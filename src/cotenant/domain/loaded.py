"""A model as it was found: its structure together with what it is called, stored as and used for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.domain.model import ModelSpec


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """One model behind a catalogue name, a hub id, a file, a folder or raw figures.

    `model_id` is what an engine is given to load: a hub id or a path. `checkpoints` maps a format's name to
    the hub id or path that is known to hold it; `task` says which quality figures count ("chat", "code",
    "embed", ...; "" where nobody said); `source` says where the structure was read.
    """

    spec: ModelSpec
    model_id: str
    checkpoints: Mapping[str, str]
    task: str
    source: str
