"""A curve as straight lines, as few as keep it within half a per cent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from cotenant.domain.step_time import Line, Row

Curve = Callable[[int], float]

BOUND = 0.005
"""What a line may miss its curve by, as a share of it."""

_KEPT = 0.99 * BOUND  # where it is looked at
_NEAR = 0.02  # of a piece: how near to the furthest end that keeps the bound is near enough


def row(curve: Curve, first: int, last: int, bends: Sequence[int] = (), ends: Sequence[float] = ()) -> Row:
    """Lines through `curve`, which is above zero, at whole numbers from `first` to `last`; their ends lie on it.

    Between two of `bends` it bends one way. Each line goes as far as it keeps the bound. `ends` are where lines of
    a curve much like it ended: kept where they do for this one too.
    """
    turns = [one for one in bends if first < one < last]
    kept = [first, *(end for end in map(round, ends) if first < end < last), last]
    if len(kept) < len(ends) + 2 or not all(_fits(curve, start, end, turns) for start, end in pairwise(kept)):
        kept = [first]
        while kept[-1] < last:
            kept.append(_furthest(curve, kept[-1], last, turns))
    return tuple(_line(curve, start, end) for start, end in pairwise(kept))


def _furthest(curve: Curve, start: int, last: int, turns: Sequence[int]) -> int:
    """The end of the longest line from `start` that keeps the bound, nearly."""
    if _fits(curve, start, last, turns):
        return last
    fits, fails = start + 1, last
    for turn in turns[bisect_right(turns, fits) :]:
        if turn < last and _fits(curve, start, turn, turns):
            fits = turn
    while fails - fits > max(1, _NEAR * (fits - start)):
        middle = (fits + fails) // 2
        if _fits(curve, start, middle, turns):
            fits = middle
        else:
            fails = middle
    return fits


def _fits(curve: Curve, start: int, end: int, turns: Sequence[int]) -> bool:
    """Whether the line from `start` to `end` keeps the bound at every whole number between."""
    low = curve(start)
    each = (curve(end) - low) / (end - start)

    def miss(place: int) -> tuple[float, float]:
        value = curve(place)
        return abs(low + each * (place - start) - value), value

    stops = [start, *(one for one in turns if start < one < end), end]
    return all(_stays_low(miss, begin, stop) for begin, stop in pairwise(stops))


def _stays_low(miss: Callable[[int], tuple[float, float]], begin: int, end: int) -> bool:
    """Whether `miss`, of (error, value), is never more than the bound from `begin` to `end`.

    Where a curve bends one way, its error is concave and the error's share of it rises and falls once: so the
    greatest share lies beside the greatest of five places, where the error is above that place's by no more than
    that place's is above its lower neighbour's.
    """
    found: dict[int, tuple[float, float]] = {}
    while True:
        middle = (begin + end) // 2
        places = sorted({begin, (begin + middle) // 2, middle, (middle + end) // 2, end})
        for place in places:
            if place not in found:
                found[place] = miss(place)
        share, at = max((found[one][0] / found[one][1], number) for number, one in enumerate(places))
        if share > _KEPT:
            return False
        inside = 0 < at < len(places) - 1
        begin, end = places[max(0, at - 1)], places[min(at + 1, len(places) - 1)]
        above = 2 * found[places[at]][0] - min(found[begin][0], found[end][0])
        if (inside and above <= _KEPT * min(found[begin][1], found[end][1])) or end - begin < 3:
            return True


def _line(curve: Curve, start: int, end: int) -> Line:
    low = curve(start)
    each = (curve(end) - low) / (end - start)
    return Line(end, low - each * start, each)
