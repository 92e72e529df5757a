"""Packing problems drawn from a seed: sizes, traffic and SLOs of a mixed fleet, without the estimator.

Models have 8 to 140 GiB of weights at 16 bits, three precisions, one to four ranks, 1 to 12 GiB of cache; half of
them hold an SLO beside busy neighbours. Cards are a shop of up to twelve types at rental prices.
"""

from __future__ import annotations

from math import inf
from random import Random

from cotenant.planning.greedy import place_greedily
from cotenant.planning.problem import Candidate, Card, Problem
from cotenant.units import GIB

_TYPES = (
    (24, 0.4), (48, 0.9), (80, 1.9), (141, 3.4), (80, 1.3), (96, 1.7), (40, 0.76), (180, 4.9), (16, 0.3),
    (32, 0.62), (64, 1.2), (192, 4.6),
)  # fmt: skip  # GiB, $/h
_ROOM = 0.88
_NODE = 8


def drawn(models: int, types: int, seed: int) -> Problem:
    """A fleet of `models` models over `types` types; the shop holds what the greedy plan's cost buys."""
    random = Random(seed)
    candidates = tuple(_ways(number, types, random) for number in range(models))
    whole = _problem(candidates, _cards(candidates, types, None))
    return _problem(candidates, _cards(candidates, types, place_greedily(whole).objective_value))


def _problem(candidates: tuple[tuple[Candidate, ...], ...], cards: tuple[Card, ...]) -> Problem:
    return Problem(
        names=tuple(f"model-{number}" for number in range(len(candidates))),
        candidates=candidates,
        cards=cards,
        apart=frozenset(),
        alone=frozenset(),
        pins={},
        objective=("cost", "headroom", "quality"),
        priorities=(0,) * len(candidates),
    )


def _ways(number: int, types: int, random: Random) -> tuple[Candidate, ...]:
    weights = random.choice([8, 14, 16, 28, 40, 70, 140])
    ways = []
    for offer, (memory, _) in enumerate(_TYPES[:types]):
        for rank, share in enumerate((1.0, 0.55, 0.3)):
            for size in (1, 2, 4):
                claim = (weights * share + random.uniform(1, 12)) / size + 1.5
                if claim < memory * _ROOM:
                    ways.append(_way(number, offer, rank, size, claim, random))
                    break
    return tuple(ways)


def _way(number: int, offer: int, rank: int, size: int, claim: float, random: Random) -> Candidate:
    return Candidate(
        request=number, offer=offer, format=("bf16", "fp8", "awq-int4")[rank], checkpoint="drawn/model",
        tensor_parallel_size=size, replicas=1, claim_bytes=int(claim * GIB), load_peak_bytes=int(claim * GIB),
        busy=random.choice([0.1, 0.5, 0.9]), slack=random.choice([inf, inf, 0.6, 2.0]), quality_rank=rank,
        settings=None, demand=None, judged=None,  # type: ignore[arg-type]  # the packing never looks inside
    )  # fmt: skip


def _cards(candidates: tuple[tuple[Candidate, ...], ...], types: int, budget: float | None) -> tuple[Card, ...]:
    cards: list[Card] = []
    node = 0
    for offer, (memory, price) in enumerate(_TYPES[:types]):
        count = sum(max((way.ranks for way in ways if way.offer == offer), default=0) for ways in candidates)
        if budget is not None:
            count = min(count, int(budget / price + 1e-9))
        for place in range(count):
            where = (node + place // _NODE, place % _NODE)
            cards.append(Card(offer, *where, None, memory * GIB, 0, int(memory * _ROOM * GIB), price))
        node += -(-count // _NODE)
    return tuple(cards)
