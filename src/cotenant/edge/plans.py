"""Plans that users name: read where a plan is asked for, refused where a fleet is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cotenant.domain.plan import Plan
from cotenant.errors import CotenantError, FormatError, InputError

_MOST_BYTES = 64 * 2**20


def refuse_plan(source: object) -> None:
    """Raises InputError where `source` is a plan's JSON: it says who runs where, but not what traffic comes."""
    document: object = source
    if isinstance(source, (str, Path)) and str(source).endswith(".json"):
        with suppress(CotenantError):
            document = _json_at(source)
    if _is_plan(document):
        raise InputError(
            "this is a plan, and a plan does not hold the traffic to replay",
            hint="give the fleet file that it was made from; the same plan follows from it",
        )


def given_plan(source: object) -> Plan | None:
    """The plan that `source` is (itself, a mapping, a path, ``-`` for standard input); None where it is no plan.

    Raises InputErrors with every fault of a plan, InputError for a file that cannot be read.
    """
    from cotenant.readers.plan_document import read_plan

    if isinstance(source, Plan):
        return source
    document: object = source
    if isinstance(source, (str, os.PathLike)):
        document = _json_at(source)
    return read_plan(document) if _is_plan(document) and isinstance(document, Mapping) else None


def _is_plan(document: object) -> bool:
    return isinstance(document, Mapping) and str(document.get("schema", "")).startswith("cotenant/plan/")


def _json_at(path: str | os.PathLike[str]) -> Any:
    """The JSON there; None where what stands there does not look like JSON."""
    from cotenant.readers.json_text import parse_json

    data = _bytes_at(path)
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        if os.fspath(path) == "-":
            raise FormatError(
                "standard input is no plan", hint="cotenant plan FLEET --json | cotenant deploy - ..."
            )
        return None
    return parse_json(data, what=os.fspath(path), path=os.fspath(path))


def _bytes_at(path: str | os.PathLike[str]) -> bytes:
    try:
        if os.fspath(path) == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            place = Path(path).expanduser()
            if not place.is_file():
                reason = "no such file" if not place.exists() else "not a file"
                raise InputError(f"cannot read {os.fspath(path)}: {reason}")
            with place.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"cannot read {os.fspath(path)}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > _MOST_BYTES:
        raise FormatError(f"{os.fspath(path)} has more than {_MOST_BYTES:,} bytes")
    return data
