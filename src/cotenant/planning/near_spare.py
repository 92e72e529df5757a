"""Which cards stay empty where any of as many in one node will do: those that are empty already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from cotenant.domain.fleet import Fleet
from cotenant.domain.plan import Plan
from cotenant.planning.problem import Card, Problem
from cotenant.planning.standing import place_of

Node = tuple[int, int]  # offer, node


def spare_where_empty(problem: Problem, spare: Collection[int], old: Plan, fleet: Fleet) -> tuple[Card, ...]:
    """The problem's cards with the names of whole owned nodes exchanged, so that those numbered in `spare` are the
    ones that hold least in `old`. A placement stays as it was but for names. Pins tell cards apart: with any,
    nothing is exchanged."""
    cards = list(problem.cards)
    if problem.pins:
        return problem.cards
    held = {place_of(gpu.device): sum(share.claimed_bytes for share in gpu.shares) for gpu in old.gpus}
    nodes: dict[Node, list[int]] = defaultdict(list)
    for number, card in enumerate(cards):
        if card.pool_index is not None:
            nodes[card.offer, card.node].append(number)
    for node, mine in nodes.items():
        count = sum(number in spare for number in mine)
        if count:
            name = fleet.gpus[node[0]].gpu.name
            sizes = {
                number: held.get((name, cards[number].node, cards[number].index), 0)
                for number in range(len(cards))
            }
            others = [each for key, each in nodes.items() if key[0] == node[0] and len(each) == len(mine)
                      and not any(number in spare for number in each)]  # fmt: skip
            best = min((mine, *others), key=lambda each: sum(sorted(map(sizes.__getitem__, each))[:count]))
            _exchange(cards, sorted(mine, key=lambda number: number in spare),
                      sorted(best, key=lambda number: -sizes[number]))  # fmt: skip
    return tuple(cards)


def _exchange(cards: list[Card], mine: Sequence[int], other: Sequence[int]) -> None:
    """`mine` take the names of `other`, one by one, and those take theirs; one node may be both."""
    names = [cards[number] for number in other]
    if sorted(mine) != sorted(other):
        for number, card in zip(other, [cards[number] for number in mine], strict=True):
            cards[number] = _named(cards[number], card)
    for number, card in zip(mine, names, strict=True):
        cards[number] = _named(cards[number], card)


def _named(card: Card, name: Card) -> Card:
    return replace(card, node=name.node, index=name.index, pool_index=name.pool_index)
