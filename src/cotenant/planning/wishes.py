"""What each wish costs: the fleet planned again without it; and, where not all fit, the smallest sets to give up.

One wish at a time is dropped (or one thing more is there) and the fleet is planned again: the difference is that
wish's shadow price, exact at this fleet and no farther, since a plan changes in steps. Wishes whose loss changes
nothing do not bind. More memory is tried in doubled steps on all cards of a type, so that "1 GiB more on each L4
saves $0.39/h" is found where it is true, and the least amount that saves anything where it is not.

Where models have no place, sets of wishes are tried by size, and only those of which no part does already; each
is planned whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.relaxation import Relaxation
from cotenant.planning.candidates import all_ways
from cotenant.planning.folding import folded, twins
from cotenant.planning.problem import Card
from cotenant.planning.sleeping import refined
from cotenant.planning.solved import Progress, Solved, solve_ways
from cotenant.units import GIB, format_percent, listed

MOST_MODELS = 40  # beyond, a plan for each wish takes too long
MOST_TRIED = 48
LARGEST_SET = 3
_MORE_GIB = (1, 2, 4, 8, 16)
Change = Callable[[Fleet], Fleet]


@dataclass(frozen=True, slots=True)
class Wish:
    """Something asked for, in words, and the fleet without it."""

    words: str
    dropped: Change


def wishes_of(fleet: Fleet) -> tuple[Wish, ...]:
    """All that the fleet asks for beyond serving its models, in the file's order."""
    found: list[Wish] = []
    if fleet.headroom > 0:
        words = f"the headroom of {format_percent(fleet.headroom)}"
        found.append(Wish(words, lambda one: replace(one, headroom=0.0)))
    if fleet.spare != "none":
        found.append(Wish(f"a spare {fleet.spare}", lambda one: replace(one, spare="none")))
    for number, offer in enumerate(fleet.gpus):
        if offer.used_bytes:
            found.append(Wish(f"what others hold of {offer.gpu.name}", _on_offer(number, used_bytes=0)))
        if offer.time_slices is not None:
            words = f"{offer.time_slices} slices of the time of each {offer.gpu.name}"
            found.append(Wish(words, _on_offer(number, time_slices=None)))
        if offer.count is None and offer.maximum is not None:
            words = f"at most {offer.maximum} x {offer.gpu.name}"
            found.append(Wish(words, _on_offer(number, maximum=None)))
    for numbers in twins(fleet):
        names = [fleet.models[number].name for number in numbers]
        theirs = "with their adapters" if any(fleet.models[number].adapters for number in numbers) else "for all"
        words = f"{listed(names)} as processes of their own (one {theirs})"
        found.append(Wish(words, _folding(frozenset(names))))
    for request in fleet.models:
        found += [Wish(f"{request.name}: {words}", change) for words, change in _of_model(request)]
    return tuple(found)


def _of_model(request: ModelRequest) -> Iterator[tuple[str, Change]]:
    if request.slo is not None:
        yield "its SLO", _on_model(request.name, slo=None)
    if request.formats:
        yield f"only {' or '.join(request.formats)}", _on_model(request.name, formats=())
    elif request.max_loss_percent < 5:
        words = f"at most {request.max_loss_percent:g}% loss of quality (5% instead)"
        yield words, _on_model(request.name, max_loss_percent=5.0)
    if request.pin_gpus:
        yield f"pinned to {', '.join(map(str, request.pin_gpus))}", _on_model(request.name, pin_gpus=())
    if request.apart_from:
        yield f"apart from {', '.join(request.apart_from)}", _on_model(request.name, apart_from=())
    if "co-resident" not in request.sharing:
        yield "no neighbours", _on_model(request.name, sharing=(*request.sharing, "co-resident"))
    if request.spread:
        yield "its replicas on different nodes", _on_model(request.name, spread=False)
    if request.min_replicas > 1:
        yield f"at least {request.min_replicas} replicas", _on_model(request.name, min_replicas=1)
    if request.max_replicas is not None:
        yield f"at most {request.max_replicas} replicas", _on_model(request.name, max_replicas=None)


def _folding(names: frozenset[str]) -> Change:
    def change(fleet: Fleet) -> Fleet:
        found = [number for number, one in enumerate(fleet.models) if one.name in names]
        return folded(fleet, found) if len(found) > 1 else fleet  # gone into another process already

    return change


def _on_model(name: str, **changes: object) -> Change:
    def change(fleet: Fleet) -> Fleet:
        models = tuple(replace(one, **changes) if one.name == name else one for one in fleet.models)  # type: ignore[arg-type]
        return replace(fleet, models=models)

    return change


def _on_offer(number: int, **changes: object) -> Change:
    def change(fleet: Fleet) -> Fleet:
        gpus = list(fleet.gpus)
        gpus[number] = replace(gpus[number], **changes)  # type: ignore[arg-type]
        return replace(fleet, gpus=tuple(gpus))

    return change


def shadow_prices(solved: Solved, *, progress: Progress = lambda _: None) -> tuple[Relaxation, ...]:
    """What each single wish costs, the dearest first; only those that cost anything. Empty for large fleets."""
    fleet = solved.fleet
    if not solved.feasible or len(fleet.models) > MOST_MODELS:
        return ()
    now = solved.placement.objective_value
    found = []
    changes = [(wish.words, wish.dropped(fleet)) for wish in wishes_of(fleet)][:MOST_TRIED]
    for words, changed in [*changes, *_one_card_more(fleet)]:
        progress(f"what it costs: {words}")
        again = _planned(changed)
        if again is not None and again.placement.objective_value < now - 1e-6:
            found.append(_saving((words,), now, again))
    for number in sorted({_card(solved, card).offer for card in _used(solved)}):
        found += _more_memory(fleet, number, now, progress)
    return tuple(sorted(found, key=lambda one: (-(one.saves or 0.0), one.wishes)))


def _card(solved: Solved, card: int) -> Card:
    return solved.problem.cards[card]


def _used(solved: Solved) -> set[int]:
    return {card for one in solved.placement.assignments for card in one.each_card()}


def _planned(fleet: Fleet) -> Solved | None:
    solved = refined(solve_ways(fleet, all_ways(fleet), nearest=False))
    return solved if solved.feasible else None


def _saving(wishes: tuple[str, ...], now: float | None, again: Solved) -> Relaxation:
    names = Counter(again.fleet.gpus[_card(again, card).offer].gpu.name for card in sorted(_used(again)))
    cards = " + ".join(f"{count} x {name}" for name, count in names.items())
    return Relaxation(wishes, None if now is None else now - again.placement.objective_value, cards)


def _one_card_more(fleet: Fleet) -> Iterator[tuple[str, Fleet]]:
    for number, offer in enumerate(fleet.gpus):
        if offer.count is not None:
            yield f"no {offer.gpu.name} beyond {offer.count}", _on_offer(number, count=offer.count + 1)(fleet)


def _more_memory(fleet: Fleet, number: int, now: float, progress: Progress) -> Iterator[Relaxation]:
    """The least of the amounts that saves anything."""
    name = fleet.gpus[number].gpu.name
    for more in _MORE_GIB:
        progress(f"what it costs: {more} GiB on each {name}")
        again = _planned(_on_offer(number, gpu=_larger(fleet.gpus[number], more * GIB).gpu)(fleet))
        if again is not None and again.placement.objective_value < now - 1e-6:
            yield _saving((f"{more} GiB more on each {name}",), now, again)
            return


def _larger(offer: GpuOffer, more: int) -> GpuOffer:
    gpu = offer.gpu
    return replace(
        offer,
        gpu=replace(gpu, cuda_bytes=gpu.cuda_bytes.shifted(more), driver_bytes=gpu.driver_bytes.shifted(more)),
    )


def smallest_sets(fleet: Fleet, *, progress: Progress = lambda _: None) -> tuple[Relaxation, ...]:
    """The smallest sets of wishes without which every model has a place, all of the same size; each was planned.
    Empty where no set of `LARGEST_SET` does, or for large fleets."""
    if len(fleet.models) > MOST_MODELS:
        return ()
    wishes, tried = wishes_of(fleet), 0
    for size in range(1, LARGEST_SET + 1):
        found: list[Relaxation] = []
        for chosen in combinations(wishes, size):
            if tried == MOST_TRIED:
                return tuple(found)
            tried += 1
            progress(f"without {', '.join(wish.words for wish in chosen)}")
            changed = fleet
            for wish in chosen:
                changed = wish.dropped(changed)
            again = _planned(changed)
            if again is not None:
                found.append(_saving(tuple(wish.words for wish in chosen), None, again))
        if found:
            return tuple(found)
    return ()
