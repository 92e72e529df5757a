"""Prism's placement problem to the proven optimum: models on equal cards so that the worst pressure is the least.

    pressure of a card = sum of rate/SLO of its models / (memory - sum of their weights)

Exact: the best known is undercut until a complete search finds that it cannot be, and that search is the proof.
The published score of many cases is 1 / mean(worst pressure).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

MEMORY = 80.0  # GB of each card, as the problem states
_LESS = 1e-12
_ROUNDING = 1e-9  # in GB: a set is never left out because two sums were rounded differently

Model = tuple[float, float]
"""(GB of weights, rate over SLO)"""


@dataclass(frozen=True, slots=True)
class Spread:
    """Which models each card takes, the worst pressure, and the search nodes that proved it the least."""

    cards: tuple[tuple[int, ...], ...]
    pressure: float
    nodes: int


def read_cases(path: Path) -> list[tuple[int, list[Model]]]:
    """(number of cards, models) of each case of a file."""
    return [(cards, [(size, load) for size, load in models]) for cards, models in json.loads(path.read_text())]


def pressure(models: Sequence[Model], chosen: Sequence[int]) -> float:
    """Of one card; infinite where its weights leave nothing."""
    free = MEMORY - sum(models[each][0] for each in chosen)
    load = sum(models[each][1] for each in chosen)
    return load / free if free > 0 else (inf if load else 0.0)


def greedy(cards: int, models: Sequence[Model]) -> float:
    """The worst pressure of Prism's own rule: the greatest load first, to the card of the least pressure."""
    on: list[list[int]] = [[] for _ in range(cards)]
    for number in sorted(range(len(models)), key=lambda each: -models[each][1]):
        fitting = [card for card in on if pressure(models, [*card, number]) < inf]
        if not fitting:
            return inf
        min(fitting, key=lambda card: pressure(models, card)).append(number)
    return max(pressure(models, card) for card in on)


def least_pressure(cards: int, models: Sequence[Model], *, below: float = inf) -> Spread | None:
    """The optimum with proof; None where no spread stays under `below`."""
    best, nodes = None, 0
    while True:
        search = _Below(models, below)
        found = search.spread((1 << len(models)) - 1, cards)
        nodes += search.nodes
        if found is None:
            return None if best is None else Spread(best, max(pressure(models, card) for card in best), nodes)
        best = tuple(search.named(each) for each in found)
        below = max(pressure(models, card) for card in best)


class _Below:
    """Whether all models can be spread so that each card's pressure is below a figure K.

    That is packing: rate/SLO + K GB of each card's models stays below K times the memory. A card is only tried
    with sets to which nothing that is left could be added, since more room elsewhere never hurts.
    """

    def __init__(self, models: Sequence[Model], below: float) -> None:
        room = MEMORY * (1.0 - _LESS)
        per = 0.0 if below == inf else 1.0 / below
        self._claims = [size + load * per for size, load in models]
        self._order = sorted(range(len(models)), key=lambda each: -self._claims[each])
        self._sorted = [self._claims[each] for each in self._order]
        self._room, self.nodes = room, 0
        self._failed: set[tuple[int, int]] = set()

    def spread(self, left: int, cards: int) -> tuple[int, ...] | None:
        """Sets (bits by size) for `cards` cards that hold all of `left`."""
        self.nodes += 1
        if not left:
            return ()
        free = self._room * cards - sum(self._sorted[each] for each in _bits(left))
        if not cards or free < 0 or (left, cards) in self._failed:
            return None
        for chosen, rest in self._sets(left):
            if rest > free + _ROUNDING:
                break  # the sets come fullest first: what this one wastes is more than all may
            found = self.spread(left & ~chosen, cards - 1)
            if found is not None:
                return (chosen, *found)
        self._failed.add((left, cards))
        return None

    def _sets(self, left: int) -> list[tuple[int, float]]:
        """(set, room that stays) of each full set with the largest model that is left, the fullest first."""
        numbers = list(_bits(left))
        found: list[tuple[int, float]] = []

        def extend(start: int, chosen: int, room: float) -> None:
            for place in range(start, len(numbers)):
                if self._sorted[numbers[place]] <= room:
                    extend(place + 1, chosen | 1 << numbers[place], room - self._sorted[numbers[place]])
            if all(self._sorted[each] > room for each in numbers if not chosen >> each & 1):
                found.append((chosen, room))

        extend(1, 1 << numbers[0], self._room - self._sorted[numbers[0]])
        return sorted(found, key=lambda each: each[1])

    def named(self, chosen: int) -> tuple[int, ...]:
        """The models of a set."""
        return tuple(sorted(self._order[each] for each in _bits(chosen)))


def _bits(chosen: int) -> Iterator[int]:
    while chosen:
        yield (chosen & -chosen).bit_length() - 1
        chosen &= chosen - 1
