"""A draft for speculative decoding as a structure: its layers and the projection of the target's hidden states."""

from __future__ import annotations

from dataclasses import replace

from cotenant.catalogue.drafts import DraftEntry
from cotenant.domain.model import ModelSpec, ParameterGroup, Role
from cotenant.readers.model_config import read_model_config


def draft_model(entry: DraftEntry) -> ModelSpec:
    """The structure of a known draft; the projection is whole on every rank (vLLM, models/qwen3_dflash.py).

    Raises InputError's kin where its config cannot be read.
    """
    model = read_model_config(entry.config, name=entry.id, source=entry.source)
    shape = (model.hidden_size, entry.features * model.hidden_size)
    return replace(model, parameters=(*model.parameters, ParameterGroup("fc", Role.OTHER, shape)))
