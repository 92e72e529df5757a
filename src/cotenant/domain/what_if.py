"""A fleet asked again with more or less of something: what it then costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is varied: ``traffic``, ``slo`` or ``price``, of the model or card type `target` ("" for all), by
    `factors` of what the fleet says."""

    what: str
    target: str
    factors: tuple[float, ...]

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        return f"{self.what}:{self.target}" if self.target else self.what


@dataclass(frozen=True, slots=True)
class WhatIfPoint:
    """The plan at one factor; `cost_per_hour` and the rest are None and empty where not all models have a place.
    `value` is the cost, or the number of cards where nothing has a price; so is `lower_bound`. `lacks` says why
    not all have a place, "" where they have."""

    factor: float
    feasible: bool
    value: float | None
    cost_per_hour: float | None
    lower_bound: float | None
    cards: Mapping[str, int]
    turns: int = 0  # groups of models that take turns
    lacks: str = ""
