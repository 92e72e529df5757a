"""Better placements by solving parts anew: a few cards are emptied and their models packed by fresh patterns.

Each round draws cards until about forty models are out (half of a small fleet), generates patterns for these
models alone on the cards that are free, and takes the cheapest cover if it costs less. The gap to the bound is the
sum of the cards' reduced costs (`listing`), so a card is the likelier drawn the more it wastes by the relaxation's
prices. The part's own bound skips rounds that cannot gain, and its prices leave out patterns no gain can hold.
(A large neighbourhood search in the sense of Shaw 1998; what looks like chance is a fixed mixing of numbers.)
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.planning.partition import cheapest_cover
from cotenant.planning.relaxation import Prices, Relaxation
from cotenant.planning.seating import Seated, Space, Unseated, seat_patterns
from cotenant.planning.sites import Pattern

_MODELS = 40
_GENERATIONS = 25
_SEARCH_NODES = 100_000
_PROGRAM_NODES = 10
_TOLERANCE = 1e-6
_MASK = 2**64 - 1


def improve(
    space: Space,
    relaxation: Relaxation,
    prices: Prices,
    start: Seated,
    *,
    rounds: int,
    enough: float,
    step: float,
    idle: int | None = None,
) -> Seated:
    """The best after `rounds`, or `idle` rounds in a row without a gain, or the first that costs `enough` or less.
    New patterns go to `relaxation`.

    Costs are multiples of `step`, so only a gain of as much counts.
    """
    best = start
    values = prices.values(space.seats)
    gained = 0
    for turn in range(rounds):
        if idle is not None and turn - gained >= idle:
            break
        cost = sum(space.sites[one.site].weight for _, one in best)
        if cost <= enough + _TOLERANCE:
            break
        patterns = [one for _, one in best]
        wastes = [_waste(space, prices, values, one) for one in patterns]
        chosen = _draw(space, patterns, wastes, turn, min(_MODELS, -(-len(space.problem.names) // 2)))
        fresh = _solved(space, relaxation, patterns, chosen, max(step, 10 * _TOLERANCE))
        if fresh is not None:
            kept = [(one, 1) for number, one in enumerate(patterns) if number not in chosen]
            seated = seat_patterns(space, [*kept, *fresh], {})
            if not isinstance(seated, Unseated):
                best, gained = seated, turn + 1
    return best


def _waste(space: Space, prices: Prices, values: Sequence[float], pattern: Pattern) -> float:
    """The reduced cost of one card: what it costs beyond the worth of what sits on it."""
    worth = sum(values[seat] for seat in pattern.seats)
    return max(0.0, space.sites[pattern.site].weight + prices.sites[pattern.site] - worth)


def _draw(
    space: Space, patterns: Sequence[Pattern], wastes: Sequence[float], turn: int, most: int
) -> frozenset[int]:
    """Cards whose models together have no rank elsewhere; the more a card wastes, the likelier it is drawn."""
    mean = sum(wastes) / len(wastes)
    order = sorted(
        range(len(patterns)), key=lambda each: scattered(turn, each) * (0.2 * mean + wastes[each]), reverse=True
    )
    models: set[int] = set()
    for number in order:
        models |= {space.seats[seat].request for seat in patterns[number].seats}
        if len(models) >= most:
            break
    while True:
        chosen = frozenset(
            number
            for number, one in enumerate(patterns)
            if any(space.seats[seat].request in models for seat in one.seats)
        )
        closed = {space.seats[seat].request for number in chosen for seat in patterns[number].seats}
        if closed == models:
            return chosen
        models = closed


def scattered(turn: int, number: int) -> float:
    """A figure in [0, 1) that looks random and is always the same (the mixing step of SplitMix64)."""
    mixed = ((turn << 32) + number + 1) * 0x9E3779B97F4A7C15 & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return (mixed ^ mixed >> 31) / 2**64


def _solved(
    space: Space, relaxation: Relaxation, patterns: Sequence[Pattern], chosen: frozenset[int], step: float
) -> list[tuple[Pattern, int]] | None:
    """Cheaper patterns for the models on the cards `chosen`, or None."""
    wanted = {space.seats[seat].request for number in chosen for seat in patterns[number].seats}
    counts = [len(site.cards) for site in space.sites]
    for number, one in enumerate(patterns):
        counts[one.site] -= number not in chosen
    cost = sum(space.sites[patterns[number].site].weight for number in chosen)
    part = relaxation.part(wanted, counts)
    prices = part.solve(rounds=_GENERATIONS, limit=_SEARCH_NODES).prices
    relaxation.add(part.patterns)
    most = cost - step + _TOLERANCE
    if prices.bound > most:
        return None
    values = prices.values(space.seats)
    useful = [one for one in part.patterns if _waste(space, prices, values, one) <= most - prices.bound]
    return cheapest_cover(space, useful, wanted=wanted, counts=counts, most=most, nodes=_PROGRAM_NODES)
