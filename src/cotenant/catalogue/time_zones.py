"""Names of time zones, as the IANA database has them."""

from __future__ import annotations

from cotenant.catalogue.strict import nearest
from cotenant.errors import InputError


def check_zone(name: str) -> str:
    """The name of a time zone, unchanged. Raises InputError, with the nearest, for one that the machine's database
    does not know; where there is no database, any name is taken."""
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(name)
    except (OSError, ValueError):  # ZoneInfo's own error is a KeyError; these are of files in the way
        pass
    except KeyError:
        if not available_timezones():
            return name
    else:
        return name
    by_lower_case = {zone.lower(): zone for zone in available_timezones()}
    hint = nearest(name, by_lower_case)
    for lower, zone in by_lower_case.items():
        hint = hint.replace(repr(lower), repr(zone))
    raise InputError(f"no time zone is called {name!r}", hint=hint or "such as UTC or Europe/Berlin")
