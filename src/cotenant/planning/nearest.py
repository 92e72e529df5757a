"""Where nothing fits: what each model lacks in the nearest plan, and what would make it fit, each tried.

Host memory is never offered: swap is not capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from cotenant.catalogue.gpus import all_gpus
from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.plan import Shortfall
from cotenant.domain.workload import Lengths, Trace, Traffic
from cotenant.estimation.what_fits import most_that
from cotenant.planning.floors import floor_words, is_too_slow, slower_targets
from cotenant.planning.problem import Candidate, Loads, Refusal
from cotenant.units import format_gib, format_percent, format_price

if TYPE_CHECKING:
    from cotenant.planning.solved import Solved

Feasible = Callable[[Fleet], bool]
_REMEDIES = 4  # a reader wants a way out, not a catalogue
_MOST_TRIED = 24  # each is a whole plan
_MOST_IN_ALL = 240  # of all models together: where dozens lack a place, no change of one of them helps
_PARTS = 20  # a reader rounds shares anyway


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of one wish, in words, with the fleet that it makes; `tried` when that is known to find places."""

    words: str
    fleet: Fleet
    tried: bool = False


def shortfalls_of(
    fleet: Fleet, solved: Solved, feasible: Feasible, progress: Callable[[str], None]
) -> tuple[Shortfall, ...]:
    """One for every model without a place; remedies are tried on the whole fleet, cheapest thought first."""
    missing = [number for number in range(len(fleet.models)) if number not in solved.placement.placed]
    found, left = [], _MOST_IN_ALL
    for number in missing:
        short, reason = _lack(solved, number)
        if left:
            progress(f"looking for what would make {fleet.models[number].name} fit")
        remedies: list[str] = []
        slow = is_too_slow(solved.ways[number].refusals) and not solved.ways[number].candidates
        for remedy in islice(_remedies(fleet, number, feasible, slow=slow), min(left, _MOST_TRIED)):
            left -= 1
            if remedy.tried or feasible(remedy.fleet):
                remedies.append(remedy.words)
            if len(remedies) >= _REMEDIES:
                break
        found.append(Shortfall(fleet.models[number].name, short, reason, tuple(remedies)))
    return tuple(found)


def _lack(solved: Solved, number: int) -> tuple[int, str]:
    """(bytes that are missing on the best card, why): against what the nearest plan leaves free."""
    ways = solved.ways[number]
    reached = [way for way in ways.candidates if len(_allowed(solved, way)) >= way.ranks]
    if not reached:
        return _out_of_reach(solved, number)
    loads = Loads(solved.problem)
    for assignment in solved.placement.assignments:
        for cards in assignment.cards:
            loads.add(assignment.candidate, cards)
    best: tuple[int, str] | None = None
    for candidate in reached:
        name = solved.fleet.gpus[candidate.offer].gpu.name
        free = [loads.free_bytes(card) for card in _allowed(solved, candidate)]
        room = sorted(free, reverse=True)[candidate.ranks - 1]
        short = max(0, candidate.claim_bytes - room)
        words = (
            f"{candidate.format} needs {format_gib(candidate.claim_bytes)} on {candidate.ranks} x {name}, "
            f"{format_gib(max(0, room))} left after headroom beside the others"
        )
        if short == 0:
            words += f"; the room is there, but not {_hindrance(solved, loads, candidate)}"
        if best is None or short < best[0]:
            best = (short, words)
    return best or (0, "no candidate")


def _allowed(solved: Solved, candidate: Candidate) -> list[int]:
    """The cards of its type that no pin forbids it, full or not."""
    return [card for card, where in enumerate(solved.problem.cards) if solved.problem.allows(candidate, where)]


def _out_of_reach(solved: Solved, number: int) -> tuple[int, str]:
    """No way finds as many cards as it takes: what speaks against those that it may use, else how many lack."""
    ways, pins = solved.ways[number], solved.problem.pins.get(number)
    offers = {card.offer for card in solved.problem.cards if pins is None or card.pool_index in pins}
    refusals = tuple(one for one in ways.refusals if one.offer in offers)
    where = "" if pins is None else f"pinned to {', '.join(map(str, sorted(pins)))}: "
    nearest = min((way for way in ways.candidates if way.offer in offers), key=lambda way: way.ranks, default=None)
    if nearest is not None:
        name, there = solved.fleet.gpus[nearest.offer].gpu.name, len(_allowed(solved, nearest))
        return 0, f"{where}{nearest.format} needs {nearest.ranks} x {name}, {there} may be used"
    if refusals or not ways.candidates:
        short, reason = _from_refusals(solved.fleet, refusals or ways.refusals)
        return short, where + reason
    return 0, f"{where}no precision of it was found for those cards"


def _hindrance(solved: Solved, loads: Loads, candidate: Candidate) -> str:
    """What keeps it off cards that have room for good: its load peak, or wishes."""
    roomy = [
        card
        for card, where in enumerate(solved.problem.cards)
        if solved.problem.allows(candidate, where) and candidate.claim_bytes <= loads.free_bytes(card)
    ]
    nodes = {solved.problem.cards[card].node for card in roomy}
    if candidate.request in solved.problem.spread and len(nodes) < candidate.replicas:
        name = solved.fleet.gpus[candidate.offer].gpu.name
        there = f"{len(nodes)} node{'s' if len(nodes) != 1 else ''} of {name}"
        return f"{candidate.replicas} nodes: {there}, and replicas of one model are all on one type of card"
    if not any(loads.may_load(candidate, card) for card in roomy):
        return f"while it loads, when it takes {format_gib(candidate.load_peak_bytes)}"
    return f"the company: {_company(solved, candidate.request)}"


def _company(solved: Solved, number: int) -> str:
    """Which wishes keep it off cards that have room."""
    request, models = solved.fleet.models[number], solved.fleet.models
    wishes = []
    if number in solved.problem.alone:
        wishes.append(f"{request.name} must be alone")
    wishes += [f"{models[other].name} must be alone" for other in sorted(solved.problem.alone - {number})]
    pairs = (pair - {number} for pair in solved.problem.apart if number in pair)
    wishes += [f"apart from {models[other].name}" for pair in pairs for other in sorted(pair)]
    if request.pin_gpus:
        wishes.append(f"pinned to {', '.join(map(str, request.pin_gpus))}")
    wishes += [f"{offer.time_slices} processes on each {offer.gpu.name}"
               for offer in solved.fleet.gpus if offer.time_slices is not None]  # fmt: skip
    if request.min_replicas > 1:
        wishes.append("no card takes two replicas of one model")
    return "; ".join(wishes) or "no card takes two replicas of one model"


def _from_refusals(fleet: Fleet, refusals: tuple[Refusal, ...]) -> tuple[int, str]:
    """The refusal that came nearest: a target that no card can keep, the smallest shortfall of bytes, else what
    speaks against the format that the model is stored in, else the first of any other kind."""
    floor = floor_words(fleet, refusals)
    sized = [one for one in refusals if one.shortfall_bytes > 0]
    if sized:
        best = min(sized, key=lambda one: one.shortfall_bytes)
        size = f" x {best.tensor_parallel_size}" if best.tensor_parallel_size > 1 else ""
        short = f"{best.format}{size} {best.reason}"
        return best.shortfall_bytes, short if floor is None else f"{floor}; elsewhere {short}"
    if floor is not None:
        return 0, floor
    tried = [one for one in refusals if one.tensor_parallel_size]
    others = tried or list(refusals)
    best = next((one for one in others if one.format == fleet.models[one.request].model.quantization), others[0])
    return 0, f"{best.format} on {fleet.gpus[best.offer].gpu.name}: {best.reason}"


def _remedies(fleet: Fleet, number: int, feasible: Feasible, *, slow: bool = False) -> Iterator[Remedy]:
    """Changes to try: slower targets where those are in the way, precision, fewer slots, shorter context,
    headroom, another card, a card more."""
    request = fleet.models[number]
    if slow:
        for words, slower in slower_targets(request, partial(_with, fleet, number), feasible):
            yield Remedy(words, slower, tried=True)
    yield from _precisions(fleet, number, request)
    yield from _fewer(fleet, number, request, feasible)
    yield from _shorter(fleet, number, request, feasible)
    yield from _neighbours(fleet, number)
    yield from _headrooms(fleet)
    yield from _more_cards(fleet, number)


def _with(fleet: Fleet, number: int, request: ModelRequest) -> Fleet:
    models = (*fleet.models[:number], request, *fleet.models[number + 1 :])
    return replace(fleet, models=models)


def _precisions(fleet: Fleet, number: int, request: ModelRequest) -> Iterator[Remedy]:
    for name in ("fp8", "awq-int4", "gptq-int4", "w4a16", "nvfp4", "mxfp4"):
        known = name in request.checkpoints or name == "fp8"
        if known and name not in request.formats:
            yield Remedy(f"{request.name} in {name}", _with(fleet, number, replace(request, formats=(name,))))
    if request.kv_cache_dtypes == ("auto",):
        yield Remedy(
            f"{request.name} with kv_cache_dtype fp8",
            _with(fleet, number, replace(request, kv_cache_dtypes=("fp8",))),
        )


def _neighbours(fleet: Fleet, number: int) -> Iterator[Remedy]:
    """The others in fewer bits, the largest first."""
    others = [each for each in range(len(fleet.models)) if each != number]
    for other in sorted(others, key=lambda each: -fleet.models[each].model.num_parameters)[:2]:
        yield from _precisions(fleet, other, fleet.models[other])


def _fewer(fleet: Fleet, number: int, request: ModelRequest, feasible: Feasible) -> Iterator[Remedy]:
    """The most in flight that find a place, exactly; the highest rate that does, to a twentieth of the asked."""
    traffic = request.traffic
    if traffic.concurrent is not None:
        wishes = [
            (f"with concurrent: {fewer} instead of {traffic.concurrent}", replace(traffic, concurrent=fewer))
            for fewer in range(1, traffic.concurrent)
        ]
    elif traffic.trace is not None:
        wishes = [
            (
                f"at {format_percent(share)} of the trace's rate",
                replace(traffic, trace=_slowed(traffic.trace, share)),
            )
            for share in (0.05, 0.1, 0.25, 0.5, 0.75)
        ]
    else:
        asked = traffic.requests_per_second or 0.0
        wishes = [
            (f"at {rate:.3g} requests/s instead of {asked:g}", replace(traffic, requests_per_second=rate))
            for rate in (asked * part / _PARTS for part in range(1, _PARTS))
        ]
    yield from _most(fleet, number, request, wishes, feasible)


def _slowed(trace: Trace, share: float) -> Trace:
    """The same requests, further apart."""
    return replace(trace, arrivals_s=tuple(moment / share for moment in trace.arrivals_s))


def _shorter(fleet: Fleet, number: int, request: ModelRequest, feasible: Feasible) -> Iterator[Remedy]:
    """The longest requests that find a place, to a twentieth of what they are."""
    shares = (part / _PARTS for part in range(1, _PARTS))
    wishes = [
        (f"with requests {format_percent(share)} as long", _shortened(request.traffic, share)) for share in shares
    ]
    if wishes[0][1] != request.traffic:
        yield from _most(fleet, number, request, wishes, feasible)


def _most(
    fleet: Fleet,
    number: int,
    request: ModelRequest,
    wishes: Sequence[tuple[str, Traffic]],
    feasible: Feasible,
) -> Iterator[Remedy]:
    """The last of `wishes` that finds a place; each asks for more than the one before."""
    fleets = [_with(fleet, number, replace(request, traffic=traffic)) for _, traffic in wishes]
    count = most_that(lambda count: feasible(fleets[count - 1]), len(fleets))
    if count:
        yield Remedy(f"{request.name} {wishes[count - 1][0]}", fleets[count - 1], tried=True)


def _shortened(traffic: Traffic, share: float) -> Traffic:
    def cut(lengths: Lengths | None) -> Lengths | None:
        if lengths is None:
            return None

        def part(tokens: int | None) -> int | None:
            return None if tokens is None else max(1, int(tokens * share))

        shorter = tuple((max(1, int(tokens * share)), weight) for tokens, weight in lengths.histogram)
        return Lengths(part(lengths.p50), part(lengths.p95), part(lengths.maximum), histogram=shorter)

    return replace(traffic, input_tokens=cut(traffic.input_tokens), context_tokens=cut(traffic.context_tokens))


def _headrooms(fleet: Fleet) -> Iterator[Remedy]:
    for headroom in (0.10, 0.08, 0.05):
        if headroom < fleet.headroom - 1e-9:
            yield Remedy(f"a headroom of {format_percent(headroom)}", replace(fleet, headroom=headroom))


def _more_cards(fleet: Fleet, number: int) -> Iterator[Remedy]:
    """One card more of a type that is there (the deployment split), or the smallest other type that does."""
    for place, offer in enumerate(fleet.gpus):
        if offer.count is not None:
            more = replace(offer, count=offer.count + 1)
            gpus = (*fleet.gpus[:place], more, *fleet.gpus[place + 1 :])
            yield Remedy(f"one more {offer.gpu.name} (split the deployment)", replace(fleet, gpus=gpus))
    owned = {offer.gpu.name for offer in fleet.gpus}
    cards = [gpu for gpu in all_gpus() if gpu.vendor == "NVIDIA" and gpu.name not in owned and gpu.cuda_measured]
    needed = fleet.models[number].model.num_parameters // 2
    for gpu in sorted(cards, key=lambda one: (one.cuda_bytes.value, one.name)):
        if gpu.cuda_bytes.value < needed or gpu.price_per_hour is None:
            continue
        added = GpuOffer(gpu=gpu, count=1, price_per_hour=gpu.price_per_hour if _priced(fleet) else None)
        price = f" ({format_price(gpu.price_per_hour)})"
        yield Remedy(f"one {gpu.name}{price} beside what is there", replace(fleet, gpus=(*fleet.gpus, added)))


def _priced(fleet: Fleet) -> bool:
    return any(offer.price_per_hour is not None for offer in fleet.gpus)
