"""Targets that no card of a fleet can keep: what was asked, what one request alone takes at the least, how much is
missing, and how much slower a target does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.workload import Slo
from cotenant.estimation.what_fits import most_that
from cotenant.planning.problem import Refusal
from cotenant.units import format_seconds

_RATIO, _STEPS = 2**0.25, 48  # targets up to 4,096 times as long are tried, in steps of a fifth


def floor_words(fleet: Fleet, refusals: Iterable[Refusal]) -> str | None:
    """The lowest floor that refused a way, in words; None where none was refused so."""
    found = [(one, one.floor) for one in refusals if one.floor is not None]
    if not found:
        return None
    refused, floor = min(found, key=lambda each: each[1].least_s / each[1].asked_s)
    cards = f"{refused.tensor_parallel_size} x " if refused.tensor_parallel_size > 1 else ""
    where = f"{refused.format} on {cards}{fleet.gpus[refused.offer].gpu.name}"
    return (
        f"a {floor.target} of {format_seconds(floor.asked_s)} is asked, and {floor.what} takes "
        f"{format_seconds(floor.least_s)} at the least ({where}): "
        f"{format_seconds(floor.least_s - floor.asked_s)} short, however little it is asked"
    )


def is_too_slow(refusals: Iterable[Refusal]) -> bool:
    """Whether a way was refused for its SLO."""
    return any(one.too_slow for one in refusals)


def slower_targets(request: ModelRequest, place: Callable[[ModelRequest], Fleet],
                   feasible: Callable[[Fleet], bool]) -> Iterator[tuple[str, Fleet]]:  # fmt: skip
    """The tightest targets that find a place, all of them loosened alike, in words, with the fleet; none where no
    such target helps."""
    slo = request.slo
    if slo is None:
        return
    loosest_first = [_loosened(slo, _RATIO ** (_STEPS - step)) for step in range(_STEPS)]
    fleets = [place(replace(request, slo=one)) for one in loosest_first]
    count = most_that(lambda count: feasible(fleets[count - 1]), len(fleets))
    if count:
        words = f"{request.name} with {_words(loosest_first[count - 1])} instead of {_words(slo)}"
        yield words, fleets[count - 1]


def _loosened(slo: Slo, factor: float) -> Slo:
    """Targets that many times as long, to two digits."""
    ttft, tpot = (
        None if seconds is None else max(seconds, float(f"{seconds * factor:.2g}"))
        for seconds in (slo.ttft_s, slo.tpot_s)
    )
    return Slo(ttft, tpot, slo.percentile)


def _words(slo: Slo) -> str:
    told = [("ttft", slo.ttft_s), ("tpot", slo.tpot_s)]
    return ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in told if seconds is not None)
