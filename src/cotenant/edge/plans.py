"""Plans where a fleet is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cotenant.errors import InputError

_MOST_BYTES = 64 * 2**20


def refuse_plan(source: object) -> None:
    """Raises InputError where `source` is a plan's JSON: it says who runs where, but not what traffic comes."""
    document: object = source
    if isinstance(source, (str, Path)) and str(source).endswith(".json"):
        with suppress(OSError, ValueError, RecursionError):
            place = Path(source)
            if place.stat().st_size <= _MOST_BYTES:
                document = json.loads(place.read_text(encoding="utf-8"))
    if isinstance(document, Mapping) and str(document.get("schema", "")).startswith("cotenant/plan/"):
        raise InputError(
            "this is a plan, and a plan does not hold the traffic to replay",
            hint="give the fleet file that it was made from; the same plan follows from it",
        )
