"""Targets that no card of a fleet can keep: what was asked, what one request alone takes at the least, how much is
missing, and how much slower a target does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.workload import Slo
from cotenant.estimation.what_fits import most_that
from cotenant.planning.problem import Refusal
from cotenant.units import format_seconds, parse_seconds

_SAID = re.compile(
    r"a (?P<target>TTFT|TPOT) of (?P<asked>.+?) is below the floor of .+?: (?P<what>.+) takes (?P<least>.+)"
)
"""As `Case.broken_slo` refuses a way whose target lies below what one request alone takes."""
_ABOVE = re.compile(r"estimated (TTFT|TPOT) .+ is above ")
_RATIO, _STEPS = 2**0.25, 48  # targets up to 4,096 times as long are tried, in steps of a fifth


@dataclass(frozen=True, slots=True)
class Floor:
    """The least that `what` takes: on that card, in that format, on so many ranks."""

    target: str
    asked_s: float
    what: str
    least_s: float
    card: str
    format: str
    ranks: int

    def __str__(self) -> str:
        where = f"{self.format} on {f'{self.ranks} x ' if self.ranks > 1 else ''}{self.card}"
        short = format_seconds(self.least_s - self.asked_s)
        return (
            f"a {self.target} of {format_seconds(self.asked_s)} is asked, and {self.what} takes "
            f"{format_seconds(self.least_s)} at the least ({where}): {short} short, however little it is asked"
        )


def floor_of(fleet: Fleet, refusals: Iterable[Refusal]) -> Floor | None:
    """The lowest floor that refused a way; None where none was refused so."""
    found = []
    for one in refusals:
        said = _SAID.fullmatch(one.reason)
        if said is not None:
            asked, least = (parse_seconds(said[word]) for word in ("asked", "least"))
            card = fleet.gpus[one.offer].gpu.name
            found.append(
                Floor(said["target"], asked, said["what"], least, card, one.format, one.tensor_parallel_size)
            )
    return min(found, key=lambda one: one.least_s / one.asked_s, default=None)


def is_too_slow(refusals: Iterable[Refusal]) -> bool:
    """Whether a way was refused for its SLO."""
    return any(_SAID.fullmatch(one.reason) or _ABOVE.match(one.reason) for one in refusals)


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
