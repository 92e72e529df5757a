"""Which patterns of one site are worth more than a threshold: exact depth-first search under a knapsack bound.

    maximise    sum over the pattern's seats of value[seat]
    subject to  claims within the room, load peaks within the card (`loading`); no more processes than the card has
                places for; at most one seat a model; apart, alone; contention within each slack

The bound at depth j is the optimum of the plain multiple-choice knapsack over models from j on in what is left,
with claims rounded down to a grid: never below the truth, so nothing worth more is pruned. Where somebody's SLO
minds neighbours, the same knapsack over busy shares is a second bound, in what the most impatient of those chosen
leaves. Rounding may only make the search longer, never its answer wrong. A search that exhausts its work limit
returns the first bound instead of the maximum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, Literal

from cotenant.planning.loading import may_join
from cotenant.planning.pattern_arrays import PatternArrays, compiled
from cotenant.planning.pattern_times import TIME_CELLS, TIME_UNIT, time_cell
from cotenant.planning.problem import Problem
from cotenant.planning.sites import Pattern, Seat, Site, pattern_of

_CELLS = 512
_EPSILON = 1e-9
_COMPILE_FROM = 24  # models at a site: fewer are found before a compiler is loaded

Keep = Literal["smallest", "best", "all"]
Option = tuple[int, float, float, int, int, int]
"""(claim_bytes, busy, busy + slack, overshoot_bytes, processes, option)"""
Chosen = tuple[tuple[int, int], ...]
"""(seat, option) of a pattern"""
Places = tuple[int, int, tuple[Option, ...]]
"""(seat, its smallest claim_bytes, its options)"""
Group = tuple[float, list[tuple[float, int, int, tuple[Option, ...]]], int, int]
"""(value a byte, (value, smallest claim, seat, options) of each seat, own bit, bits it may not sit with)"""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found. `most` is no less than the value of any pattern of the site."""

    patterns: tuple[Pattern, ...]
    most: float
    nodes: int
    complete: bool


class PatternSearch:
    """The search at one site. `least_headroom` shrinks the room by that share of the card's capacity, but not what
    may be taken while engines load."""

    def __init__(
        self,
        problem: Problem,
        sites: tuple[Site, ...],
        site: int,
        seats: Sequence[Seat],
        *,
        least_headroom: float = 0.0,
    ) -> None:
        self._problem, self._sites, self._site, self._seats = problem, sites, site, seats
        where = sites[site]
        self._room = ceil(where.room_bytes - least_headroom * where.capacity_bytes)  # a share is a rounded figure
        self._unit = max(1, -(-self._room // _CELLS))
        self._places: dict[int, list[Places]] = defaultdict(list)
        for number, seat in enumerate(seats):
            if seat.offer != where.offer or seat.request in where.barred:
                continue
            options = tuple(self._options(seat))
            if options:
                self._places[seat.request].append((number, min(one[0] for one in options), options))
        self._load = where.load_bytes
        overshoots = (each[3] for seats in self._places.values() for *_, options in seats for each in options)
        self._tight = self._room + max(overshoots, default=0) > self._load  # else every order of starts does
        patience = (each[2] for seats in self._places.values() for *_, options in seats for each in options)
        self._minds = any(one < inf for one in patience)
        self._against = {request: bits_against(problem, request) for request in self._places}
        self._arrays: PatternArrays | None = None

    def _options(self, seat: Seat) -> Iterator[Option]:
        for option in seat.options:
            one = self._problem.candidates[seat.request][option]
            if one.claim_bytes <= self._room and self._sites[self._site].holds(one):
                busy, patience = (one.busy, one.busy + one.slack) if self._problem.contention else (0.0, inf)
                yield one.claim_bytes, busy, patience, one.overshoot_bytes, one.processes, option

    def best(self, values: Sequence[float], floor: float, *, limit: int, alone: bool = False) -> Found:
        """The patterns that raised the best value above `floor`, the best last; `alone`: only that one."""
        return self._search(values, floor, limit, every=False, alone=alone)

    def above(self, values: Sequence[float], floor: float, *, limit: int, keep: Keep = "smallest") -> Found:
        """Every pattern worth `floor` or more: of each set of seats that which claims least, that which is best in
        quality, or all, as `keep` says."""
        found = self._search(values, floor, limit, every=True)
        if keep == "all":
            return found
        return replace(found, patterns=_one_a_set(found.patterns, quality_first=keep == "best"))

    def _groups(self, values: Sequence[float], least: float) -> list[Group]:
        """Models with a seat worth more than `least`, the most valuable by the byte first."""
        groups: list[Group] = []
        for request, places in self._places.items():
            seats = [
                (values[seat], claim, seat, options) for seat, claim, options in places if values[seat] > least
            ]
            if seats:
                seats.sort(key=_by_value)
                density = max(each[0] / max(1, each[1]) for each in seats)
                groups.append((density, seats, 1 << request, self._against[request]))
        groups.sort(key=lambda group: -group[0])
        return groups

    def _bounds(self, groups: list[Group]) -> list[Any]:
        """bounds[j][cells] is the most that groups j.. can be worth in that many grid cells."""
        import numpy as np

        cells = self._room // self._unit + 1
        row = np.zeros(cells)
        rows = [row.data]
        for _, seats, _, _ in reversed(groups):
            following, row = row, row.copy()
            least = self._room + 1
            for value, claim, _, _ in seats:
                if claim < least:  # else a seat worth no less takes no more
                    least, taken = claim, claim // self._unit
                    np.maximum(row[taken:], following[: cells - taken] + value, out=row[taken:])
            rows.append(row.data)
        rows.reverse()
        return rows

    def _times(self, groups: list[Group]) -> list[Any]:
        """times[j][cells] is the most that groups j.. can be worth in that many cells of busy share; the last cell
        is for all that is more, and has no bound."""
        import numpy as np

        if not self._minds:
            return [(inf,)] * (len(groups) + 1)
        row = np.zeros(TIME_CELLS + 1)
        row[-1] = inf
        rows = [row.data]
        for _, seats, _, _ in reversed(groups):
            following, row = row, row.copy()
            least = TIME_CELLS
            for value, _, _, options in seats:
                taken = int(min(each[1] for each in options) * TIME_UNIT)
                if taken < least:  # else a seat worth no less takes no more
                    least = taken
                    np.maximum(row[taken:-1], following[: TIME_CELLS - taken] + value, out=row[taken:-1])
            rows.append(row.data)
        rows.reverse()
        return rows

    def _search(
        self, values: Sequence[float], floor: float, limit: int, *, every: bool, alone: bool = False
    ) -> Found:
        if self._room <= 0:
            return Found((), 0.0, 0, complete=True)
        core = compiled() if len(self._places) >= _COMPILE_FROM else None
        if core is not None:
            return self._compiled(core, values, floor, limit, every=every, alone=alone)
        listed = values if isinstance(values, list) else list(map(float, values))
        groups = self._groups(listed, -1.0 if every else _EPSILON)
        bounds, times = self._bounds(groups), self._times(groups)
        most_time = len(times[0]) - 1
        unit, count, tight, most_loaded = self._unit, len(groups), self._tight, self._load
        most_processes = self._sites[self._site].most_processes
        found: list[Chosen] = []
        claims: list[int] = []  # of those chosen
        overs: list[int] = []
        nodes = 0

        def visit(
            start: int, room: int, value: float, busy: float, cap: float, left: int, mask: int, chosen: Chosen
        ) -> None:
            nonlocal floor, nodes
            nodes += 1
            if value >= floor and chosen:
                found.append(chosen)
                if not every:
                    floor = value + _EPSILON
            cells, spell = room // unit, time_cell(cap - busy, most_time)
            for index in range(start, count):
                if value + min(bounds[index][cells], times[index][spell]) < floor or nodes > limit:
                    return
                _, seats, bit, against = groups[index]
                if mask & against:
                    continue
                following, later = bounds[index + 1], times[index + 1]
                for worth, claim, seat, options in seats:
                    if claim > room or value + worth + following[(room - claim) // unit] < floor:
                        continue
                    for claim, work, patience, over, processes, option in options:
                        both = min(cap, patience)
                        if claim > room or processes > left or busy + work > both + _EPSILON:
                            continue
                        if value + worth + following[(room - claim) // unit] < floor:
                            continue
                        if value + worth + later[time_cell(both - busy - work, most_time)] < floor:
                            continue
                        if tight and not may_join(claims, overs, len(claims), claim, over, most_loaded):
                            continue
                        claims.append(claim)
                        overs.append(over)
                        visit(
                            index + 1, room - claim, value + worth, busy + work, both, left - processes,
                            mask | bit, (*chosen, (seat, option)),
                        )  # fmt: skip
                        claims.pop()
                        overs.pop()

        visit(0, self._room, 0.0, 0.0, inf, most_processes, 0, ())
        complete = nodes <= limit
        most = floor if complete else bounds[0][-1]
        return Found(self._patterns(found, alone), most, nodes, complete)

    def _compiled(
        self, core: Any, values: Sequence[float], floor: float, limit: int, *, every: bool, alone: bool = False
    ) -> Found:
        """The same by `pattern_core`: the same nodes in the same order."""
        if self._arrays is None:
            self._arrays = PatternArrays(self._places, self._against, len(self._problem.names))
        chosen, most, nodes, complete = self._arrays.search(
            core, values, least=-1.0 if every else _EPSILON, room=self._room, load=self._load, unit=self._unit,
            floor=floor, limit=limit, every=every, tight=self._tight, minds=self._minds,
            most=self._sites[self._site].most_processes,
        )  # fmt: skip
        return Found(self._patterns(chosen, alone), most, nodes, complete)

    def _patterns(self, chosen: list[Chosen], alone: bool) -> tuple[Pattern, ...]:
        return tuple(map(self._pattern, chosen[-1:] if alone else chosen))

    def _pattern(self, chosen: Chosen) -> Pattern:
        triples = tuple((self._seats[seat], seat, option) for seat, option in chosen)
        return pattern_of(self._problem, self._sites, self._site, triples)


def _by_value(seat: tuple[float, int, int, tuple[Option, ...]]) -> tuple[float, int, int]:
    return -seat[0], seat[1], seat[2]


def bits_against(problem: Problem, request: int) -> int:
    """The models, as bits, with which one shares no card: itself, those apart, and whoever must be alone."""
    if request in problem.alone:
        return (1 << len(problem.names)) - 1
    apart = {other for pair in problem.apart if request in pair for other in pair}
    return sum(1 << other for other in apart | problem.alone | {request})


def _one_a_set(patterns: tuple[Pattern, ...], *, quality_first: bool) -> tuple[Pattern, ...]:
    def rank(one: Pattern) -> tuple[int, int]:
        return (one.quality, one.claim_bytes) if quality_first else (one.claim_bytes, one.quality)

    kept: dict[tuple[int, ...], Pattern] = {}
    for one in patterns:
        if one.seats not in kept or rank(one) < rank(kept[one.seats]):
            kept[one.seats] = one
    return tuple(kept.values())
