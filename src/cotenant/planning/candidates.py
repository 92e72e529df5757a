"""Every way in which a model may be served on the fleet's cards, sized from its traffic.

The declared space: each format that passes the decision matrix (`precisions`), each KV type allowed, the two
smallest powers of two of tensor parallel that do inside a node, pipeline stages and whole experts beside them
(`splits`, `offered`), the smallest number of replicas that carries the traffic and holds the SLO (`sizing`), and
tokens a step beside the engine's own where they save memory or keep an SLO (`steps`).
Of these, what another way beats in every respect is dropped (`ways`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from math import inf

from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.estimation.compound_arrays import compiled
from cotenant.estimation.memo import IdentityCache
from cotenant.planning.offered import WORTHWHILE, Wish, ways_on
from cotenant.planning.sized_apart import sized_apart
from cotenant.planning.ways import Ways, joined

_COMPILE_FROM = 100  # models x offers: below, loading the compiler takes longer than it saves
_PROVEN = 60  # models: of more, a size of its own costs more than fewer tokens a step save
_BESIDE_SIZES = ("name", "priority", "pin_gpus", "apart_from", "also_serves", "spread")

_ON_OFFER: IdentityCache[Ways] = IdentityCache(16_384)  # a thousand models on sixteen offers


def all_ways(fleet: Fleet) -> tuple[Ways, ...]:
    """`ways_of` every model; two requests for the same thing are sized once. Where a crew is at hand
    (`crew.working`), large fleets are sized by all of its members, with the same result."""
    first: dict[object, int] = {}
    asked = [first.setdefault(_question(request), number) for number, request in enumerate(fleet.models)]
    _size_apart(fleet, sorted(first.values()))
    found: list[Ways] = []
    for number, same in enumerate(asked):
        found.append(ways_of(fleet, number) if same == number else found[same].of(number))
    return tuple(found)


def _question(request: ModelRequest) -> object:
    """All that sizes depend on; who asks, how urgently and beside whom is not of it."""
    values = []
    for field in fields(request):
        value = getattr(request, field.name)
        if field.name == "model":
            value = id(value)
        elif isinstance(value, Mapping):
            value = tuple(sorted(value.items()))
        values.append(None if field.name in _BESIDE_SIZES else value)
    return tuple(values)


def ways_of(fleet: Fleet, number: int, pace: float = 1.0) -> Ways:
    """All candidates of one model over every offer; a fleet that differs elsewhere finds them sized already.

    With a `pace` above 1 each is sized to keep its SLO although every step takes that many times as long: more
    requests are in flight then, so it holds more cache, and may need more replicas.
    """
    request, wish = fleet.models[number], _wish(fleet, pace)
    return joined(
        [
            _ON_OFFER.get(
                (request, offer),
                _key(fleet, number, place, pace),
                partial(ways_on, request, number, offer, place, wish),
            )
            for place, offer in enumerate(fleet.gpus)
        ]
    )


def _wish(fleet: Fleet, pace: float = 1.0) -> Wish:
    quick = compiled() if len(fleet.models) * len(fleet.gpus) >= _COMPILE_FROM else None
    return Wish(fleet.headroom, fleet.kv_overflow, pace, quick, _visible(fleet))


def _visible(fleet: Fleet) -> float:
    """The share of a card that fewer tokens a step must save."""
    return WORTHWHILE if is_proven_size(fleet) else inf


def is_proven_size(fleet: Fleet) -> bool:
    """Whether its placement is looked for with a proof (`placing.QUICK_MODELS`), so that small gains may show."""
    return len(fleet.models) <= _PROVEN


def _key(fleet: Fleet, number: int, place: int, pace: float = 1.0) -> tuple[object, ...]:
    return number, place, fleet.headroom, fleet.kv_overflow, pace, _visible(fleet)


def _size_apart(fleet: Fleet, numbers: list[int]) -> None:
    """Have a crew size what is not sized yet, where there is one and enough to do."""
    left = [
        number
        for number in numbers
        if not all(
            _ON_OFFER.has((fleet.models[number], offer), _key(fleet, number, place))
            for place, offer in enumerate(fleet.gpus)
        )
    ]
    for number, place, ways in sized_apart(fleet, left, _wish(fleet)):
        _ON_OFFER.put((fleet.models[number], fleet.gpus[place]), _key(fleet, number, place), ways)
