"""Recipes of published checkpoints whose name alone misleads: layers that stay in 16 bits, the cache's type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe: `names` are names of checkpoints in lower case, with their owner where others have such a name;
    `base` is the catalogue's model that they were made of, `quantization_config` what their config.json says or
    amounts to, `checkpoint_gb` what the files are published to take (10^9 bytes)."""

    names: tuple[str, ...]
    base: str
    quantization_config: Mapping[str, Any]
    checkpoint_gb: float | None
    source: str


def find_recipe(name: str) -> Recipe | None:
    """The recipe of a checkpoint by its hub id or short name, which may stand in a longer text; None where none is
    known."""
    wanted = name[:400].lower()
    return next((recipe for recipe in all_recipes() if any(short in wanted for short in recipe.names)), None)


@cache
def all_recipes() -> tuple[Recipe, ...]:
    """Every recipe known, in the file's order."""
    rows = json.loads(files("cotenant.catalogue").joinpath("recipes.json").read_text(encoding="utf-8"))
    return tuple(Recipe(**{**row, "names": tuple(row["names"])}) for row in rows)
