"""Equal cards as one site, and the seats that a model may take on them.

Cards are told apart by what matters to a placement only: offer, room, capacity, weight, and which pinned models
they bar. Nodes matter to tensor parallel alone and are looked at when patterns are seated (`seating`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import inf

from cotenant.planning.problem import Candidate, Problem


@dataclass(frozen=True, slots=True)
class Site:
    """Interchangeable cards. `barred` are models whose pins exclude them; `cards` are numbers in the problem."""

    offer: int
    room_bytes: int
    capacity_bytes: int
    load_bytes: int
    most_processes: int
    weight: float
    barred: frozenset[int]
    cards: tuple[int, ...]

    def holds(self, candidate: Candidate) -> bool:
        """Whether one rank of it fits alone, also while it loads."""
        fits = candidate.claim_bytes <= self.room_bytes and candidate.load_peak_bytes <= self.load_bytes
        return fits and candidate.processes <= self.most_processes


@dataclass(frozen=True, slots=True)
class Seat:
    """One place that a model can take on one card of an offer; `ranks` of them serve the model.

    Candidates of one rank share a seat (`options` are their numbers, so a card may choose among them); every
    candidate of several ranks has a seat of its own, because its ranks must all be of the same choice.
    """

    request: int
    offer: int
    ranks: int
    tensor_parallel_size: int
    options: tuple[int, ...]


def sites_of(problem: Problem) -> tuple[Site, ...]:
    """The sites in order of their first card."""
    groups: dict[tuple[int, int, int, int, int, float, frozenset[int]], list[int]] = defaultdict(list)
    for number, card in enumerate(problem.cards):
        barred = frozenset(request for request, pins in problem.pins.items() if card.pool_index not in pins)
        key = (
            card.offer, card.room_bytes, card.capacity_bytes, card.load_bytes, card.most_processes,
            problem.weight(card), barred,
        )  # fmt: skip
        groups[key].append(number)
    return tuple(Site(*key, tuple(cards)) for key, cards in groups.items())


def seats_of(problem: Problem, *, dominated: bool = False) -> tuple[Seat, ...]:
    """Every seat of every model; options that another beats in bytes (for good, while loading), work and patience
    only if `dominated`.

    Those matter to quality alone: cost and headroom never get worse without them.
    """
    seats = []
    patient = is_patient(problem)
    for request, candidates in enumerate(problem.candidates):
        groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for number, one in enumerate(candidates):
            groups[one.offer, one.tensor_parallel_size, one.replicas].append(number)
        for (offer, size, replicas), numbers in groups.items():
            kept = numbers if dominated else _undominated(candidates, numbers, patient)
            ranks = size * replicas
            bundles = [tuple(kept)] if ranks == 1 else [(number,) for number in kept]
            seats += [Seat(request, offer, ranks, size, bundle) for bundle in bundles]
    return tuple(seats)


def _undominated(candidates: tuple[Candidate, ...], numbers: list[int], patient: bool) -> list[int]:
    kept: list[int] = []
    for number in sorted(numbers, key=lambda each: (candidates[each].claim_bytes, candidates[each].busy, each)):
        one = candidates[number]
        if not any(is_no_worse(candidates[other], one, patient=patient) for other in kept):
            kept.append(number)
    return kept


def is_patient(problem: Problem) -> bool:
    """Whether nobody minds how busy its neighbours are."""
    if not problem.contention:
        return True
    return all(one.slack == inf for each in problem.candidates for one in each)


def is_no_worse(one: Candidate, other: Candidate, *, patient: bool) -> bool:
    """Whether `one` may take the place of `other` on any card, in the same place of the order of starts: it holds
    no more there for good nor while it loads and, unless all are `patient`, works no more and is no less patient.
    """
    if one.claim_bytes > other.claim_bytes or one.load_peak_bytes > other.load_peak_bytes:
        return False
    return patient or (one.busy <= other.busy and one.slack >= other.slack)


@dataclass(frozen=True, slots=True)
class Pattern:
    """What may sit on one card of a site: seats in order, with the option that each takes.

    `quality` adds up the ranks of its seats of one rank; `headroom` is the share of the card that stays free
    beyond what the fleet asked for.
    """

    site: int
    seats: tuple[int, ...]
    options: tuple[int, ...]
    claim_bytes: int
    headroom: float
    quality: int


def pattern_of(
    problem: Problem, sites: tuple[Site, ...], site: int, chosen: tuple[tuple[Seat, int, int], ...]
) -> Pattern:
    """The pattern of (seat, its number, option) triples on a card of `sites[site]`."""
    ordered = sorted(chosen, key=lambda each: each[1])
    picks = [problem.candidates[seat.request][option] for seat, _, option in ordered]
    claim = sum(each.claim_bytes for each in picks)
    where = sites[site]
    return Pattern(
        site=site,
        seats=tuple(number for _, number, _ in ordered),
        options=tuple(option for _, _, option in ordered),
        claim_bytes=claim,
        headroom=(where.room_bytes - claim) / where.capacity_bytes if where.capacity_bytes else -inf,
        quality=sum(
            each.quality_rank for each, (seat, _, _) in zip(picks, ordered, strict=True) if seat.ranks == 1
        ),
    )
