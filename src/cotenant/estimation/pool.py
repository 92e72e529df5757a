"""From an engine's fraction to the room of its pool, and back: one formula for every kind of fraction.

    CARD      budget = fraction x usable x capacity - others;   pool = kept x (budget - spent - first) + first
    AT_START  budget = fraction x (capacity - others - before); pool = budget - spent
    REST      pool = fraction x (capacity - others - spent);    budget = spent + pool

`before` is what the process took before the engine looked at the card, `first` the cache of the warm-up's own
batch. Which of them holds is data of the engine's version (`PoolRules`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from cotenant.domain.engine import EngineSettings
from cotenant.domain.interval import Interval, total
from cotenant.engines.rules import Base, EngineRules, PoolRules


@dataclass(frozen=True, slots=True)
class Room:
    """`base`: what the fraction multiplies; `budget`: what the engine allows itself; `pool`: what of it is left
    for the pool, negative where nothing is; `left`: what is free beside the budget, where the pool is cut from
    what is free and fills its share (else None)."""

    base: Interval
    budget: Interval
    pool: Interval
    left: Interval | None = None


def room_of(
    engine: EngineRules,
    settings: EngineSettings,
    rules: PoolRules,
    *,
    capacity: Interval,
    others: int,
    before: Interval,
    spent: Interval,
    first: int,
    spare: int = 0,
) -> Room:
    """The room of one rank, from resolved settings; `others` counts where the engine sees it, `spare` is what of
    `spent` is given back when memory is short, and once the pool stands."""
    share = settings.gpu_memory_utilization or 0.0
    if rules.base is Base.AT_START:
        base = (capacity - before).shifted(-others).clamped()
        budget = engine.budget(base, settings)
        return Room(base, budget, budget - spent, times(base, 1 - share) if rules.of_free else None)
    if rules.base is Base.REST:
        base = (capacity - spent).shifted(-others)
        free = times(capacity.shifted(-others), share)
        budget = total((free, times(spent, 1 - share)))
        return Room(base, budget, times(base, share), times(base, 1 - share) if rules.of_free else None)
    base = capacity if rules.usable == 1.0 else times(capacity, rules.usable)
    budget = engine.budget(base, settings).shifted(-others)
    rest = (budget - spent).shifted(-first)
    if first:  # where the warm-up's own batch finds its place it stays, whatever is then free beside it
        rest = Interval(*(max(0, end) if end + spare >= 0 else end for end in (rest.low, rest.value, rest.high)))
    left = times(capacity, 1 - share * rules.usable).shifted(spare)
    if rules.kept == 1.0:
        return Room(base, budget, rest.shifted(first), left if rules.of_free else None)
    left += times(rest.clamped(), 1 - rules.kept)
    return Room(base, budget, times(rest, rules.kept).shifted(first), left if rules.of_free else None)


def capped(room: Room, spent: Interval, most: int) -> Room:
    """The same where a number of tokens caps the pool at `most` bytes."""
    pool, cap = room.pool, spent.shifted(most)
    return Room(
        room.base,
        Interval(
            min(room.budget.low, cap.low), min(room.budget.value, cap.value), min(room.budget.high, cap.high)
        ),
        Interval(min(pool.low, most), min(pool.value, most), min(pool.high, most)),
    )


def share_for(rules: PoolRules, base: Interval, spent: Interval, need: int, first: int) -> float:
    """The fraction whose pool holds `need` bytes even where everything else is at its upper end."""
    if rules.base is Base.REST:
        return need / base.low if base.low > 0 else float("inf")
    asked = spent.high + (need if rules.kept == 1.0 else ceil(max(0, need - first) / rules.kept) + first)
    return asked / base.low if base.low > 0 else float("inf")


def times(interval: Interval, factor: float) -> Interval:
    """An interval times a factor >= 0; its ends rounded outwards."""
    return Interval(floor(interval.low * factor), round(interval.value * factor), ceil(interval.high * factor))
