"""Patterns on cards and placements, each told as the other; what they cost, and in what steps costs come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, gcd

from cotenant.planning.problem import Candidate, Placement, least_headroom
from cotenant.planning.seating import Seated, Space, assignments_of
from cotenant.planning.sites import Pattern, Seat, is_no_worse, is_patient, pattern_of

_TOLERANCE = 1e-6
_SMALLEST_STEP = 1e-3


def placement_of(space: Space, seated: Seated, bound: float, cost: float) -> Placement:
    """Patterns on cards as a placement of that cost, with the gap to its bound."""
    assignments = assignments_of(space, seated)
    least = least_headroom(space.problem, assignments)
    return told_against(Placement(assignments, cost, bound, None, proven=False, least_headroom=least), bound)


def told_against(placement: Placement, bound: float) -> Placement:
    """The same placement with its gap to that bound."""
    cost = placement.objective_value
    gap = 0.0 if cost <= bound + _TOLERANCE else (cost - bound) / cost
    return replace(placement, lower_bound=bound, gap=gap, proven=gap == 0.0)


def step_of(weights: Sequence[float]) -> float:
    """The largest step of which every weight is a multiple; 0 where that is finer than a tenth of a cent."""
    scaled = [round(weight * 1e6) for weight in weights]
    if any(abs(weight * 1e6 - whole) > 1e-3 for weight, whole in zip(weights, scaled, strict=True)):
        return 0.0
    step = gcd(*scaled) / 1e6
    return step if step >= _SMALLEST_STEP else 0.0


def rounded_up(bound: float, weights: Sequence[float]) -> float:
    """The least multiple of the weights' step that is not below `bound`."""
    step = step_of(weights)
    return ceil((bound - _TOLERANCE) / step) * step if step else bound


def cost_of(space: Space, seated: Seated) -> float:
    """Of the cards in use."""
    return sum(space.sites[pattern.site].weight for _, pattern in seated)


def singles_of(space: Space) -> list[Pattern]:
    """Every seat alone on a card of every site that takes it."""
    found = []
    for number, site in enumerate(space.sites):
        for place, seat in enumerate(space.seats):
            if seat.offer == site.offer and seat.request not in site.barred:
                ways = space.problem.candidates[seat.request]
                fitting = [each for each in seat.options if site.holds(ways[each])]
                if fitting:
                    option = min(fitting, key=lambda each: (ways[each].claim_bytes, each))
                    found.append(pattern_of(space.problem, space.sites, number, ((seat, place, option),)))
    return found


def patterns_of(space: Space, placement: Placement) -> Seated | None:
    """A placement as patterns on cards; None where it leaves a model out."""
    if len(placement.placed) < len(space.problem.names):
        return None
    seats: dict[int, list[tuple[int, Seat]]] = defaultdict(list)
    for number, seat in enumerate(space.seats):
        seats[seat.request].append((number, seat))
    on: dict[int, list[tuple[Seat, int, int]]] = defaultdict(list)
    patient = is_patient(space.problem)
    for each in placement.assignments:
        triple = _seat_for(space, seats[each.candidate.request], each.candidate, patient)
        for card in each.each_card():
            on[card].append(triple)
    site_of = {card: number for number, site in enumerate(space.sites) for card in site.cards}
    return [
        (card, pattern_of(space.problem, space.sites, site_of[card], tuple(triples)))
        for card, triples in on.items()
    ]


def _seat_for(
    space: Space, seats: Sequence[tuple[int, Seat]], candidate: Candidate, patient: bool
) -> tuple[Seat, int, int]:
    """The seat, of those of its model, and option that take the place of a candidate: itself, or one that
    dominates it."""
    for number, seat in seats:
        if seat.offer != candidate.offer:
            continue
        if (seat.ranks, seat.tensor_parallel_size) != (candidate.ranks, candidate.tensor_parallel_size):
            continue
        for option in seat.options:
            if is_no_worse(space.problem.candidates[seat.request][option], candidate, patient=patient):
                return seat, number, option
    raise ValueError(f"{candidate} has no seat")


def moved(full: Space, space: Space, seated: Seated) -> Seated:
    """The same patterns with the seat numbers of the space that holds every option."""
    found = {}
    for number, seat in enumerate(full.seats):
        for option in seat.options:
            found[seat.request, option] = (seat, number, option)
    return [
        (
            card,
            pattern_of(
                full.problem, full.sites, one.site,
                tuple(found[space.seats[seat].request, option]
                      for seat, option in zip(one.seats, one.options, strict=True)),
            ),
        )
        for card, one in seated
    ]  # fmt: skip
