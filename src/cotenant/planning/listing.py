"""All patterns that a placement of at most a given cost can use, from reduced costs.

With feasible prices of bound B, a placement costs at least B plus the reduced costs

    w_k + mu_k - sum of value[s] over the pattern's seats  >= 0

of its patterns. So one of cost C or less uses only patterns whose reduced cost is at most C - B.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.planning.patterns import Keep, PatternSearch
from cotenant.planning.relaxation import Prices
from cotenant.planning.seating import Space
from cotenant.planning.sites import Pattern

MOST_NODES = 30_000
MOST_PATTERNS = 20_000
_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class Listing:
    """The patterns; `complete` when none is missing."""

    patterns: tuple[Pattern, ...]
    complete: bool


def list_patterns(
    space: Space,
    prices: Prices,
    most_cost: float,
    *,
    least_headroom: float = 0.0,
    keep: Keep = "smallest",
    most_nodes: int = MOST_NODES,
) -> Listing:
    """Every pattern for placements of at most `most_cost` that leave `least_headroom` of each card free."""
    values = prices.values(space.seats)
    gap = most_cost - prices.bound + _SLACK * max(1.0, most_cost)
    found: list[Pattern] = []
    left = most_nodes
    for number, (site, price) in enumerate(zip(space.sites, prices.sites, strict=True)):
        search = PatternSearch(space.problem, space.sites, number, space.seats, least_headroom=least_headroom)
        one = search.above(values, site.weight + price - gap, limit=left, keep=keep)
        left -= one.nodes
        found += one.patterns
        if not one.complete or left <= 0 or len(found) > MOST_PATTERNS:
            return Listing(tuple(found), complete=False)
    return Listing(tuple(found), complete=True)
