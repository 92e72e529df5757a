"""Wishes of a fleet that could be given up, and what that would change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Wishes given up together, each a few words; found by planning without them. `saves` is what that takes off
    the objective (dollars an hour, or cards where nothing has a price); None where all it does is make places for
    every model."""

    wishes: tuple[str, ...]
    saves: float | None
    cards: str = ""  # the cards of the plan that it makes possible
