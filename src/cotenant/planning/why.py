"""Why each choice, and why not the next one: every sentence with the figure that decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from typing import TYPE_CHECKING

from cotenant.domain.fleet import Fleet
from cotenant.planning.assembly import Reason
from cotenant.planning.problem import Assignment, Candidate, Placement, Problem, Refusal
from cotenant.planning.resource_bound import bound_with
from cotenant.planning.ways import Ways
from cotenant.units import format_bytes, format_gib, format_percent, format_price, listed, plural

if TYPE_CHECKING:
    from cotenant.planning.solved import Solved

Forced = Callable[[Candidate], Placement | None]
"""The best placement in which this candidate serves its model, or None when there is none."""

Bound = Callable[[Candidate], float]
"""What any placement costs at the least in which this candidate serves its model."""

_MOST_SITTINGS = 3000  # ways x cards: beyond, the alternative is compared by its bytes instead of being solved for


def reasons_of(
    fleet: Fleet, problem: Problem, placement: Placement, ways: Sequence[Ways], forced: Forced | None
) -> Mapping[int, Reason]:
    """A reason and a runner-up for each placed model; `forced` is None where not all models have a place."""
    bound: Bound | None = None
    if forced is not None and sum(map(len, problem.candidates)) * len(problem.cards) > _MOST_SITTINGS:
        forced, bound = None, bound_with(problem) if problem.objective[0] == "cost" else None
    return {
        each.candidate.request: Reason(
            why=_why(each),
            runner_up=_runner_up(
                fleet, problem, placement, each.candidate, ways[each.candidate.request], forced, bound
            ),
        )
        for each in placement.assignments
    }


def told_of_folds(solved: Solved, reasons: Mapping[int, Reason]) -> Mapping[int, Reason]:
    """The reasons, with what a model's process serves beside it and what that saved."""
    told = dict(reasons)
    for number, request in enumerate(solved.fleet.models):
        if request.also_serves and number in told:
            saved = solved.fold_saves
            worth = (
                "without it not all models have a place" if saved is None
                else f"saves {format_price(saved) if solved.problem.priced else plural(round(saved), 'card')}"
            )  # fmt: skip
            others = listed(request.also_serves)
            why = f"one process with {others}, by each name: the same base is held once, which {worth}"
            told[number] = Reason(
                f"{told[number].why}; {why.replace('which without', 'without')}", told[number].runner_up
            )
    return told


def _why(assignment: Assignment) -> str:
    candidate, demand = assignment.candidate, assignment.candidate.demand
    flight = f"{demand.mean_in_service:.1f} requests in flight on average, {demand.max_num_seqs} at most"
    return f"{candidate.format}: {candidate.reason}; {flight}"


def _runner_up(
    fleet: Fleet,
    problem: Problem,
    placement: Placement,
    chosen: Candidate,
    ways: Ways,
    forced: Forced | None,
    bound: Bound | None,
) -> str:
    """The next choice by the decision matrix, and what it would have meant; "" where there was no other."""
    others = [one for one in ways.candidates if _differs(one, chosen)]
    if not others:
        refusal = _nearest_refusal(ways.refusals, chosen)
        return f"next {refusal.format}: {refusal.reason}" if refusal else ""
    best = min(
        others,
        key=lambda one: (
            one.format == chosen.format, one.quality_rank, one.step_share != 1, one.claim_bytes * one.ranks,
        ),
    )  # fmt: skip
    return f"next {_describe(fleet, best)}: {_outcome(problem, placement, chosen, best, forced, bound)}"


def _differs(one: Candidate, chosen: Candidate) -> bool:
    """Another precision, or another size on another card."""
    return (one.format, one.offer, one.tensor_parallel_size) != (
        chosen.format, chosen.offer, chosen.tensor_parallel_size,
    )  # fmt: skip


def _describe(fleet: Fleet, candidate: Candidate) -> str:
    name = fleet.gpus[candidate.offer].gpu.name
    parallel = f"{split_words(candidate)} on " if candidate.tensor_parallel_size > 1 else ""
    copies = f"{candidate.replicas} replicas on " if candidate.replicas > 1 else ""
    return f"{candidate.format} ({copies}{parallel}{name})"


def split_words(candidate: Candidate) -> str:
    """``tp 2``, ``pp 3`` or ``tp 2 x pp 3``."""
    stages = candidate.pipeline_parallel_size
    tensor = candidate.tensor_parallel_size // stages
    words = [f"tp {tensor}"] if tensor > 1 or stages == 1 else []
    return " x ".join([*words, *([f"pp {stages}"] if stages > 1 else [])])


def _nearest_refusal(refusals: Sequence[Refusal], chosen: Candidate) -> Refusal | None:
    """The refusal that came nearest on the same card: one of size, which a reader would ask about."""
    sized = [
        one
        for one in refusals
        if one.offer == chosen.offer and one.format != chosen.format and one.shortfall_bytes
    ]
    return min(sized, key=lambda one: one.shortfall_bytes) if sized else None


def _outcome(
    problem: Problem,
    placement: Placement,
    chosen: Candidate,
    other: Candidate,
    forced: Forced | None,
    bound: Bound | None,
) -> str:
    """What choosing `other` instead would mean, solved afresh where that was asked for."""
    if forced is None:
        more = other.claim_bytes * other.ranks - chosen.claim_bytes * chosen.ranks
        words = f"{format_bytes(abs(more))} {'more' if more >= 0 else 'less'}"
        return words if bound is None else words + _at_least(problem, placement, bound(other))
    again = forced(other)
    if again is None:
        return f"takes {format_gib(other.claim_bytes)} a card, which no placement of the others leaves"
    more_cost = again.objective_value - placement.objective_value
    if more_cost > 1e-6:
        many = f"{more_cost:.0f} more card{'s' if round(more_cost) != 1 else ''}"
        return f"{format_price(more_cost)} more" if problem.priced else many
    return _compared(placement, again, other.quality_rank - chosen.quality_rank)


def _at_least(problem: Problem, placement: Placement, floor: float) -> str:
    """Where a fleet is too large to be solved anew for each model: what every plan with that choice costs at the
    least, by memory alone, where that is more than this one; else that its cost is not worked out."""
    if floor == inf:
        return ", on cards that cost more than this plan"
    if floor > placement.objective_value + 1e-6:
        more = floor - placement.objective_value
        least = format_price(more) if problem.priced else plural(ceil(more - 1e-6), "card")
        return f", and at least {least} more in all"
    return f" (what that costs is not worked out for {len(problem.names)} models)"


def _compared(placement: Placement, again: Placement, later: int) -> str:
    """Two placements of one cost, by the least share that a used card keeps free."""
    before, after = placement.least_headroom, again.least_headroom
    shares = f"{format_percent(after, digits=1)} instead of {format_percent(before, digits=1)}"
    if after < before - 1e-3:
        return f"the fullest card would keep {shares} free"
    if after > before + 1e-3:
        return (
            f"roomier, {shares} of the fullest card free, but {'of lower quality' if later > 0 else 'worth less'}"
        )
    return "no cheaper and no roomier" + (
        ", and later in the decision matrix" if later > 0 else ", and more to run"
    )
