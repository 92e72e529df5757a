"""Sizes worked out by a crew: chunks of models go out, ways come back as plain values (`travelling`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import ModelSpec
from cotenant.estimation.calibrated import profiles_in_force
from cotenant.estimation.compound_arrays import compiled
from cotenant.estimation.second_source import second_source_in_force
from cotenant.planning.crew import crew_in_force
from cotenant.planning.offered import Wish, refusals_of, ways_on
from cotenant.planning.precisions import precisions_of
from cotenant.planning.travelling import Packed, packed, unpacked
from cotenant.planning.ways import Ways

_FROM = 600  # models x offers: below, starting others takes as long as the work
_MODELS = 12  # in a chunk


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some of a fleet's models, by their numbers, on all of its offers."""

    requests: tuple[tuple[int, ModelRequest], ...]
    offers: tuple[GpuOffer, ...]
    wish: Wish
    is_quick: bool


def sized_apart(fleet: Fleet, numbers: Sequence[int], wish: Wish) -> Iterator[tuple[int, int, Ways]]:
    """(model, offer, its ways there) for all those models, worked out by the crew in force; nothing without one,
    for few models, or where measurements are in force, which do not travel."""
    crew = crew_in_force()
    told = profiles_in_force() or second_source_in_force() is not None
    if crew is None or told or len(numbers) * len(fleet.gpus) < _FROM:
        return
    bare = replace(wish, quick=None)
    chunks = [
        _Chunk(
            tuple((number, fleet.models[number]) for number in numbers[start : start + _MODELS]),
            fleet.gpus, bare, wish.quick is not None,
        )
        for start in range(0, len(numbers), _MODELS)
    ]  # fmt: skip
    for chunk, found in zip(chunks, crew.each(_sized, chunks), strict=True):
        for (number, request), parts in zip(chunk.requests, found, strict=True):
            for place, ways in enumerate(parts):
                yield number, place, _whole(ways, request, number, fleet.gpus[place], place)


def _sized(chunk: _Chunk) -> list[list[Packed]]:
    """The ways of each model on each offer, without the refusals that `sized_apart` knows."""
    wish = replace(chunk.wish, quick=compiled() if chunk.is_quick else None)
    offers = [replace(offer, gpu=_met_card(offer.gpu)) for offer in chunk.offers]
    found = []
    for number, travelled in chunk.requests:
        request = replace(travelled, model=_met(travelled.model))
        each = [ways_on(request, number, offer, place, wish) for place, offer in enumerate(offers)]
        found.append([packed(one) for one in each])
    return found


@lru_cache(maxsize=512)
def _met(model: ModelSpec) -> ModelSpec:
    """The first such architecture that came here: what is kept of it is kept by identity, and each chunk brings
    objects of its own."""
    return model


_CARDS: dict[str, GpuSpec] = {}


def _met_card(card: GpuSpec) -> GpuSpec:
    """The first such card that came here; a data sheet has no hash, so it is met by its name."""
    met = _CARDS.setdefault(card.name, card)
    return met if met == card else card


def _whole(found: Packed, request: ModelRequest, number: int, offer: GpuOffer, place: int) -> Ways:
    """The same with everything that did not travel."""
    allowed, barred = precisions_of(request, offer.gpu)
    served = {one.precision: one for one in allowed}
    return unpacked(found, request, offer, served, tuple(refusals_of(barred, number, place)))
