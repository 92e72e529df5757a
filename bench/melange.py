"""Melange's published example, solved by the planner's own packing.

Its model: a bucket of requests loads a card of type j by rate / throughput_j, and loads add up to the number of
cards. Here every slice of a bucket must sit on cards whole, which is stricter, so a plan that holds here holds
there. Buckets of more than one card's load become replicas.

Figures: melange/config/example.json and README.md of github.com/tyler-griggs/melange-release at d46ab43.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from cotenant.planning.placing import place_exactly
from cotenant.planning.problem import Candidate, Card, Placement, Problem

PUBLISHED_COST = 6.70
_PRICES = (1.01, 3.67)  # $/h of an A10G and an A100-80GB
_THROUGHPUT = ((2.0, 1.0, 5.0, 2.0), (20.0, 20.0, 40.0, 20.0))  # requests/s of each, by bucket
_RATES = (6.0, 3.0, 15.0, 6.0)  # 30 requests/s x (0.2, 0.1, 0.5, 0.2)
_WHOLE = 240_000  # one card's load: divides by all that occurs


@dataclass(frozen=True, slots=True)
class Mixed:
    """The placement for one number of slices a bucket, and the cards of each type that it takes."""

    placement: Placement
    cards: tuple[int, int]


def solve(slices: int) -> Mixed:
    """The cheapest with each bucket cut into so many slices; each slice is served by one type of card."""
    ways = tuple(_ways(number, bucket, slices) for number, bucket in enumerate(_buckets(slices)))
    cards = tuple(
        Card(offer, place, 0, None, _WHOLE, 0, _WHOLE, price)
        for offer, price in enumerate(_PRICES)
        for place in range(ceil(sum(_RATES) / min(_THROUGHPUT[offer])))
    )
    problem = Problem(
        names=tuple(map(str, range(len(ways)))), candidates=ways, cards=cards, apart=frozenset(),
        alone=frozenset(), pins={}, objective=("cost",), priorities=(0,) * len(ways), contention=False,
    )  # fmt: skip
    placement = place_exactly(problem)
    if placement is None:
        raise ValueError("Melange's example found no place")
    used = {card for one in placement.assignments for card in one.each_card()}
    counts = [sum(cards[card].offer == offer for card in used) for offer in (0, 1)]
    return Mixed(placement, (counts[0], counts[1]))


def _buckets(slices: int) -> list[int]:
    return [bucket for bucket in range(len(_RATES)) for _ in range(slices)]


def _ways(number: int, bucket: int, slices: int) -> tuple[Candidate, ...]:
    found = []
    for offer in range(len(_PRICES)):
        load = round(_WHOLE * _RATES[bucket] / slices / _THROUGHPUT[offer][bucket])
        replicas = max(1, -(-load // _WHOLE))
        claim = -(-load // replicas)
        found.append(
            Candidate(
                request=number, offer=offer, format="", checkpoint="", tensor_parallel_size=1, replicas=replicas,
                claim_bytes=claim, load_peak_bytes=claim, busy=0.0, slack=inf, quality_rank=0,
                settings=None, demand=None, judged=None,  # type: ignore[arg-type]  # the packing never looks inside
            )
        )  # fmt: skip
    return tuple(found)
