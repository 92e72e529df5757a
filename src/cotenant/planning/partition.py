"""The integer master: how many cards carry each pattern, and in which of its ways each model is served.

    variables   use[p] in 0, 1, ...   cards with pattern p           choose[c] in {0, 1}   seats c of several ranks
    subject to  sum_{p with a seat of one rank of m} use[p] + sum_c choose[c] = 1         for each model m
                sum_{p with c} use[p] = ranks_c choose[c]                                 for each c
                sum_{p with c and a seat of one rank of m} use[p] <= choose[c]            for each c, m: a cut
                sum_{p of site k} use[p] <= n_k
    objectives  one after the other: cost, then those of `ties`

Where tensor-parallel replicas cannot be seated inside nodes, the patterns of that offer are counted by node and
whole replicas are asked of each node; then the answer is exact for it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import inf

from cotenant.planning.program import MOST_NODES, Program
from cotenant.planning.seating import Seated, Space, Unseated, add_node_rows, seat_patterns
from cotenant.planning.sites import Pattern, pattern_of

_FEWEST_NODES = 20
_MOST_WORK = 200_000  # branch-and-bound nodes times patterns: some seconds at most

Weigh = Callable[[Pattern], float]
WeighSeat = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Limit:
    """An objective that is settled: its total over cards and chosen seats of several ranks stays within `most`."""

    weigh: Weigh
    weigh_seat: WeighSeat
    most: float


@dataclass(frozen=True, slots=True)
class Solution:
    """Patterns on cards. `bound` holds for the patterns given; `optimal` among them."""

    seated: Seated
    value: float
    bound: float
    optimal: bool


@dataclass(slots=True)
class Partition:
    """Solves over given patterns; remembers which offers need their nodes told apart."""

    space: Space
    split_offers: set[int] = field(default_factory=set)
    exhausted: bool = False  # whether the last answer is missing for want of work, not of a solution

    def minimise(
        self,
        patterns: Sequence[Pattern],
        *,
        weigh: Weigh,
        weigh_seat: WeighSeat = lambda _: 0.0,
        limits: Sequence[Limit] = (),
        closed: bool = True,
        absolute_gap: float = 1e-6,
    ) -> Solution | None:
        """The least total of `weigh` over cards and `weigh_seat` over chosen seats of several ranks.

        `closed` says that with each pattern its parts are there too; else a model may be covered more than once,
        and what is too much is taken off.
        """
        nodes = min(MOST_NODES, max(_FEWEST_NODES, _MOST_WORK // max(1, len(patterns))))
        while True:
            model = _Model(self.space, patterns, frozenset(self.split_offers), closed=closed)
            model.build(weigh, weigh_seat, limits)
            outcome = model.program.solve(absolute_gap=absolute_gap, nodes=nodes)
            self.exhausted = outcome is not None and not outcome.values
            if outcome is None or not outcome.values:
                return None
            seated = model.seat(outcome.values)
            if not isinstance(seated, Unseated):
                return Solution(seated, outcome.value, outcome.bound, outcome.optimal)
            if not closed:
                self.exhausted = True
                return None
            self.split_offers.add(seated.offer)


def cheapest_cover(
    space: Space,
    patterns: Sequence[Pattern],
    *,
    wanted: Collection[int],
    counts: Sequence[int],
    most: float,
    nodes: int,
) -> list[tuple[Pattern, int]] | None:
    """The cheapest patterns that serve the models `wanted` for `most` or less; nodes are not looked at.

    `counts` says how many cards of each site they may take.
    """
    model = _Model(space, patterns, frozenset(), closed=False, wanted=wanted, counts=counts)
    cost = Limit(lambda one: space.sites[one.site].weight, lambda _: 0.0, most)
    model.build(cost.weigh, cost.weigh_seat, (cost,))
    outcome = model.program.solve(nodes=nodes)
    return None if outcome is None or not outcome.values else trimmed(space, model.counts(outcome.values))


class _Model:
    def __init__(
        self,
        space: Space,
        patterns: Sequence[Pattern],
        split: frozenset[int],
        *,
        closed: bool,
        wanted: Collection[int] | None = None,
        counts: Sequence[int] | None = None,
    ) -> None:
        self._wanted = range(len(space.problem.names)) if wanted is None else wanted
        self._counts = [len(site.cards) for site in space.sites] if counts is None else counts
        self._space, self._patterns, self._split, self._closed = space, patterns, split, closed
        self.program = Program()
        self._columns: list[tuple[int | None, Pattern, int]] = []  # (node where told apart, pattern, column)

    def build(self, weigh: Weigh, weigh_seat: WeighSeat, limits: Sequence[Limit]) -> None:
        space = self._space
        several = sorted({seat for one in self._patterns for seat in one.seats if space.seats[seat].ranks > 1})
        choose = {seat: self.program.column(weigh_seat(seat), 1.0) for seat in several}
        for one in self._patterns:
            offer = space.sites[one.site].offer
            nodes: list[int | None] = [None]
            if offer in self._split and space.is_split(one):
                nodes = [node for node, room in space.nodes(offer).items() if one.site in room]
            for node in nodes:
                self._columns.append((node, one, self.program.column(weigh(one), self._most(one))))
        self._add_rows(choose)
        for limit in limits:
            terms = {column: limit.weigh(one) for _, one, column in self._columns}
            terms |= {column: limit.weigh_seat(seat) for seat, column in choose.items()}
            self.program.row(-inf, limit.most, {column: each for column, each in terms.items() if each})

    def _most(self, pattern: Pattern) -> int:
        """A pattern is used once where it holds a model of one rank, else as often as its fewest ranks."""
        return min([self._space.seats[seat].ranks for seat in pattern.seats] + [self._counts[pattern.site]])

    def _add_rows(self, choose: dict[int, int]) -> None:
        seats = self._space.seats
        cover: dict[int, dict[int, float]] = {number: {} for number in self._wanted}
        link: dict[int, dict[int, float]] = {
            seat: {column: -float(seats[seat].ranks)} for seat, column in choose.items()
        }
        pair: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        site: dict[int, dict[int, float]] = defaultdict(dict)
        for seat, column in choose.items():
            cover[seats[seat].request][column] = 1.0
        for _, one, column in self._columns:
            site[one.site][column] = 1.0
            single = [seats[seat].request for seat in one.seats if seats[seat].ranks == 1]
            for request in single:
                cover[request][column] = 1.0
            for seat in one.seats:
                if seats[seat].ranks > 1:
                    link[seat][column] = 1.0
                    for request in single:
                        pair[seat, request][column] = 1.0
        for terms in cover.values():
            self.program.row(1.0, 1.0 if self._closed else inf, terms)
        for terms in link.values():
            self.program.row(0.0, 0.0 if self._closed else inf, terms)
        for (seat, _), terms in pair.items() if self._closed else ():
            self.program.row(-inf, 0.0, terms | {choose[seat]: -1.0})
        for number, terms in site.items():
            self.program.row(-inf, self._counts[number], terms)
        for offer in sorted(self._split):
            mine = {
                (number, node): (one, column)
                for number, (node, one, column) in enumerate(self._columns)
                if node is not None and self._space.sites[one.site].offer == offer
            }
            add_node_rows(self._space, self.program, self._space.nodes(offer), mine)

    def counts(self, values: Sequence[float]) -> list[tuple[Pattern, int]]:
        """The patterns in use, nodes apart."""
        return [(one, round(values[column])) for _, one, column in self._columns if values[column] > 0.5]

    def seat(self, values: Sequence[float]) -> Seated | Unseated:
        fixed: dict[int, list[tuple[int, Pattern, int]]] = {offer: [] for offer in self._split}
        counts = []
        for node, one, column in self._columns:
            count = round(values[column])
            if not count:
                continue
            counts.append((one, count))
            if node is not None:
                fixed[self._space.sites[one.site].offer].append((node, one, count))
        if not self._closed:
            return seat_patterns(self._space, trimmed(self._space, counts), {})
        return seat_patterns(self._space, counts, fixed)


def trimmed(space: Space, counts: Sequence[tuple[Pattern, int]]) -> list[tuple[Pattern, int]]:
    """The same cards without what serves a model a second time; each model keeps its fewest ranks."""
    copies = [one for one, count in counts for _ in range(count)]
    present: dict[int, int] = defaultdict(int)
    for one in copies:
        for seat in one.seats:
            present[seat] += 1
    kept: dict[int, int] = {}
    for seat, number in present.items():
        mine = space.seats[seat]
        best = kept.get(mine.request)
        if number >= mine.ranks and (best is None or (mine.ranks, seat) < (space.seats[best].ranks, best)):
            kept[mine.request] = seat
    left = {seat: space.seats[seat].ranks for seat in kept.values()}
    result = []
    for one in copies:
        triples = []
        for seat, option in zip(one.seats, one.options, strict=True):
            if left.get(seat, 0) > 0:
                left[seat] -= 1
                triples.append((space.seats[seat], seat, option))
        if triples:
            result.append((pattern_of(space.problem, space.sites, one.site, tuple(triples)), 1))
    return result
