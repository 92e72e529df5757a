"""Ways between processes: as tuples of plain values, which pickle in a fifth of the time that objects take.

What both ends have stays where it is: the request, the offer and the precision that a way's estimate is made of,
and the refusals that follow from the decision matrix alone, which are most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.fleet import GpuOffer, ModelRequest
from cotenant.planning.judged import Judged
from cotenant.planning.problem import Candidate, Refusal
from cotenant.planning.served import Precision, Served
from cotenant.planning.ways import Dropped, Ways

Packed = tuple[
    tuple[tuple[Any, ...], ...], tuple[int, ...], tuple[tuple[int, int], ...], tuple[tuple[Any, ...], ...]
]
"""(ways, which of them are candidates, (dropped, by) of them, refusals)"""


def packed(ways: Ways) -> Packed:
    """As it travels; without refusals that concern no size, which `unpacked` is given."""
    every: dict[int, Candidate] = {id(one): one for one in ways.candidates}
    every |= {id(one): one for dropped in ways.dropped for one in (dropped.candidate, dropped.by)}
    number = {each: place for place, each in enumerate(every)}
    return (
        tuple(map(_packed_way, every.values())),
        tuple(number[id(one)] for one in ways.candidates),
        tuple((number[id(one.candidate)], number[id(one.by)]) for one in ways.dropped),
        tuple(_REFUSAL(one) for one in ways.refusals if one.tensor_parallel_size),
    )


def unpacked(
    found: Packed,
    request: ModelRequest,
    offer: GpuOffer,
    served: Mapping[Precision, Served],
    refusals: tuple[Refusal, ...],
) -> Ways:
    """What `packed` was given, of a request on an offer in one of the precisions; `refusals` come first."""
    ways, kept, dropped, refused = found
    every = [_way(one, request, offer, served) for one in ways]
    return Ways(
        tuple(every[place] for place in kept),
        (*refusals, *(Refusal(*one) for one in refused)),
        tuple(Dropped(every[place], every[by]) for place, by in dropped),
    )


def _packed_way(one: Candidate) -> tuple[Any, ...]:
    judged = one.judged
    precision = judged.precision if isinstance(judged, Judged) else None
    return _BEFORE(one), _SETTINGS(one.settings), _DEMAND(one.demand), precision, _AFTER(one)


def _way(
    found: tuple[Any, ...], request: ModelRequest, offer: GpuOffer, served: Mapping[Precision, Served]
) -> Candidate:
    before, told, asked, precision, after = found
    settings, demand = EngineSettings(*told), Demand(*asked)
    judged = Judged(settings, demand, precision, (request, offer, served[precision]))
    values: tuple[Any, ...] = (*before, settings, demand, judged, *after)
    return Candidate(*values)


def _values(of: type, *, until: str = "", beyond: str = "") -> Callable[[Any], tuple[Any, ...]]:
    """All its fields in their order, or those before and after one of them."""
    names = [one.name for one in fields(of)]
    start, end = names.index(beyond) + 1 if beyond else 0, names.index(until) if until else len(names)
    return attrgetter(*names[start:end])


_SETTINGS, _DEMAND, _REFUSAL = _values(EngineSettings), _values(Demand), _values(Refusal)
_BEFORE, _AFTER = _values(Candidate, until="settings"), _values(Candidate, beyond="judged")
