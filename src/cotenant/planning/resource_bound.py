"""A floor under the cost of any placement, from memory alone; it takes no search.

A used card of price p and room R costs p / R or more for each byte that sits on it. So a model costs at least what
the cheapest of its ways claims, times the least price of a byte on the cards of that way's offer:

    sum over models of  min over its ways of  ranks * claim_bytes * min over the offer's cards of  p / R
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from cotenant.planning.problem import Candidate, Problem


def resource_bound(problem: Problem) -> float:
    """The least that all models can cost together, in the problem's weights; infinite where a model has no way."""
    return sum(resource_prices(problem))


def resource_prices(problem: Problem) -> tuple[float, ...]:
    """The least that each model's memory can cost."""
    price = _prices_of_bytes(problem)
    return tuple(min((_worth(one, price) for one in ways), default=inf) for ways in problem.candidates)


def is_short(problem: Problem) -> bool:
    """Whether memory alone leaves no room for all models: a way takes ranks * claim_bytes / R of a card or more,
    and there are only so many cards."""
    room: dict[int, int] = {}
    for card in problem.cards:
        room[card.offer] = max(room.get(card.offer, 0), card.room_bytes)

    def share(one: Candidate) -> float:
        most = room.get(one.offer, 0)
        return one.ranks * one.claim_bytes / most if most > 0 else inf

    least = sum(min(map(share, ways), default=inf) for ways in problem.candidates)
    return least > len(problem.cards) * (1 + 1e-9)


def bound_with(problem: Problem) -> Callable[[Candidate], float]:
    """The same bound for all placements in which one way serves its model, asked for many ways."""
    prices, price = resource_prices(problem), _prices_of_bytes(problem)
    whole = sum(prices)
    return lambda one: whole - prices[one.request] + _worth(one, price)


def _prices_of_bytes(problem: Problem) -> dict[int, float]:
    """By offer, the least that a byte on one of its cards costs."""
    price: dict[int, float] = {}
    for card in problem.cards:
        if card.room_bytes > 0:
            rate = problem.weight(card) / card.room_bytes
            price[card.offer] = min(price.get(card.offer, inf), rate)
    return price


def _worth(one: Candidate, price: Mapping[int, float]) -> float:
    return one.ranks * one.claim_bytes * price.get(one.offer, inf)
