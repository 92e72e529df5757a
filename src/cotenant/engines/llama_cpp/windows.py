"""Models whose windows llama.cpp does not know: it computes and caches their layers as full ones.

Mistral 7B and what is built on it run as its `llama` architecture, StarCoder2 has no windows there, and Phi-3's
are switched off (src/models/phi3.cpp: "Phi SWA is currently disabled").
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from cotenant.domain.model import AttentionKind, ModelSpec

_WITHOUT = ("phi3", "mistralfor", "mistralmodel", "starcoder2")


@lru_cache(maxsize=64)
def as_run(model: ModelSpec) -> ModelSpec:
    """The model with the layers that llama.cpp gives it."""
    letters = "".join(filter(str.isalnum, f"{model.family}{model.architecture}".lower()))
    sliding = any(group.kind is AttentionKind.SLIDING for group in model.layer_groups)
    if not sliding or not any(mark in letters for mark in _WITHOUT):
        return model
    groups = tuple(
        replace(group, kind=AttentionKind.FULL, window=None) if group.kind is AttentionKind.SLIDING else group
        for group in model.layer_groups
    )
    return replace(model, layer_groups=groups)
