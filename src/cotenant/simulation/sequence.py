"""One request while a replica runs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Sequence:
    """A running request. `known` tokens of it exist (prompt and answer so far), `computed` are in the cache; a
    prompt is read until they meet, then each step adds one to both. Blocks hold what is computed."""

    request: int
    rank: int
    known: int
    target: int
    computed: int = 0
    blocks: int = 0
    chunk: int = 0  # tokens of the step in progress
    decoding: bool = False
