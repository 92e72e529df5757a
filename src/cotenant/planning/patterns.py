"""Which patterns of one site are worth more than a threshold: exact depth-first search under a knapsack bound.

    maximise    sum over the pattern's seats of value[seat]
    subject to  claims within the room; at most one seat a model; apart, alone; contention within each slack

The bound at depth j with r bytes left is the optimum of the plain multiple-choice knapsack over models j, j+1 and
so on, with claims rounded down to a grid: never below the truth, so nothing worth more than the threshold is
pruned.
Rounding may only make the search longer, never its answer wrong. A search that exhausts its work limit returns that
bound instead of the maximum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from cotenant.planning.problem import Problem
from cotenant.planning.sites import Pattern, Seat, Site, pattern_of

_CELLS = 512
_EPSILON = 1e-9

Choice = tuple[float, int, float, float, int, int, int, int]
"""(value, claim_bytes, busy, busy + slack, seat, option, own bit, bits of models it may not sit with)"""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found. `most` is no less than the value of any pattern of the site; `nodes` is the work."""

    patterns: tuple[Pattern, ...]
    most: float
    nodes: int
    complete: bool


class PatternSearch:
    """The search at one site. `least_headroom` shrinks the room by that share of the card's capacity."""

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
        self._room = int(where.room_bytes - least_headroom * where.capacity_bytes)
        self._unit = max(1, -(-self._room // _CELLS))
        self._choices: dict[int, list[tuple[int, int, float, float, int, int]]] = defaultdict(list)
        for number, seat in enumerate(seats):
            if seat.offer != where.offer or seat.request in where.barred:
                continue
            for option in seat.options:
                one = problem.candidates[seat.request][option]
                if one.claim_bytes <= self._room:
                    busy, cap = (one.busy, one.busy + one.slack) if problem.contention else (0.0, inf)
                    self._choices[seat.request].append(
                        (number, option, busy, cap, one.claim_bytes, one.quality_rank)
                    )
        self._conflicts = {request: self._bits_against(request) for request in self._choices}

    def _bits_against(self, request: int) -> int:
        """The models, as bits, with which it shares no card: itself, those apart, and whoever must be alone."""
        if request in self._problem.alone:
            return (1 << len(self._problem.names)) - 1
        apart = {other for pair in self._problem.apart if request in pair for other in pair}
        return sum(1 << other for other in apart | self._problem.alone | {request})

    def best(self, values: Sequence[float], floor: float, *, limit: int) -> Found:
        """The patterns that raised the best value above `floor`, the best last."""
        return self._search(values, floor, limit, every=False)

    def above(self, values: Sequence[float], floor: float, *, limit: int, quality_first: bool = False) -> Found:
        """Every pattern worth `floor` or more, one of each set of seats: the smallest, or the best in quality."""
        found = self._search(values, floor, limit, every=True)
        return replace(found, patterns=_one_a_set(found.patterns, quality_first=quality_first))

    def _groups(self, values: Sequence[float], *, every: bool) -> list[list[Choice]]:
        groups = []
        for request, choices in self._choices.items():
            group = [
                (values[seat], claim, busy, cap, seat, option, 1 << request, self._conflicts[request])
                for seat, option, busy, cap, claim, _ in choices
                if values[seat] > _EPSILON or every
            ]
            if group:
                group.sort(key=lambda each: (-each[0], each[1], each[4], each[5]))
                groups.append(group)
        groups.sort(key=lambda group: (-max(each[0] / max(1, each[1]) for each in group), group[0][4]))
        return groups

    def _bounds(self, groups: list[list[Choice]]) -> list[list[float]]:
        """bounds[j][cells] is the most that groups j.. can be worth in that many grid cells."""
        import numpy as np

        cells = self._room // self._unit + 1
        row = np.zeros(cells)
        rows = [row.tolist()]
        for group in reversed(groups):
            following = row
            row = following.copy()
            for value, claim, *_ in group:
                taken = claim // self._unit
                np.maximum(row[taken:], following[: cells - taken] + value, out=row[taken:])
            rows.append(row.tolist())
        rows.reverse()
        return rows

    def _search(self, values: Sequence[float], floor: float, limit: int, *, every: bool) -> Found:
        if self._room <= 0:
            return Found((), 0.0, 0, complete=True)
        groups = self._groups(values, every=every)
        bounds = self._bounds(groups)
        unit, count = self._unit, len(groups)
        found: list[tuple[float, tuple[tuple[int, int], ...]]] = []
        nodes = 0

        def visit(
            start: int,
            room: int,
            value: float,
            busy: float,
            cap: float,
            mask: int,
            chosen: tuple[tuple[int, int], ...],
        ) -> None:
            nonlocal floor, nodes
            nodes += 1
            if value >= floor and chosen:
                found.append((value, chosen))
                if not every:
                    floor = value + _EPSILON
            cells = room // unit
            for index in range(start, count):
                if value + bounds[index][cells] < floor or nodes > limit:
                    return
                for worth, claim, work, patience, seat, option, bit, conflicts in groups[index]:
                    if claim > room or mask & conflicts:
                        continue
                    if busy + work > min(cap, patience) + _EPSILON:
                        continue
                    rest = room - claim
                    if value + worth + bounds[index + 1][rest // unit] < floor:
                        continue
                    both = min(cap, patience)
                    visit(index + 1, rest, value + worth, busy + work, both, mask | bit, (*chosen, (seat, option)))

        visit(0, self._room, 0.0, 0.0, inf, 0, ())
        complete = nodes <= limit
        most = floor if complete else bounds[0][-1]
        patterns = tuple(self._pattern(chosen) for _, chosen in found)
        return Found(patterns, most, nodes, complete)

    def _pattern(self, chosen: tuple[tuple[int, int], ...]) -> Pattern:
        triples = tuple((self._seats[seat], seat, option) for seat, option in chosen)
        return pattern_of(self._problem, self._sites, self._site, triples)


def _one_a_set(patterns: tuple[Pattern, ...], *, quality_first: bool) -> tuple[Pattern, ...]:
    def rank(one: Pattern) -> tuple[int, int]:
        return (one.quality, one.claim_bytes) if quality_first else (one.claim_bytes, one.quality)

    kept: dict[tuple[int, ...], Pattern] = {}
    for one in patterns:
        if one.seats not in kept or rank(one) < rank(kept[one.seats]):
            kept[one.seats] = one
    return tuple(kept.values())
