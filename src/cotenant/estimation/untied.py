"""A model as an engine holds it that stores its output layer apart, though the checkpoint shares it."""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.model import ModelSpec, Role
from cotenant.estimation.memo import IdentityCache

_UNTIED: IdentityCache[ModelSpec] = IdentityCache()


def untied(model: ModelSpec) -> ModelSpec:
    """The same with a head of its own; the same object for the same model, and the model itself where nothing is
    shared."""
    if not any(group.tied and group.role is Role.HEAD for group in model.parameters):
        return model
    return _UNTIED.get((model,), (), lambda: _with_head(model))


def _with_head(model: ModelSpec) -> ModelSpec:
    parts = (
        replace(part, tied=False) if part.tied and part.role is Role.HEAD else part for part in model.parameters
    )
    return replace(model, parameters=tuple(parts))
