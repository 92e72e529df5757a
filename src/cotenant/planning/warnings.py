"""What a plan's reader must know beside it: who slows whom down, what is held twice, what was assumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cotenant.domain.plan import Strained
from cotenant.planning.precisions import RAW_FIGURES, SIXTEEN_BITS
from cotenant.planning.problem import Candidate
from cotenant.units import GIB, format_bytes, format_price, format_seconds, listed, plural

if TYPE_CHECKING:
    from cotenant.planning.solved import Solved

_IDLE = 0.005  # of the time: who works less slows nobody down


def warnings_of(solved: Solved) -> tuple[str, ...]:
    """Everything, each sentence once: contention, weights held twice, then what estimates and demands say."""
    found: dict[str, None] = dict.fromkeys(
        (*_contention(solved), *_twins(solved), *_untried(solved), *_slices(solved), *_several_clocks(solved))
    )
    for assignment in solved.placement.assignments:
        candidate = assignment.candidate
        request = solved.fleet.models[candidate.request]
        if request.model.architecture == RAW_FIGURES:
            found[
                f"{request.name}: planned from raw figures; put your checkpoint in place of {candidate.checkpoint}"
            ] = None
        for warning in (*candidate.estimate.warnings, *candidate.demand.warnings):
            found[f"{request.name}: {warning}"] = None
        for adapter in request.adapters:
            if not adapter.source:
                found[
                    f"{request.name}: adapter {adapter.name} has no source; its command loads ./{adapter.name}"
                ] = None
    return tuple(found)


def _twins(solved: Solved) -> tuple[str, ...]:
    """Models that load the same checkpoint: two processes never share weights, even of one file."""
    loaders: dict[str, list[Candidate]] = defaultdict(list)
    for assignment in solved.placement.assignments:
        loaders[assignment.candidate.checkpoint].append(assignment.candidate)
    found = []
    for checkpoint, twins in loaders.items():
        if len(twins) < 2:
            continue
        names = listed([solved.fleet.models[one.request].name for one in twins])
        weights = sum(rank.weights.bytes.value for rank in twins[0].estimate.per_gpu)
        found.append(
            f"{names} each hold {checkpoint} ({format_bytes(weights)}): processes never share weights, even "
            "of one file; as one model, with adapters where they differ, it is held once"
        )
    return tuple(found)


def _several_clocks(solved: Solved) -> tuple[str, ...]:
    """Models that might take turns and tell their hours by different clocks."""
    told = [one for one in solved.fleet.models if one.traffic.by_hour and {"sleep", "swap"} & set(one.sharing)]
    zones = sorted({one.traffic.timezone for one in told})
    if len(zones) < 2:
        return ()
    return (
        f"{listed([one.name for one in told])} tell their hours in {listed(zones)} and were not weighed for "
        "taking turns with each other across them: give by_hour of all in one time zone",
    )


def _slices(solved: Solved) -> tuple[str, ...]:
    """What is not known of MIG slices: their identifiers."""
    used = {one.candidate.offer for one in solved.placement.assignments}
    slices = [
        offer.gpu.name for number, offer in enumerate(solved.fleet.gpus) if offer.slice_of and number in used
    ]
    if not slices:
        return ()
    return (
        f"{listed(list(dict.fromkeys(slices)))}: put the UUID of each slice (nvidia-smi -L) in place of "
        "its number in CUDA_VISIBLE_DEVICES",
    )


def _untried(solved: Solved) -> tuple[str, ...]:
    """Models in 16 bits of which a smaller format would run, but nobody has published what it loses: a plan never
    takes such a loss unasked, and its reader should know what asking may save (where it is a GiB or more)."""
    found: dict[str, None] = {}
    for assignment in solved.placement.assignments:
        chosen, request = assignment.candidate, solved.fleet.models[assignment.candidate.request]
        untried = [
            refusal.format
            for refusal in solved.ways[chosen.request].refusals
            if refusal.unproven and refusal.offer == chosen.offer
        ]
        weights = sum(rank.weights.bytes.value for rank in chosen.estimate.per_gpu)
        if untried and chosen.format in SIXTEEN_BITS and not request.formats and weights // 2 >= GIB:
            tried = f"{' and '.join(untried)} {'was' if len(untried) == 1 else 'were'} not tried"
            found[
                f"{request.name}: {tried}: the loss on {request.task} is not published; "
                f"quantization: [{untried[0]}, {chosen.format}] allows it"
            ] = None
    return tuple(found)


def at_risk_of(solved: Solved) -> tuple[str, ...]:
    """Whose estimate holds a target that its 90 % interval reaches past, each model once."""
    found: dict[str, None] = {}
    for assignment in solved.placement.assignments:
        request, demand = solved.fleet.models[assignment.candidate.request], assignment.candidate.demand
        slo = request.slo
        pairs = ((demand.ttft_s, slo.ttft_s), (demand.tpot_s, slo.tpot_s)) if slo else ()
        if any(times and target is not None and times[2] > target for times, target in pairs):
            found[request.name] = None
    return tuple(found)


def promises_of(solved: Solved) -> tuple[str, ...]:
    """What there is to say of targets alone, each sentence once: beside neighbours, then of estimates."""
    risky, found = set(at_risk_of(solved)), dict.fromkeys(_contention(solved))
    for assignment in solved.placement.assignments:
        name = solved.fleet.models[assignment.candidate.request].name
        for warning in assignment.candidate.demand.warnings if name in risky else ():
            if "target" in warning:
                found[f"{name}: {warning}"] = None
    return tuple(found)


def strained_of(solved: Solved) -> tuple[Strained, ...]:
    """Whose SLO holds alone but not beside all of its neighbours, with the targets that break."""
    models = solved.fleet.models
    return tuple(
        Strained(
            models[number].name,
            tuple(word for word, _, _ in _broken(solved, number, busy)),
            tuple(models[other.request].name for other in others),
        )
        for number, (busy, others) in _strain(solved).items()
    )


def _contention(solved: Solved) -> tuple[str, ...]:
    """One for each model whose SLO holds alone but not while its neighbours work as much as their traffic says."""
    told = (_warning(solved, number, *strain) for number, strain in _strain(solved).items())
    return tuple(text for text in told if text)


def _strain(solved: Solved) -> dict[int, tuple[float, list[Candidate]]]:
    """Model -> (busy shares of the others together, the others), where they exceed its slack; the worst card."""
    company: dict[int, list[Candidate]] = defaultdict(list)
    for assignment in solved.placement.assignments:
        for card in assignment.each_card():
            company[card].append(assignment.candidate)
    worst: dict[int, tuple[float, list[Candidate]]] = {}
    for present in company.values():
        for one in present:
            others = [
                other
                for other in present
                if other is not one and other.busy >= _IDLE and not _take_turns(solved, one, other)
            ]
            busy = sum(other.busy for other in others)
            if busy > one.slack + 1e-9 and busy > worst.get(one.request, (0.0, []))[0]:
                worst[one.request] = (busy, others)
    return dict(sorted(worst.items()))


def _take_turns(solved: Solved, one: Candidate, other: Candidate) -> bool:
    names = {solved.fleet.models[each.request].name for each in (one, other)}
    return any(names <= set(turns.models) for turns in solved.placement.turns)


def _warning(solved: Solved, number: int, busy: float, others: list[Candidate]) -> str:
    models = solved.fleet.models
    names = listed([models[other.request].name for other in others])
    parts = [
        f"{word} ~{format_seconds(found)} alone, ~{format_seconds(found * (1 + busy))} "
        f"(target {format_seconds(target)})"
        for word, found, target in _broken(solved, number, busy)
    ]
    if not parts:
        return ""
    return f"{models[number].name} beside {names} at their peak: {', '.join(parts)}; {_price_of_peace(solved)}"


def _broken(solved: Solved, number: int, busy: float) -> Iterator[tuple[str, float, float]]:
    """(target's name, seconds alone, target) of each that does not hold with the others' work beside it."""
    demand = next(one.candidate.demand for one in solved.placement.assignments if one.candidate.request == number)
    slo = solved.fleet.models[number].slo
    for word, found, target in (
        ("TTFT", demand.ttft_s, slo.ttft_s if slo else None),
        ("TPOT", demand.tpot_s, slo.tpot_s if slo else None),
    ):
        if found and target is not None and found[1] * (1 + busy) > target:
            yield word, found[1], target


def _price_of_peace(solved: Solved) -> str:
    """What a placement would take in which every SLO holds at every peak."""
    if not solved.feasible:
        return "the nearest plan does not hold it"
    if solved.placement.spare:
        return "the spare that is kept stays empty all the same"
    if solved.calm is None:
        return "no placement on these cards holds it with all peaks at once"
    more = solved.calm.objective_value - solved.placement.objective_value
    price = format_price(more) if solved.problem.priced else plural(round(more), "card")
    strained = len(_strain(solved))
    return (
        f"holding {'it' if strained == 1 else 'all such targets'} with all peaks at once would take {price} more"
    )
