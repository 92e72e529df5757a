"""Why each choice, and why not the next one: every sentence with the figure that decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.domain.fleet import Fleet
from cotenant.planning.assembly import Reason
from cotenant.planning.candidates import Ways
from cotenant.planning.packing import place_exactly
from cotenant.planning.problem import Assignment, Candidate, Placement, Problem, Refusal
from cotenant.units import format_bytes, format_gib, format_percent, format_price

_MOST_SITTINGS = 3000  # beyond, the alternative is compared by its bytes instead of being solved for


def reasons_of(
    fleet: Fleet, problem: Problem, placement: Placement, ways: Sequence[Ways], *, whole: bool
) -> Mapping[int, Reason]:
    """A reason and a runner-up for each placed model; `whole` when every model found a place."""
    compared = problem if whole else None
    return {
        assignment.candidate.request: Reason(
            why=_why(fleet, assignment),
            runner_up=_runner_up(fleet, compared, placement, assignment, ways[assignment.candidate.request]),
        )
        for assignment in placement.assignments
    }


def _why(fleet: Fleet, assignment: Assignment) -> str:
    candidate, demand = assignment.candidate, assignment.candidate.demand
    cache = f"{format_bytes(demand.kv_needed_bytes)} of KV for {_traffic(candidate)}"
    saved = demand.kv_worst_case_bytes - demand.kv_needed_bytes
    if saved > 0:
        cache += f" (max_model_len x max_num_seqs would be {format_bytes(demand.kv_worst_case_bytes)})"
    return f"{candidate.format}: {candidate.reason}; {cache}"


def _traffic(candidate: Candidate) -> str:
    demand = candidate.demand
    return f"{demand.mean_in_service:.1f} requests in flight on average, {demand.max_num_seqs} at most"


def _runner_up(
    fleet: Fleet, problem: Problem | None, placement: Placement, assignment: Assignment, ways: Ways
) -> str:
    """The next choice by the decision matrix, and what it would have meant."""
    chosen = assignment.candidate
    others = [one for one in ways.candidates if _differs(one, chosen)]
    if others:
        best = min(
            others, key=lambda one: (one.format == chosen.format, one.quality_rank, one.claim_bytes * one.ranks)
        )
        return f"next {_describe(fleet, best)}: {_outcome(problem, placement, chosen, best)}"
    refusal = _first_refusal(ways.refusals, chosen)
    return f"next {refusal.format}: {refusal.reason}" if refusal else "no other choice was asked for"


def _differs(one: Candidate, chosen: Candidate) -> bool:
    """Another precision, or another size on another card."""
    return (one.format, one.offer, one.tensor_parallel_size) != (
        chosen.format, chosen.offer, chosen.tensor_parallel_size,
    )  # fmt: skip


def _describe(fleet: Fleet, candidate: Candidate) -> str:
    cards = f"{candidate.ranks} x {fleet.gpus[candidate.offer].gpu.name}"
    return f"{candidate.format} on {cards}"


def _first_refusal(refusals: Sequence[Refusal], chosen: Candidate) -> Refusal | None:
    """The refusal that a reader would ask about: one of size before one of rule, on the same card."""
    same = [one for one in refusals if one.offer == chosen.offer and one.format != chosen.format]
    sized = [one for one in same if one.tensor_parallel_size and one.shortfall_bytes]
    return min(sized, key=lambda one: one.shortfall_bytes) if sized else (same[0] if same else None)


def _outcome(problem: Problem | None, placement: Placement, chosen: Candidate, other: Candidate) -> str:
    """What choosing `other` instead would mean, solved afresh where the fleet is small enough."""
    if problem is None or sum(map(len, problem.candidates)) * len(problem.cards) > _MOST_SITTINGS:
        more = other.claim_bytes * other.ranks - chosen.claim_bytes * chosen.ranks
        return f"{format_bytes(abs(more))} {'more' if more >= 0 else 'less'}"
    forced = tuple(
        (other,) if number == chosen.request else ways for number, ways in enumerate(problem.candidates)
    )
    fixed = replace(problem, candidates=forced)
    again = place_exactly(fixed)
    if again is None:
        return f"takes {format_gib(other.claim_bytes)} a card, and no placement of the others leaves that"
    if again.objective_value > placement.objective_value + 1e-6:
        return _costs(problem, again.objective_value - placement.objective_value)
    before, after = _least_headroom(problem, placement), _least_headroom(problem, again)
    if after < before - 1e-3:
        return f"the fullest card would keep {format_percent(after, digits=1)} free instead of " \
               f"{format_percent(before, digits=1)}"  # fmt: skip
    return "no cheaper and no roomier, and later in the decision matrix"


def _costs(problem: Problem, more: float) -> str:
    return f"{format_price(more)} more" if problem.priced else f"{more:.0f} more card(s)"


def _least_headroom(problem: Problem, placement: Placement) -> float:
    """The smallest share of a used card that stays free."""
    loads: dict[int, int] = {}
    for assignment in placement.assignments:
        for card in assignment.each_card():
            loads[card] = loads.get(card, 0) + assignment.candidate.claim_bytes
    cards = problem.cards
    return min(1 - (cards[card].used_bytes + load) / cards[card].capacity_bytes for card, load in loads.items())
