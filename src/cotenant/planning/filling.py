"""Placements of large fleets by filling cards one after another, each as well as its price allows.

A model has a worth. The next card is the one, of all sites, on which models of the most worth a dollar may sit
together (`patterns`); what sits there is placed, and the next card follows. A model of several ranks takes its
cards at once, and whoever is split as it is comes along. Worth that grows a little faster than size brings what is
large and awkward forward, while small models are left to fill the gaps. After each pass, models that ended on
cards which cost more than what sits there is worth are worth more in the next one (sequential value correction:
Mukhacheva and Zalgaller 1993; Belov and Scheithauer 2007). Nothing is claimed of the least cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from cotenant.planning.patterns import PatternSearch
from cotenant.planning.seating import Seated, Space, Unseated, seat_patterns
from cotenant.planning.sites import Pattern

_NODES = 1_000  # of the search for one card
_GROWTH = 0.05  # worth grows as size to the power of 1 + this
_LEARNT = 0.5  # share of a pass's lesson that is taken over
_LESSON = (0.8, 3.0)  # the least and the most that one pass may teach of a model's worth
_FREE = 1e-6  # instead of the price of a card that costs nothing
_TOLERANCE = 1e-6


def filled(
    space: Space,
    searches: Sequence[PatternSearch],
    worth: Sequence[float],
    *,
    passes: int,
    enough: float,
    least_gain: float = 0.0,
) -> Seated | None:
    """The cheapest of `passes` fillings, or the first that costs `enough` or less; None where none places all. A
    pass that gains less than a share of `least_gain` of the cost is the last.

    `worth` is what each model may cost: the duals of a relaxation, or its bytes at the cheapest price.
    """
    import numpy as np

    if not all(map(isfinite, worth)):
        return None
    worths: Any = np.maximum(np.array(worth, float), 1e-6 * max(max(worth), _FREE))
    worths *= (worths / worths.mean()) ** _GROWTH
    best: Seated | None = None
    least = inf
    filling = _Filling(space, searches)
    for _ in range(passes):
        before = least
        patterns = filling.run(worths, least - _TOLERANCE)
        if patterns is None and not filling.used:
            break
        cost = sum(space.sites[one.site].weight for one in patterns or ())
        if patterns is not None and cost < least - _TOLERANCE:
            seated = seat_patterns(space, [(one, 1) for one in patterns], {})
            if not isinstance(seated, Unseated):
                best, least = seated, cost
        if least <= enough + _TOLERANCE or (best is not None and before - least < least_gain * least):
            break
        filling.learn(worths)
    return best


@dataclass(slots=True)
class _Left:
    """What a pass has still to place: the worth of each seat (0 once its model has a place), cards by site."""

    values: Any
    counts: list[int]
    models: int
    tops: list[float]  # by site, no less than the most a dollar that any of its patterns is worth


class _Filling:
    """Passes over one space. `used` are the patterns of the last one, whether or not it came to its end."""

    def __init__(self, space: Space, searches: Sequence[PatternSearch]) -> None:
        import numpy as np

        self._space, self._searches = space, searches
        seats = space.seats
        self._requests = np.array([seat.request for seat in seats], np.int64)
        self._ranks = np.array([seat.ranks for seat in seats], np.float64)
        ways = space.problem.candidates
        claims = np.array([min(ways[seat.request][each].claim_bytes for each in seat.options) for seat in seats])
        self._claims = np.maximum(claims, 1).astype(np.float64)
        offers = np.array([seat.offer for seat in seats], np.int64)
        by_offer = {site.offer: np.flatnonzero(offers == site.offer) for site in space.sites}
        self._here = [by_offer[site.offer] for site in space.sites]
        order = np.argsort(self._requests, kind="stable")
        ends = np.cumsum(np.bincount(self._requests, minlength=len(space.problem.names)))
        self._seats_of = np.split(order, ends[:-1])
        self.used: list[Pattern] = []

    def run(self, worths: Any, most: float) -> list[Pattern] | None:
        """Patterns that place every model for less than `most`; None where that was not found."""
        sites = self._space.sites
        left = _Left(
            worths[self._requests] / self._ranks, [len(site.cards) for site in sites], len(worths),
            [inf] * len(sites),
        )  # fmt: skip
        self.used = []
        cost, ratios = 0.0, [1.0] * len(left.counts)
        while left.models and cost <= most:
            pattern = self._next(left, ratios)
            if pattern is None:
                return None
            group = self._group(left, pattern)
            if group is None:
                return None
            self.used += group
            cost += self._space.sites[pattern.site].weight * len(group)
        return None if left.models or cost > most else list(self.used)

    def learn(self, worths: Any) -> None:
        """Correct worths by what the cards of the last pass cost beside what sits on them."""
        import numpy as np

        lesson = np.ones(len(worths)) if not self.used else np.zeros(len(worths))
        taught = np.zeros(len(worths), bool)
        for one in self.used:
            seats = list(one.seats)
            worth = float(sum(worths[self._requests[seats]] / self._ranks[seats]))
            for seat in seats:
                request = self._requests[seat]
                lesson[request] += self._price(one.site) / worth / self._ranks[seat]
                taught[request] = True
        lesson = np.where(taught, np.clip(lesson, *_LESSON), 1.0)
        worths *= 1 - _LEARNT + _LEARNT * lesson

    def _price(self, site: int) -> float:
        return max(self._space.sites[site].weight, _FREE)

    def _next(self, left: _Left, ratios: list[float]) -> Pattern | None:
        """The pattern worth most a dollar; `ratios` are the sites' last ones, the best site is asked first. What a
        site had at most it has at most still, since models only leave: most are not asked again."""
        import numpy as np

        best, ratio = None, 0.0
        for site in sorted(range(len(ratios)), key=lambda each: (-ratios[each], each)):
            if left.counts[site] <= 0 or left.tops[site] <= ratio + _TOLERANCE:
                continue
            price = self._price(site)
            here = self._here[site]
            mine: Any = np.where(self._ranks[here] <= left.counts[site], left.values[here], 0.0)
            densest = float((mine / self._claims[here]).max(initial=0.0))
            if densest * self._space.sites[site].room_bytes <= ratio * price:
                continue
            values: Any = np.zeros(len(left.values))
            values[here] = mine
            found = self._searches[site].best(values, ratio * price + _TOLERANCE * price, limit=_NODES, alone=True)
            left.tops[site] = found.most / price
            if found.patterns:
                best = found.patterns[-1]
                ratio = ratios[site] = float(sum(values[list(best.seats)])) / price
            else:
                ratios[site] = min(ratios[site], ratio)
        return best

    def _group(self, left: _Left, pattern: Pattern) -> list[Pattern] | None:
        """The pattern, and those that hold the other ranks of its models; None where they find no card."""
        import numpy as np

        group = [pattern]
        open_ = {seat: int(self._ranks[seat]) for seat in pattern.seats if self._ranks[seat] > 1}
        self._place(left, pattern, open_)
        above = 1e3 * max(float(left.values.max(initial=0.0)), 1.0) * len(left.values)
        while open_:
            if left.counts[pattern.site] <= 0:
                return None
            values: Any = np.where(self._ranks > 1, 0.0, left.values)
            values[list(open_)] = above
            found = self._searches[pattern.site].best(values, above * (len(open_) - 0.5), limit=_NODES, alone=True)
            if not found.patterns:
                return None
            group.append(found.patterns[-1])
            self._place(left, found.patterns[-1], open_)
        return group

    def _place(self, left: _Left, pattern: Pattern, open_: dict[int, int]) -> None:
        """Take the pattern's card and models off; of several ranks, count down those to come."""
        left.counts[pattern.site] -= 1
        for seat in pattern.seats:
            if seat in open_:
                open_[seat] -= 1
                if not open_[seat]:
                    del open_[seat]
            mine = self._seats_of[self._requests[seat]]
            if left.values[mine].any():
                left.values[mine] = 0.0
                left.models -= 1
