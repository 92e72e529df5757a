"""Ways to place one fleet side by side: what each takes, what it costs, and what its users would have seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contender:
    """One way. `headroom` is the least share 0..1 that a used card keeps free; `attainment` the share of each
    model's requests that were answered within its SLO (all that were answered, where it has none), from a replay;
    None where it could not be replayed, and `note` says why. `unplaced` models found no place. `promised`: whether
    there is an SLO to keep at all.
    """

    strategy: str
    cards: Mapping[str, int]  # type -> how many
    cost_per_hour: float | None
    lower_bound: float | None
    headroom: float | None
    attainment: Mapping[str, float] | None
    missed: tuple[str, ...]  # models whose SLO was not kept at its percentile
    unplaced: tuple[str, ...] = ()
    note: str = ""
    promised: bool = True

    @property
    def count(self) -> int:
        """Cards of all types."""
        return sum(self.cards.values())

    @property
    def holds(self) -> bool:
        """Whether every model has a place and no SLO was missed in the replay."""
        return not self.unplaced and not self.missed
