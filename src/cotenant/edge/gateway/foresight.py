"""Models woken before their traffic comes, by the hours that the fleet gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cotenant.edge.gateway.core import Core
from cotenant.errors import InputError
from cotenant.policy.turns import is_expected
from cotenant.serving.from_plan import Hours

AHEAD = timedelta(minutes=5)
EVERY_S = 60.0


def expected(hours: Sequence[Hours], moment: datetime) -> list[str]:
    """Models whose traffic is above its day's mean `AHEAD` of a moment, by the clocks where it comes from."""
    soon = moment.astimezone(UTC) + AHEAD  # clocks are put forward and back: hours are added before they are read
    return [one.model for one in hours if is_expected(one.weights, soon.astimezone(ZoneInfo(one.timezone)).hour)]


def check_clocks(hours: Sequence[Hours]) -> None:
    """Raises InputError for a time zone that this machine does not know."""
    for one in hours:
        try:
            ZoneInfo(one.timezone)
        except (ValueError, OSError, ZoneInfoNotFoundError):
            raise InputError(f"{one.model}: no time zone {one.timezone!r} is known here") from None


async def foresee(core: Core) -> None:
    """Wake them, where there is room, again and again."""
    while True:
        await asyncio.sleep(EVERY_S)
        try:
            core.expect(expected(core.fleet.hours, datetime.now(UTC)))
        except Exception as error:
            core.log.fault("what is expected could not be read", error)
