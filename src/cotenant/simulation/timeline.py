"""A replay over time, from what became of each request: nothing is sampled while the cores run.

A replica works exactly while it is awake and has a request (cores begin a step whenever there is work), so spells
of work, of waiting and of memory follow from arrivals, first tokens and ends. All are sums over pieces that start
somewhere and grow in a straight line, so a million requests cost a sort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.domain.replay import MemorySeries, ModelSeries, Starved, Timeline
from cotenant.simulation.load import Ints, Outcome, Requests, Status

PARTS = 120
_NS = 1e-9
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Lived:
    """One replica's life: its requests and what became of those that it took, and when it began to wake, was
    awake and was asleep again (seconds; None: always awake). Bytes are a rank's; `pool_tokens` fill `kv_bytes`.
    Where there is `begun_ns`, its requests came before, and had their first token then from another replica."""

    id: str
    model: str
    cards: tuple[str, ...]
    requests: Requests
    outcome: Outcome
    claimed_bytes: int
    asleep_bytes: int
    kv_bytes: int
    pool_tokens: int
    spells_s: tuple[tuple[float, float, float], ...] | None = None
    begun_ns: Ints | None = None

    @property
    def continues(self) -> bool:
        """What another replica began."""
        return self.begun_ns is not None


def timeline(
    lives: Sequence[Lived], *, end_s: float, capacity_bytes: Mapping[str, int], parts: int = PARTS
) -> Timeline:
    """Means over `parts` equal parts from 0 to `end_s`."""
    edges = np.linspace(0.0, max(end_s, 1e-6), parts + 1)
    spells = [_spells(one, end_s) for one in lives]
    models = list(dict.fromkeys(one.model for one in lives))
    series: list[ModelSeries] = []
    for name in models:
        own = [(one, spell) for one, spell in zip(lives, spells, strict=True) if one.model == name]
        waiting, handed = (
            _never_begun([one for one, _ in own if one.continues is later]) for later in (False, True)
        )
        series.append(_model(name, [spell for _, spell in own], waiting, handed, edges))
    return Timeline(
        part_s=float(edges[1]),
        models=tuple(series),
        memory=tuple(_memory(one, spell, edges) for one, spell in zip(lives, spells, strict=True)),
        capacity_bytes=dict(capacity_bytes),
        starved=_starved(series, lives, float(edges[1])),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Spells:
    """Seconds of the requests that a replica served: arrival, first token, end; what they hold, and which of them
    came here first, have had their first token here, and were finished. The answer counts from `paced` on, where
    another replica wrote the first token."""

    arrival: Floats
    first: Floats
    paced: Floats
    end: Floats
    given: Floats
    written: Floats
    worked: tuple[Floats, Floats]
    came: NDArray[np.bool_]
    begun: NDArray[np.bool_]
    finished: NDArray[np.bool_]


def _spells(one: Lived, end_s: float) -> _Spells:
    """Of those whom this replica answered, or began to answer."""
    outcome, requests = one.outcome, one.requests
    status = outcome.status[: len(requests)]
    taken = (status != Status.REFUSED) & ((status != Status.UNFINISHED) | outcome.has_first[: len(requests)])
    ended = status != Status.UNFINISHED
    arrival = requests.arrival_ns * _NS
    end = np.where(ended, outcome.finish_ns[: len(requests)] * _NS, end_s)
    first = np.where(outcome.has_first[: len(requests)], outcome.first_token_ns[: len(requests)] * _NS, end)
    paced = first if one.begun_ns is None else one.begun_ns * _NS
    arrival, first, paced, end = arrival[taken], first[taken], paced[taken], np.maximum(end, first)[taken]
    starts, ends = _union(arrival, end)
    if one.spells_s is not None:
        starts, ends = _within(starts, ends, [(awake, asleep) for _, awake, asleep in one.spells_s])
    return _Spells(
        arrival, first, paced, end,
        requests.input_tokens[taken].astype(np.float64), requests.output_tokens[taken].astype(np.float64),
        (starts, ends), np.full(int(taken.sum()), not one.continues),
        outcome.has_first[: len(requests)][taken] & (not one.continues), (status == Status.FINISHED)[taken],
    )  # fmt: skip


def _never_begun(lives: Sequence[Lived]) -> Floats:
    """When those came whom none of these replicas, all of one model, had answered at all when the replay ended."""
    if not lives:
        return np.zeros(0)
    requests = lives[0].requests
    touched = np.zeros(len(requests), np.bool_)
    for one in lives:
        outcome = one.outcome
        touched |= (outcome.status != Status.UNFINISHED)[: len(requests)] | outcome.has_first[: len(requests)]
    return np.asarray(requests.arrival_ns[~touched] * _NS)


def _model(name: str, spells: Sequence[_Spells], waiting: Floats, handed: Floats, edges: Floats) -> ModelSeries:
    """Of one model; `waiting` are the arrivals of those who wait to the end, `handed` the same of those who had
    their first token and were handed over."""
    arrival = np.concatenate([spell.arrival for spell in spells])
    first = np.concatenate([spell.first for spell in spells])
    end = np.concatenate([spell.end for spell in spells])
    fresh = np.concatenate([spell.came for spell in spells])
    came = np.histogram(np.concatenate([arrival[fresh], waiting]), bins=edges)[0] / (edges[1] - edges[0])
    still = np.concatenate([waiting, handed])
    waited = _mean(arrival, first, edges) + _mean(still, np.full(len(still), edges[-1]), edges)
    busy = sum((_mean(*spell.worked, edges) for spell in spells), np.zeros(len(edges) - 1)) / len(spells)
    begun = np.concatenate([spell.begun for spell in spells])
    written = np.concatenate([spell.written for spell in spells])
    several = np.concatenate([spell.finished for spell in spells]) & (written > 1)
    paced = np.concatenate([spell.paced for spell in spells])
    pace = (end - paced)[several] / (written[several] - 1)
    return ModelSeries(
        name, _tuple(came), _tuple(waited), _tuple(_mean(first, end, edges)), _tuple(busy),
        _at(first[begun], (first - arrival)[begun], edges), _at(end[several], pace, edges),
    )  # fmt: skip


def _at(times: Floats, values: Floats, edges: Floats) -> tuple[float | None, ...]:
    """The mean of the values whose time lies in each part; None where there is none."""
    counts = np.histogram(times, bins=edges)[0]
    sums = np.histogram(times, bins=edges, weights=values)[0]
    return tuple(float(f"{total / many:.6g}") if many else None for total, many in zip(sums, counts, strict=True))


def _memory(one: Lived, spell: _Spells, edges: Floats) -> MemorySeries:
    """The cache holds a prompt from its first token on, and one token more with each that follows."""
    spans = (
        [(0.0, float(edges[-1]))]
        if one.spells_s is None
        else [(began, asleep) for began, _, asleep in one.spells_s]
    )
    awake = _mean(np.array([start for start, _ in spans]), np.array([end for _, end in spans]), edges)
    fixed = one.asleep_bytes + (one.claimed_bytes - one.kv_bytes - one.asleep_bytes) * awake
    tokens = _mean(spell.first, spell.end, edges, spell.given) + _ramp(
        spell.first, spell.end, spell.written, edges
    )
    held = np.minimum(tokens * one.kv_bytes / max(1, one.pool_tokens), one.kv_bytes * awake)
    return MemorySeries(one.id, one.cards, _tuple(fixed), _tuple(held), _tuple(one.kv_bytes * awake))


def _starved(series: Sequence[ModelSeries], lives: Sequence[Lived], part_s: float) -> tuple[Starved, ...]:
    """The waiting of each part goes to those who worked on the same cards then, in proportion to their work."""
    cards: dict[str, set[str]] = {}
    for one in lives:
        cards.setdefault(one.model, set()).update(one.cards)
    busy = {one.model: np.array(one.busy) for one in series}
    found: list[Starved] = []
    for own in series:
        beside = [other for other in busy if cards[own.model] & cards[other]]
        working = sum((busy[other] for other in beside), np.zeros(len(own.busy)))
        waiting = np.array(own.waiting) * part_s
        for other in beside:
            share = np.divide(busy[other], working, out=np.zeros_like(working), where=working > 0)
            found.append(Starved(own.model, other, float((waiting * share).sum())))
        found.append(Starved(own.model, "", float(waiting[working <= 0].sum())))
    return tuple(one for one in sorted(found, key=lambda one: (one.model, -one.seconds)) if one.seconds > 0)


def _mean(starts: Floats, ends: Floats, edges: Floats, weight: Floats | None = None) -> Floats:
    """How much is there on average in each part, where a piece of `weight` (1) is there from start to end."""
    weights = np.ones(len(starts)) if weight is None else weight
    whole = _grown(starts, weights, edges) - _grown(ends, weights, edges)
    return np.maximum(0.0, np.diff(whole) / np.diff(edges))


def _ramp(starts: Floats, ends: Floats, heights: Floats, edges: Floats) -> Floats:
    """As `_mean`, where a piece grows from nothing at its start to `heights` at its end, and then is gone."""
    lasting = ends - starts > 1e-9
    starts, ends, heights = starts[lasting], ends[lasting], heights[lasting]
    slopes = heights / (ends - starts)
    whole = _grown(starts, slopes, edges, 2) - _grown(ends, slopes, edges, 2) - _grown(ends, heights, edges)
    return np.maximum(0.0, np.diff(whole) / np.diff(edges))


def _grown(starts: Floats, weights: Floats, edges: Floats, power: int = 1) -> Floats:
    """sum over starts before each edge of weight x (edge - start)^power / power, by prefix sums."""
    order = np.argsort(starts, kind="stable")
    at, weight = starts[order], weights[order]
    place = np.searchsorted(at, edges)

    def prefix(values: Floats) -> Floats:
        summed: Floats = np.concatenate([[0.0], np.cumsum(values)])[place]
        return summed

    if power == 1:
        return edges * prefix(weight) - prefix(weight * at)
    return (edges**2 * prefix(weight) - 2 * edges * prefix(weight * at) + prefix(weight * at**2)) / 2


def _union(starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """The same time as intervals that do not overlap."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    start, reach = starts[order], np.maximum.accumulate(ends[order])
    fresh = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(start) - 1]])
    return start[fresh], reach[last]


def _within(starts: Floats, ends: Floats, spans: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    """What of the intervals lies in `spans`; both are sorted and do not overlap."""
    cut: list[tuple[float, float]] = []
    for low, high in spans:
        first = int(np.searchsorted(ends, low, side="right"))
        last = int(np.searchsorted(starts, high, side="left"))
        cut += [(max(low, float(starts[one])), min(high, float(ends[one]))) for one in range(first, last)]
    return np.array([low for low, _ in cut]), np.array([high for _, high in cut])


def _tuple(values: Any) -> tuple[float, ...]:
    """Six digits: enough for a plot, short in JSON."""
    return tuple(float(f"{value:.6g}") for value in values)
