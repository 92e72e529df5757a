"""The cards of a fleet as places: the pool's own, and as many of the shop's as any plan could use."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from cotenant.domain.fleet import Fleet, GpuOffer
from cotenant.planning.problem import MOST_PROCESSES, Candidate, Card


def cards_of(
    fleet: Fleet, ways: Sequence[Sequence[Candidate]], *, budget: float | None = None
) -> tuple[Card, ...]:
    """Every card that a plan may use, nodes numbered through all offers, those of the pool first.

    A shop is cut to what matters: never more cards than all models could sit on at once, nor than `budget`
    (the cost of a plan already known) buys. Where replicas are to stand on different nodes, hired cards come in as
    many nodes as there are such replicas, or more; equal ones where there are so many cards at most.
    """
    cards: list[Card] = []
    node = pool_index = 0
    for number, offer in sorted(enumerate(fleet.gpus), key=lambda each: each[1].is_shop):
        count = offer.count if offer.count is not None else _useful(number, offer, ways, budget)
        size, apart = offer.node_size, _apart(fleet, number, ways)
        if offer.is_shop and apart > 1 and count:
            if offer.maximum is None:
                size = min(size, count)
                count = (apart - 1 - (-count // size)) * size
            else:
                size = max(1, min(size, count // apart))
        for position in range(count):
            where = (node + position // size, position % size)
            cards.append(_card(number, offer, where, pool_index, fleet.headroom))
            pool_index += not offer.is_shop
        node += -(-count // size)
    return tuple(cards)


def _apart(fleet: Fleet, number: int, ways: Sequence[Sequence[Candidate]]) -> int:
    """The most replicas on that offer of a model that is spread over nodes; 1 where there is none."""
    spread = [each for request, each in zip(fleet.models, ways, strict=False) if request.spread]
    return max((way.replicas for each in spread for way in each if way.offer == number), default=1)


def _useful(number: int, offer: GpuOffer, ways: Sequence[Sequence[Candidate]], budget: float | None) -> int:
    needed = sum(max((way.ranks for way in each if way.offer == number), default=0) for each in ways)
    if budget is not None and offer.price_per_hour:
        needed = min(needed, floor(budget / offer.price_per_hour + 1e-9))
    return needed if offer.maximum is None else min(needed, offer.maximum)


def _card(number: int, offer: GpuOffer, where: tuple[int, int], pool_index: int, headroom: float) -> Card:
    capacity = offer.gpu.cuda_bytes.value
    return Card(
        offer=number,
        node=where[0],
        index=where[1],
        pool_index=None if offer.is_shop else pool_index,
        capacity_bytes=capacity,
        used_bytes=offer.used_bytes,
        room_bytes=max(0, floor(capacity * (1 - headroom)) - offer.used_bytes),
        price_per_hour=offer.price_per_hour,
        most_processes=offer.time_slices or MOST_PROCESSES,
    )
