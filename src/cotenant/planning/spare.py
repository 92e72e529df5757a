"""Room for what fails: cards that stay empty, so that the replicas of one lost card or node can start again.

A replica is sized for its type of card, so each type in use needs a spare of its own: for a lost card as many
empty cards in one node as the largest tensor-parallel group of that type has ranks (a lost rank takes its group
along; whatever else stood on the lost card fits beside it, as it did before), for a lost node as many as it holds.

Which types to use is then part of the question. Every set of types, with every largest group on each, is a
problem of its own: its cards without the spare ones, its cost with theirs. They are solved in the order of what
their spare costs, and those that cannot beat the best any more are left out: so the best is the optimum, and the
least of all bounds is its bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from cotenant.domain.fleet import Fleet
from cotenant.planning.placing import place_exactly
from cotenant.planning.problem import Card, Problem
from cotenant.planning.solved import Progress, Solved, problem_of

MOST_CASES = 200
_NONE = 0  # a type that is not used


@dataclass(frozen=True, slots=True)
class _Case:
    """The largest group on each offer (0: not used), and what the spare cards for it cost."""

    groups: tuple[int, ...]
    spare: tuple[int, ...]
    cost: float


def keep_spare(solved: Solved, *, strictly: bool = False, progress: Progress = lambda _: None) -> Solved | None:
    """The cheapest placement that leaves the spare cards that the fleet asks for; None where there is none.
    With `strictly`, everybody's slack holds beside its neighbours.

    `solved` is the placement without a spare: no placement with one costs less.
    """
    fleet = solved.fleet
    whole = replace(
        problem_of(fleet, [each.candidates for each in solved.ways], bought_within=False), contention=strictly
    )
    cases = sorted(_cases(fleet, whole), key=lambda case: (case.cost, case.groups))
    best: Solved | None = None
    least = solved.placement.lower_bound
    bound = float("inf")
    for number, case in enumerate(cases):
        value = best.placement.objective_value if best else float("inf")
        if least + case.cost >= value - 1e-9 or number == MOST_CASES:
            bound = min(bound, least + case.cost)
            break
        progress(f"with a spare, way {number + 1} of {len(cases)}")
        found = _solved(solved, whole, case)
        if found is None:
            continue
        bound = min(bound, found.placement.lower_bound)
        if found.placement.objective_value < value - 1e-9:
            best = found
    if best is None:
        return None
    value = best.placement.objective_value
    bound = min(bound, value)
    gap = 0.0 if value <= bound + 1e-6 else (value - bound) / value
    placement = replace(best.placement, lower_bound=bound, gap=gap, proven=gap == 0.0)
    return replace(best, placement=placement)


def _cases(fleet: Fleet, problem: Problem) -> Iterator[_Case]:
    sizes = [
        sorted({one.tensor_parallel_size for each in problem.candidates for one in each if one.offer == number})
        for number in range(len(fleet.gpus))
    ]
    for groups in product(*([_NONE, *each] for each in sizes)):
        if any(groups):
            spare = tuple(_spare(fleet, number, group) for number, group in enumerate(groups))
            cost = sum(_weight(fleet, problem, number) * count for number, count in enumerate(spare))
            yield _Case(groups, spare, cost)


def _spare(fleet: Fleet, number: int, group: int) -> int:
    """Empty cards that an offer needs whose largest group has that many ranks."""
    if group == _NONE or fleet.spare == "none":
        return 0
    return fleet.gpus[number].node_size if fleet.spare == "node" else group


def _weight(fleet: Fleet, problem: Problem, number: int) -> float:
    return (fleet.gpus[number].price_per_hour or 0.0) if problem.priced else 1.0


def _solved(solved: Solved, whole: Problem, case: _Case) -> Solved | None:
    """The case's best placement, its spare cards listed after those that may be used."""
    usable: list[Card] = []
    spare: list[Card] = []
    node = max((card.node for card in whole.cards), default=-1) + 1
    for number, count in enumerate(case.spare):
        mine = [card for card in whole.cards if card.offer == number]
        if case.groups[number] == _NONE:
            continue
        offer = solved.fleet.gpus[number]
        kept = _reserved(mine, count) if not offer.is_shop else mine[: _left(offer.maximum, count, len(mine))]
        if kept is None or not kept:
            return None
        usable += kept
        if offer.is_shop:
            spare += [replace(kept[0], node=node, index=place) for place in range(count)]
            node += 1
        else:
            spare += [card for card in mine if card not in kept][:count]
    ways = [
        tuple(one for one in each if one.tensor_parallel_size <= case.groups[one.offer])
        for each in whole.candidates
    ]
    problem = replace(whole, cards=tuple(usable), candidates=tuple(ways))
    placement = place_exactly(problem) if all(ways) else None
    if placement is None:
        return None
    cards = (*usable, *spare)
    placed = replace(
        placement,
        objective_value=placement.objective_value + case.cost,
        lower_bound=placement.lower_bound + case.cost,
        spare=tuple(range(len(usable), len(cards))),
    )
    return replace(solved, problem=replace(problem, cards=cards), placement=placed, calm=None)


def _left(maximum: int | None, spare: int, listed: int) -> int:
    """How many cards of a shop may be used beside the spare ones."""
    return listed if maximum is None else max(0, min(listed, maximum - spare))


def _reserved(cards: Sequence[Card], count: int) -> list[Card] | None:
    """Owned cards without `count` of one node: of the last node that has so many."""
    by_node: dict[int, list[Card]] = {}
    for card in cards:
        by_node.setdefault(card.node, []).append(card)
    for node in sorted(by_node, reverse=True):
        if len(by_node[node]) >= count:
            gone = by_node[node][len(by_node[node]) - count :]
            return [card for card in cards if card not in gone]
    return None
