"""Points and readings as plain values for a journal, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from cotenant.domain.verification import Point, Reading
from cotenant.errors import FormatError


def reading_record(reading: Reading) -> dict[str, Any]:
    """As a mapping of its fields."""
    return asdict(reading)


def reading_from(record: Any) -> Reading:
    """Raises FormatError for what is no reading."""
    return Reading(**_known(Reading, record))


def point_record(point: Point) -> dict[str, Any]:
    """As a mapping of its fields."""
    return asdict(point)


def point_from(record: Any) -> Point:
    """Raises FormatError for what is no point."""
    given = _known(Point, record)
    peak = given.get("peak")
    given["peak"] = None if peak is None else reading_from(peak)
    for name in ("ttft_s", "tpot_s"):
        pair = given.get(name)
        if pair is not None and not (isinstance(pair, (list, tuple)) and len(pair) == 2):
            raise FormatError(f"a journal's {name} must be two times")
        given[name] = None if pair is None else (float(pair[0]), float(pair[1]))
    return Point(**given)


def _known(kind: type[Reading] | type[Point], record: Any) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    if not isinstance(record, Mapping) or not set(record) <= names:
        raise FormatError("what stands in the journal was not written by this version", hint="begin anew: --fresh")
    required = {one.name for one in fields(kind)} if kind is Point else {"at_s"}
    if required - set(record):
        raise FormatError("a step in the journal lacks a figure", hint="begin anew: --fresh")
    return dict(record)
