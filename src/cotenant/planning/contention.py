"""What co-residents do to each other: who slows whom down, by how much, and what peace would cost."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from cotenant.planning.problem import Candidate
from cotenant.units import format_price, format_seconds

if TYPE_CHECKING:
    from cotenant.planning.solve import Solved


def contention_warnings(solved: Solved) -> tuple[str, ...]:
    """One for each model whose SLO holds alone but not while its neighbours work as much as their traffic says."""
    company: dict[int, list[Candidate]] = defaultdict(list)
    for assignment in solved.placement.assignments:
        for card in assignment.each_card():
            company[card].append(assignment.candidate)
    worst: dict[int, tuple[float, list[Candidate]]] = {}
    for present in company.values():
        for one in present:
            others = [other for other in present if other is not one]
            busy = sum(other.busy for other in others)
            if busy > one.slack + 1e-9 and busy > worst.get(one.request, (0.0, []))[0]:
                worst[one.request] = (busy, others)
    return tuple(_warning(solved, number, *worst[number]) for number in sorted(worst))


def _warning(solved: Solved, number: int, busy: float, others: list[Candidate]) -> str:
    models = solved.fleet.models
    candidate = next(one.candidate for one in solved.placement.assignments if one.candidate.request == number)
    names = " and ".join(models[other.request].name for other in others)
    slo, parts = models[number].slo, []
    for word, found, target in (
        ("TTFT", candidate.demand.ttft_s, slo.ttft_s if slo else None),
        ("TPOT", candidate.demand.tpot_s, slo.tpot_s if slo else None),
    ):
        if found and target is not None and found[1] * (1 + busy) > target:
            slowed = format_seconds(found[1] * (1 + busy))
            parts.append(f"{word} ~{format_seconds(found[1])} alone, ~{slowed} (target {format_seconds(target)})")
    return f"{models[number].name} beside {names} at their peak: {', '.join(parts)}; {_price_of_peace(solved)}"


def _price_of_peace(solved: Solved) -> str:
    """What a placement would take in which every SLO holds at every peak."""
    if not solved.feasible:
        return "the nearest plan does not hold it"
    if solved.calm is None:
        return "no placement on these cards holds it with all peaks at once"
    more = solved.calm.objective_value - solved.placement.objective_value
    price = format_price(more) if solved.problem.priced else f"{more:.0f} card(s)"
    return f"holding it with all peaks at once would take {price} more"
