"""The proof: every placement that may be cheaper than the best known, listed and looked at.

A placement of cost C or less uses only patterns whose reduced cost is at most C - B; `listing` has them all, and
`partition` finds the best among them. It is asked step by step from the bound, where the lists are shortest, then
for all that is cheaper than the best known; each empty answer raises the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.planning.listing import list_patterns
from cotenant.planning.partition import Limit, Partition
from cotenant.planning.relaxation import Prices
from cotenant.planning.seated import cost_of
from cotenant.planning.seating import Seated, Space

MOST_STEPS = 8
MOST_LISTED = 60_000  # models times patterns of an integer program that is to prove
_TOLERANCE = 1e-6


@dataclass(slots=True)
class Proof:
    """The best placement and the bound as they close in on each other.

    `total` is what all cards cost together, `step` that of which every cost is a multiple (0: none).
    """

    space: Space
    prices: Prices
    step: float
    total: float
    best: Seated | None
    bound: float
    _partition: Partition = field(init=False)

    def __post_init__(self) -> None:
        self._partition = Partition(self.space)

    @property
    def cost(self) -> float:
        """Of the best placement; of all cards together where there is none yet."""
        return cost_of(self.space, self.best) if self.best else self.total

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be cheaper."""
        return self.best is not None and self.cost <= self.bound + _TOLERANCE

    def prove(self, nodes: int) -> bool:
        """Whether the best is proven now, `nodes` of search a list."""
        far = self.step > 0 and self.cost - self.bound > MOST_STEPS * self.step + _TOLERANCE
        for _ in range(MOST_STEPS):
            ahead = 0.0 if self.step else (self.cost - self.bound) / MOST_STEPS
            if self.is_closed:
                return True
            if not self._ask(self.bound + ahead, nodes * 2 // 5 if far else nodes):
                if far:
                    return False  # a list of all that is cheaper would be longer still
                break
        if not self.is_closed:
            self._ask(self.cost - self.step if self.best else self.total, nodes)
        return self.is_closed

    def _ask(self, most: float, nodes: int) -> bool:
        """Look at every placement that costs `most` or less: the cheapest becomes the best; without one the bound
        goes above `most`. Whether that could be done within `nodes` of listing."""
        listing = list_patterns(self.space, self.prices, most, most_nodes=nodes)
        if not listing.complete or len(listing.patterns) * len(self.space.problem.names) > MOST_LISTED:
            return False
        cost = Limit(lambda one: self.space.sites[one.site].weight, lambda _: 0.0, most + _TOLERANCE)
        found = self._partition.minimise(
            listing.patterns, weigh=cost.weigh, limits=(cost,), absolute_gap=max(_TOLERANCE, 0.4 * self.step)
        )
        if found is not None:
            self.best = found.seated
            self.bound = max(self.bound, found.value if found.optimal else found.bound)
            return found.optimal
        if not self._partition.exhausted:
            self.bound = max(self.bound, most + self.step)
        return not self._partition.exhausted
