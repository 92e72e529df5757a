"""Large fleets in parts: a few cards are emptied and their models placed anew as a small problem of its own.

For hundreds of models the relaxation over all of them takes longer than it is worth: memory alone bounds such
fleets to within a per cent or so of it (`resource_bound`), because many models leave little room unused by chance.
Each part is a whole problem with its own cards, so nodes, pins and wishes hold in it as in any other; what it
finds takes the place of what was there when it costs less. Of large fleets several parts that share no card are
drawn before any is solved, so that a crew (`crew`) can solve them side by side; without one they are solved in
turn, and what comes out is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from cotenant.planning.crew import crew_in_force
from cotenant.planning.neighbourhoods import scattered
from cotenant.planning.partition import trimmed
from cotenant.planning.problem import Assignment, Candidate, Card, Placement, Problem
from cotenant.planning.relaxation import Relaxation
from cotenant.planning.resource_bound import resource_bound, resource_prices
from cotenant.planning.seated import patterns_of
from cotenant.planning.seating import Space, Unseated, assignments_of, seat_patterns
from cotenant.planning.sites import Pattern, seats_of, sites_of

_SIDE_BY_SIDE = 4  # parts of a large fleet that are drawn before any is solved
_GENERATIONS = 30
_DIVE_ROUNDS = 200
_SEARCH_NODES = 200_000
_TOLERANCE = 1e-6


def improve_by_blocks(
    problem: Problem,
    start: Placement,
    *,
    parts: Iterable[tuple[int, int]],
    step: float,
    enough: float,
    patience: float = inf,
) -> tuple[Assignment, ...]:
    """The best assignments after all `parts`, or the first that cost `enough` or less.

    `parts` are (models in a part, how many such parts) in their order: small ones take most of the waste away for
    little work, large ones most of the rest. Where parts that hold each model `patience` times gain nothing in a
    row, no more are looked at.
    """
    search = _Blocks(problem, start)
    least, turn, idle = max(step, 10 * _TOLERANCE), 0, 0
    for models, count in parts:
        at_once = max(1, min(_SIDE_BY_SIDE, len(problem.names) // (2 * models)))
        for first in range(0, count, at_once):
            if search.cost <= enough + _TOLERANCE or idle >= patience * len(problem.names):
                return search.assignments
            turns = range(turn + first, turn + min(first + at_once, count))
            before = search.cost
            search.improve(turns, least, models)
            idle = 0 if search.cost < before - _TOLERANCE else idle + models * len(turns)
        turn += count
    return search.assignments


Chosen = tuple[tuple[int, tuple[tuple[int, ...], ...]], ...]
"""By model of a part: which of its ways, and the cards of each replica, in the part's numbers."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part as it was drawn: `models` and `usable` are the whole problem's numbers of its own, `cards` are
    emptied, and what it finds must cost `most` or less. `start` is what was there."""

    problem: Problem
    models: tuple[int, ...]
    cards: frozenset[int]
    usable: tuple[int, ...]
    most: float
    start: Chosen


class _Blocks:
    """Assignments by model, and which models sit on each used card."""

    def __init__(self, problem: Problem, start: Placement) -> None:
        self._problem = problem
        self._worth = resource_prices(problem)
        self._chosen = {one.candidate.request: one for one in start.assignments}
        self._on: dict[int, set[int]] = {}
        for request, one in self._chosen.items():
            for card in one.each_card():
                self._on.setdefault(card, set()).add(request)

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """By model."""
        return tuple(one for _, one in sorted(self._chosen.items()))

    @property
    def cost(self) -> float:
        """Of the cards in use."""
        return self._weight(self._on)

    def _weight(self, cards: Iterable[int]) -> float:
        return sum(self._problem.weight(self._problem.cards[card]) for card in sorted(cards))

    def improve(self, turns: Iterable[int], step: float, models_wanted: int) -> None:
        """Draw a part a turn, no two on one card, solve them, and keep what each finds where that costs `step`
        less or more."""
        parts: list[_Part] = []
        taken: set[int] = set()
        for turn in turns:
            cards = self._draw(turn, models_wanted, taken)
            if cards:
                parts.append(self._part(cards, step, taken))
                taken.update(parts[-1].usable)
        crew = crew_in_force() if len(parts) > 1 else None
        found = map(_solved, parts) if crew is None else crew.each(_solved, parts)
        for part, chosen in zip(parts, list(found), strict=True):
            if chosen is not None:
                self._take(chosen, part)

    def _part(self, cards: set[int], step: float, taken: set[int]) -> _Part:
        models = sorted({request for card in cards for request in self._on[card]})
        cost = self._weight(cards)
        usable = sorted({*cards, *self._unused(models, cost, taken)})
        number = {card: place for place, card in enumerate(usable)}
        return _Part(
            part_of(self._problem, models, usable), tuple(models), frozenset(cards), tuple(usable), cost - step,
            tuple(self._as_chosen(request, number) for request in models),
        )  # fmt: skip

    def _as_chosen(self, request: int, number: Mapping[int, int]) -> tuple[int, tuple[tuple[int, ...], ...]]:
        """What a model has now, on cards of these numbers."""
        one = self._chosen[request]
        way = _place_of(one.candidate, self._problem.candidates[request])
        return way, tuple(tuple(number[card] for card in group) for group in one.cards)

    def _take(self, chosen: Chosen, part: _Part) -> None:
        """What a part found, in this problem's numbers, instead of what was on its cards."""
        for card in part.cards:
            del self._on[card]
        for request, (way, groups) in zip(part.models, chosen, strict=True):
            places = tuple(tuple(part.usable[card] for card in group) for group in groups)
            self._chosen[request] = Assignment(self._problem.candidates[request][way], places)
            for card in self._chosen[request].each_card():
                self._on.setdefault(card, set()).add(request)

    def _draw(self, turn: int, most: int, taken: set[int]) -> set[int]:
        """Cards whose models have no rank elsewhere, none of them `taken`; the more a card wastes, the likelier it
        is drawn."""
        wastes = {card: self._waste(card) for card in sorted(self._on) if card not in taken}
        if not wastes:
            return set()
        mean = sum(wastes.values()) / len(wastes)
        order = sorted(wastes, key=lambda card: (-scattered(turn, card) * (0.2 * mean + wastes[card]), card))
        models: set[int] = set()
        for card in order:
            models |= self._on[card]
            if len(models) >= most:
                break
        while True:
            cards = {card for request in models for card in self._chosen[request].each_card()}
            closed = {request for card in cards for request in self._on[card]}
            if closed == models:
                return cards
            models = closed

    def _waste(self, card: int) -> float:
        """What a card costs beyond the worth of the bytes that its models need at the least."""
        worth = sum(self._worth[request] / self._chosen[request].candidate.ranks for request in self._on[card])
        return max(0.0, self._problem.weight(self._problem.cards[card]) - worth)

    def _unused(self, models: Sequence[int], budget: float, taken: set[int]) -> list[int]:
        """Free cards, none of them `taken`, of each offer no more than these models could fill or `budget` pay."""
        found: list[int] = []
        counts: dict[int, int] = {}
        most: dict[int, int] = {}
        for request in models:
            widest: dict[int, int] = {}
            for way in self._problem.candidates[request]:
                widest[way.offer] = max(widest.get(way.offer, 0), way.ranks)
            for offer, ranks in widest.items():
                most[offer] = most.get(offer, 0) + ranks
        for number, card in enumerate(self._problem.cards):
            weight = self._problem.weight(card)
            limit = most.get(card.offer, 0)
            if weight > 0:
                limit = min(limit, int(budget / weight + _TOLERANCE))
            if number not in self._on and number not in taken and counts.get(card.offer, 0) < limit:
                counts[card.offer] = counts.get(card.offer, 0) + 1
                found.append(number)
        return found


def part_of(problem: Problem, models: Sequence[int], cards: Sequence[int]) -> Problem:
    """The problem of these models on these cards alone, both numbered anew in the order given. Its ways are
    without what the search never looks at, which would have to travel to a crew."""
    number = {request: place for place, request in enumerate(models)}
    chosen: tuple[Card, ...] = tuple(problem.cards[card] for card in cards)
    return replace(
        problem,
        names=tuple(problem.names[request] for request in models),
        candidates=tuple(
            tuple(_bare(way, place) for way in problem.candidates[request]) for place, request in enumerate(models)
        ),
        cards=chosen,
        apart=frozenset(
            frozenset(number[each] for each in pair)
            for pair in problem.apart
            if all(one in number for one in pair)
        ),
        alone=frozenset(number[request] for request in problem.alone if request in number),
        spread=frozenset(number[request] for request in problem.spread if request in number),
        pins={number[request]: pins for request, pins in problem.pins.items() if request in number},
        priorities=tuple(problem.priorities[request] for request in models),
    )


def _bare(way: Candidate, place: int) -> Candidate:
    nothing: Any = None
    return replace(way, request=place, settings=nothing, demand=nothing, judged=nothing, members=(), reason="")


def _solved(drawn: _Part) -> Chosen | None:
    """Ways and cards that cost `most` or less, or None where none was found."""
    ways = drawn.problem.candidates
    start = tuple(
        Assignment(mine[way], cards) for mine, (way, cards) in zip(ways, drawn.start, strict=True)
    )  # fmt: skip
    found = _placed(drawn.problem, start, drawn.most)
    if found is None:
        return None
    by_model = {one.candidate.request: one for one in found}
    return tuple(
        (_place_of(by_model[model].candidate, mine), by_model[model].cards) for model, mine in enumerate(ways)
    )


def _place_of(way: Candidate, ways: Sequence[Candidate]) -> int:
    return next(place for place, each in enumerate(ways) if each is way)


def _placed(part: Problem, start: tuple[Assignment, ...], most: float) -> tuple[Assignment, ...] | None:
    """By relaxation and dive. The relaxation knows the patterns that were there, so its prices are near from the
    first round on."""
    if resource_bound(part) > most + _TOLERANCE:
        return None
    space = Space(part, sites_of(part), seats_of(part))
    total = sum(site.weight * len(site.cards) for site in space.sites)
    relaxation = Relaxation(part, space.sites, space.seats, missing=total + 1.0)
    known = patterns_of(space, Placement(start, 0.0, 0.0, None, proven=False))
    relaxation.add(pattern for _, pattern in known or ())
    relaxed = relaxation.solve(rounds=_GENERATIONS, limit=_SEARCH_NODES, most=most + _TOLERANCE)
    if relaxed.prices.bound > most + _TOLERANCE:
        return None
    counts = _dived(space, relaxation, most)
    if counts is None:
        return None
    seated = seat_patterns(space, counts, {})
    return None if isinstance(seated, Unseated) else assignments_of(space, seated)


def _dived(space: Space, relaxation: Relaxation, most: float) -> list[tuple[Pattern, int]] | None:
    found = relaxation.dive(rounds=_DIVE_ROUNDS, at_once=1, limit=2 * _SEARCH_NODES)
    if found is None:
        return None
    counts = trimmed(space, found)
    cost = sum(space.sites[one.site].weight * count for one, count in counts)
    return counts if cost <= most + _TOLERANCE else None
