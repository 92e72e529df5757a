"""When requests come: whole nanoseconds from 0 up to a duration, each process from its own stream of draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cotenant.errors import InputError
from cotenant.simulation.costs import NS_PER_S
from cotenant.simulation.draws import Draws

MOST_REQUESTS = 5_000_000


def poisson(rate: float, duration_s: float, draws: Draws) -> list[int]:
    """Independent arrivals, `rate` a second."""
    return _until(duration_s, rate, (draws.exponential() / rate for _ in _endless()))


def gamma(rate: float, duration_s: float, draws: Draws, *, variation: float) -> list[int]:
    """Gaps from a gamma distribution with standard deviation / mean = `variation`: bursty above 1, even below."""
    if variation <= 0:
        raise InputError(f"the variation of gaps must be above zero, not {variation}")
    shape = 1 / variation**2
    return _until(duration_s, rate, (draws.gamma(shape) / shape / rate for _ in _endless()))


def on_off(rate: float, duration_s: float, draws: Draws, *, on_s: float, off_s: float) -> list[int]:
    """Poisson at `rate` in spells of mean `on_s`, nothing in spells of mean `off_s`; both exponential."""
    if on_s <= 0 or off_s < 0:
        raise InputError("spells need a mean above zero")
    spells = duration_s / (on_s + off_s)
    if spells > MOST_REQUESTS:
        raise InputError(f"{spells:,.0f} spells are more than {MOST_REQUESTS:,}", hint="write longer spells")
    mean = rate * on_s / (on_s + off_s)
    return _until(duration_s, mean, _gaps_on_off(rate, draws, on_s, off_s, duration_s))


def by_hour(
    rate: float, weights: Sequence[float], duration_s: float, draws: Draws, *, start_hour: int = 0
) -> list[int]:
    """Poisson whose rate follows 24 weights of mean `rate`, from `start_hour` on: thinning of the busiest hour."""
    if not weights or min(weights) < 0 or sum(weights) <= 0:
        raise InputError("by_hour needs weights that are not negative, and one above zero")
    peak = max(weights)
    fastest = rate * peak * len(weights) / sum(weights)
    if fastest * duration_s > MOST_REQUESTS:
        raise InputError(
            f"{fastest:,.4g} requests/s in the busiest hour are too many to draw for {duration_s:,.0f} s",
            hint="simulate a shorter time",
        )
    found = []
    for arrival in poisson(fastest, duration_s, draws):
        hour = (start_hour + arrival // (3600 * NS_PER_S)) % len(weights)
        if draws.uniform() * peak < weights[hour]:
            found.append(arrival)
    return found


def _gaps_on_off(rate: float, draws: Draws, on_s: float, off_s: float, most_s: float) -> Iterator[float]:
    """Gaps as they come: an exponential gap that outlasts its spell goes on after the pause.

    No gap beyond `most_s` is followed to its end, else rates of next to nothing would be followed for years.
    """
    left = draws.exponential() * on_s
    while True:
        gap = draws.exponential() / rate
        pause = 0.0
        while gap > left and pause < most_s:
            gap -= left
            pause += left + draws.exponential() * off_s
            left = draws.exponential() * on_s
        left -= gap
        yield pause + gap


def _until(duration_s: float, rate: float, gaps: Iterator[float]) -> list[int]:
    """Arrivals up to `duration_s`. Raises InputError for rates and durations that make no or too many requests."""
    if not (rate > 0 and duration_s > 0):
        raise InputError("a rate and a duration above zero are needed")
    if rate * duration_s > MOST_REQUESTS:
        raise InputError(
            f"{rate * duration_s:,.0f} requests are more than {MOST_REQUESTS:,}", hint="simulate a shorter time"
        )
    end, now = round(duration_s * NS_PER_S), 0
    found: list[int] = []
    for gap in gaps:
        now += round(gap * NS_PER_S)
        if now >= end:
            return found
        found.append(now)
    return found


def _endless() -> Iterator[None]:
    while True:
        yield None
