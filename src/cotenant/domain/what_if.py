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
    not all have a place, "" where they have.

    `promised` counts models with an SLO. Of those, by estimates: `strained` break a target while their neighbours
    are busy, `at_risk` have an interval that reaches past a target; `warnings` has their figures. Where the plan
    was replayed, `attainment` is the share 0..1 of each one's requests within its SLO and `missed` names who did
    not keep it; None and () else."""

    factor: float
    feasible: bool
    value: float | None
    cost_per_hour: float | None
    lower_bound: float | None
    cards: Mapping[str, int]
    turns: int = 0  # groups of models that take turns
    lacks: str = ""
    promised: int = 0
    strained: tuple[str, ...] = ()
    at_risk: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    attainment: Mapping[str, float] | None = None
    missed: tuple[str, ...] = ()
