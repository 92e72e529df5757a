"""Drafts for speculative decoding that are published apart from their target: structure and tokens a step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class DraftEntry:
    """One draft: `targets` are short names of the models that it serves, in lower case; `features`: how many
    of the target's hidden states it reads through one projection; `tokens`: what its card proposes a step."""

    id: str
    targets: tuple[str, ...]
    method: str
    tokens: int
    features: int
    config: Mapping[str, Any]
    source: str


def find_draft(target: str, method: str) -> DraftEntry | None:
    """The draft of that method for a model whose name contains one of its targets; None where none is known."""
    wanted = target.lower()
    hits = (e for e in all_drafts() if e.method == method.lower() and any(name in wanted for name in e.targets))
    return next(hits, None)


@cache
def all_drafts() -> tuple[DraftEntry, ...]:
    """Every draft known, in the file's order."""
    rows = json.loads(files("cotenant.catalogue").joinpath("drafts.json").read_text(encoding="utf-8"))
    return tuple(DraftEntry(**{**row, "targets": tuple(row["targets"])}) for row in rows)
