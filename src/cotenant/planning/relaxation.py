"""The linear relaxation over card patterns by column generation, and the lower bound that it proves.

    sets        m models, k sites of count n_k and price w_k, p patterns (each of one site)
    variables   use[p] >= 0        cards that carry pattern p
    minimise    sum_p w_k(p) use[p]
    subject to  sum_p sum_{seats s of m in p} use[p] / ranks_s >= 1      for each model       dual pi_m >= 0
                sum_{p of k} use[p] <= n_k                               for each site        dual mu_k >= 0

For any pi >= 0 and scale t > 0, with z_k the most that a pattern of site k is worth under value[s] = pi_m/ranks_s,

    sum_m pi_m / t - sum_k n_k max(0, z_k / t - w_k)

bounds every placement from below (Lagrange; t as in Farley 1990). z_k comes from the exact search of `patterns`,
or from its bound where the search stops at its limit, so the figure holds at every moment, not only at the end.
The prices are looked for between the master's and the best so far (Wentges 1997), which calms them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from cotenant.planning.patterns import Found, PatternSearch
from cotenant.planning.problem import Problem
from cotenant.planning.sites import Pattern, Seat, Site

if TYPE_CHECKING:
    from highspy import Highs

_SMOOTHING = 0.5
_EPSILON = 1e-7
_WHOLE = 1e-6
_DIVE_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Prices:
    """Feasible duals: `models` and `sites` in the problem's weights, and the `bound` that they prove."""

    models: tuple[float, ...]
    sites: tuple[float, ...]
    bound: float

    def values(self, seats: Sequence[Seat]) -> list[float]:
        """What each seat is worth."""
        return [self.models[seat.request] / seat.ranks for seat in seats]


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The end of the column generation: prices with their bound, and the patterns generated."""

    prices: Prices
    patterns: tuple[Pattern, ...]
    value: float
    rounds: int
    nodes: int


class Relaxation:
    """The restricted master and its searches. `missing` prices a model left out while columns are few.

    A part of a larger one asks for the models `wanted` alone, on at most `counts` cards of each site.
    """

    def __init__(
        self,
        problem: Problem,
        sites: tuple[Site, ...],
        seats: tuple[Seat, ...],
        *,
        missing: float,
        wanted: Collection[int] | None = None,
        counts: Sequence[int] | None = None,
        searches: Sequence[PatternSearch] | None = None,
    ) -> None:
        import highspy
        import numpy as np

        self._problem, self._sites, self._seats = problem, sites, seats
        self._requests = np.array([seat.request for seat in seats], np.int64)
        self._ranks = np.array([seat.ranks for seat in seats], np.float64)
        self._searches = searches or [PatternSearch(problem, sites, number, seats) for number in range(len(sites))]
        self._counts = counts or [len(site.cards) for site in sites]
        self._missing_cost = missing
        self._wanted = range(len(problem.names)) if wanted is None else wanted
        self._patterns: list[Pattern] = []
        self._known: set[tuple[int, tuple[int, ...]]] = set()
        self._columns_of: dict[int, list[int]] = {}  # patterns by seat
        self._seats_of: dict[int, list[int]] = {}
        for number, seat in enumerate(seats):
            self._seats_of.setdefault(seat.request, []).append(number)
        self._barred: set[int] = set()
        self.nodes = 0
        self._highs: Highs = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy ships no types
        for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1), ("presolve", "off")):
            self._highs.setOptionValue(option, value)
        for request in range(len(problem.names)):
            self._highs.addRow(float(request in self._wanted), highspy.kHighsInf, 0, [], [])
            self._highs.addCol(missing, 0.0, highspy.kHighsInf, 1, [request], [1.0])
        for count in self._counts:
            self._highs.addRow(-highspy.kHighsInf, float(count), 0, [], [])

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """All that were generated or added so far."""
        return tuple(self._patterns)

    def whole(self) -> Relaxation:
        """The same from the start, with all patterns known: what a dive had fixed is free again."""
        whole = Relaxation(
            self._problem, self._sites, self._seats, missing=self._missing_cost, searches=self._searches
        )  # fmt: skip
        whole.add(self._patterns)
        return whole

    def part(self, wanted: Collection[int], counts: Sequence[int]) -> Relaxation:
        """The same for a few of the models on a few of the cards, with the patterns known for those alone."""
        part = Relaxation(
            self._problem, self._sites, self._seats, missing=self._missing_cost, wanted=wanted, counts=counts,
            searches=self._searches,
        )  # fmt: skip
        part.add(one for one in self._patterns if all(self._seats[seat].request in wanted for seat in one.seats))
        return part

    def add(self, patterns: Iterable[Pattern]) -> int:
        """Add those that are not there yet; how many were new."""
        import highspy

        before = len(self._patterns)
        models = len(self._problem.names)
        for one in patterns:
            if (one.site, one.seats) in self._known:
                continue
            self._known.add((one.site, one.seats))
            for seat in one.seats:
                self._columns_of.setdefault(seat, []).append(len(self._patterns))
            self._patterns.append(one)
            rows = [self._seats[seat].request for seat in one.seats] + [models + one.site]
            shares = [1.0 / self._seats[seat].ranks for seat in one.seats] + [1.0]
            self._highs.addCol(
                self._sites[one.site].weight, 0.0, highspy.kHighsInf, len(rows), rows, shares
            )  # fmt: skip
        return len(self._patterns) - before

    def solve(self, *, rounds: int, limit: int, most: float = inf) -> Relaxed:
        """Generate until no pattern pays, `rounds` or `limit` nodes are spent, or the bound reaches `most`."""
        models = len(self._problem.names)
        best = Prices((0.0,) * models, (0.0,) * len(self._sites), 0.0)
        value, turn = 0.0, 0
        for turn in range(1, rounds + 1):
            value, pi, mu = self._solve_master()
            if best.bound >= min(value, most) - _EPSILON or self.nodes > limit:
                break
            between = best.bound > 0 and turn > 1
            weight = _SMOOTHING if between else 0.0
            found, prices = self._price(_blend(best.models, pi, weight), _blend(best.sites, mu, weight), limit)
            best = max(best, prices, key=lambda each: each.bound)
            added = self.add(pattern for each in found for pattern in each.patterns)
            if not added and between:
                found, prices = self._price(pi, mu, limit)
                best = max(best, prices, key=lambda each: each.bound)
                added = self.add(pattern for each in found for pattern in each.patterns)
            if not added:
                break
        return Relaxed(best, tuple(self._patterns), value, turn, self.nodes)

    def dive(self, *, rounds: int, at_once: int, limit: int) -> tuple[tuple[Pattern, int], ...] | None:
        """Round the largest shares up, generate again for what is left, until all is whole: patterns with counts.

        `at_once` shares are rounded in a step, up to ten rounds generated after it, `rounds` in all. None when a
        model ends without a place. What is fixed stays fixed: go on with `whole`.
        """
        import highspy

        fixed: dict[int, int] = {}
        solved = highspy.HighsModelStatus.kOptimal
        self._highs.run()
        while self._highs.getModelStatus() == solved and self._missing() <= _WHOLE:
            broken = {
                number: share
                for number, share in enumerate(self._shares())
                if share > fixed.get(number, 0) + _WHOLE
            }
            if not broken:
                return tuple((self._patterns[number], count) for number, count in sorted(fixed.items()))
            whole = [number for number, share in broken.items() if share - int(share + _WHOLE) < _WHOLE]
            largest = sorted(broken, key=lambda number: (fixed.get(number, 0) - broken[number], number))
            for number in sorted({*whole, *largest[:at_once]}):
                fixed[number] = max(fixed.get(number, 0) + 1, int(broken[number] + _WHOLE))
                self._fix(number, fixed[number])
            rounds -= self._generate(min(rounds, _DIVE_ROUNDS), limit)
        return None

    def _shares(self) -> tuple[float, ...]:
        return tuple(self._highs.getSolution().col_value)[len(self._problem.names) :]

    def _missing(self) -> float:
        return sum(self._highs.getSolution().col_value[: len(self._problem.names)])

    def _fix(self, number: int, count: int) -> None:
        """At least `count` cards carry this pattern; its models of several ranks are served in no other way."""
        import highspy

        models = len(self._problem.names)
        self._highs.changeColBounds(models + number, float(count), highspy.kHighsInf)
        for seat in self._patterns[number].seats:
            mine = self._seats[seat]
            if mine.ranks == 1:
                continue
            others = {*self._seats_of[mine.request]} - {seat} - self._barred
            self._barred |= others
            for column in sorted({column for other in others for column in self._columns_of.get(other, ())}):
                self._highs.changeColBounds(models + column, 0.0, 0.0)

    def _generate(self, rounds: int, limit: int) -> int:
        """Solve and price for `rounds` at most; how many it took. The master is solved at the end."""
        for turn in range(rounds):
            _, pi, mu = self._solve_master()
            if self.nodes > limit or not self.add(
                pattern for each in self._price(pi, mu, limit)[0] for pattern in each.patterns
            ):
                return turn + 1
        self._highs.run()
        return rounds

    def _solve_master(self) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
        self._highs.run()
        duals = self._highs.getSolution().row_dual
        models = len(self._problem.names)
        pi = tuple(max(0.0, dual) for dual in duals[:models])
        mu = tuple(max(0.0, -dual) for dual in duals[models:])
        return self._highs.getInfo().objective_function_value, pi, mu

    def _price(self, pi: Sequence[float], mu: Sequence[float], limit: int) -> tuple[list[Found], Prices]:
        import numpy as np

        values: Any = np.array(pi)[self._requests] / self._ranks
        if self._barred:
            values[sorted(self._barred)] = 0.0
        found = []
        for site, search, price in zip(self._sites, self._searches, mu, strict=True):
            one = search.best(values, site.weight + price + _EPSILON, limit=max(1000, limit // 50))
            self.nodes += one.nodes
            found.append(one)
        return found, feasible_prices(self._sites, self._counts, pi, [one.most for one in found])


def feasible_prices(
    sites: Sequence[Site], counts: Sequence[int], pi: Sequence[float], most: Sequence[float]
) -> Prices:
    """The scale t that makes the bound of this module's head the highest, and the duals that prove it."""
    scales = {1.0} | {
        each / site.weight
        for each, site in zip(most, sites, strict=True)
        if site.weight > 0 and each > site.weight
    }
    worth, best = sum(pi), (0.0, 0.0)  # (bound, scale); nothing is worth nothing: always a bound
    for scale in sorted(scales):
        taken = 0.0
        for count, each, site in zip(counts, most, sites, strict=True):
            taken += count * max(0.0, each / scale - site.weight)
        best = max(best, (worth / scale - taken, scale), key=lambda one: one[0])
    bound, scale = best
    if not scale:
        return Prices((0.0,) * len(pi), (0.0,) * len(sites), 0.0)
    mu = (max(0.0, each / scale - site.weight) for each, site in zip(most, sites, strict=True))
    return Prices(tuple(each / scale for each in pi), tuple(mu), bound)


def _blend(one: Sequence[float], other: Sequence[float], weight: float) -> tuple[float, ...]:
    return tuple(weight * left + (1 - weight) * right for left, right in zip(one, other, strict=True))
