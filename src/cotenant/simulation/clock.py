"""Which hours of the day a replay shows: one clock for all models whose traffic follows the hours.

Each at its own busiest hour would be a day that never comes: models that are never busy together would look as if
they were. Where models take turns by the hour, only a whole day shows how.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.workload import Traffic

DAY_S = 86_400.0
_MOST = 3_000  # requests up to which a whole day is shown unasked: about ten seconds


def one_clock(traffics: Sequence[Traffic]) -> bool:
    """Whether several follow the hours of one time zone."""
    zones = [one.timezone for one in traffics if one.by_hour]
    return len(zones) > 1 and len(set(zones)) == 1


def start_hour(traffics: Sequence[Traffic], *, whole_day: bool) -> int | None:
    """The hour at which all models start: that in which most are asked, of those the nearest to their busiest
    ones, or the first of a day; None where each follows a clock of its own (or none) and starts at its busiest."""
    if not one_clock(traffics):
        return None
    if whole_day:
        return 0
    weights = [one.by_hour for one in traffics if one.by_hour]
    busy = [
        (sum(one[hour] > 0 for one in weights), sum(one[hour] / max(one) for one in weights)) for hour in range(24)
    ]
    return busy.index(max(busy))


def shows_day(traffics: Sequence[Traffic], turns: bool) -> bool:
    """Whether a replay without a duration shows a whole day: turns by the hour, and not too many requests."""
    rates = [one.requests_per_second for one in traffics]
    if not turns or not one_clock(traffics) or any(rate is None for rate in rates):
        return False
    return sum(rate or 0.0 for rate in rates) * DAY_S <= _MOST


def silent(traffic: Traffic, start: int, span_s: float) -> bool:
    """Whether its hours say that nobody asks in `span_s` seconds from hour `start` on."""
    hours = range(start, start + min(24, int(span_s // 3600) + 1))
    return bool(traffic.by_hour) and all(traffic.by_hour[hour % 24] == 0 for hour in hours)
