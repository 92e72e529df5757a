"""Plans that users name, with the fleets that they were made for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.plan import Plan
from cotenant.domain.workload import Trace
from cotenant.errors import FormatError, InputError

_MOST_BYTES = 64 * 2**20


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


def plan_and_fleet(
    source: object,
    *,
    load_model: Callable[[object], LoadedModel] | None = None,
    load_trace: Callable[[str], Trace] | None = None,
) -> tuple[Plan, Fleet] | None:
    """A plan and the fleet that it was made for, which its document holds; None where `source` is no plan. Both
    together, as a tuple, are themselves.

    Files that the fleet names are looked for beside the plan's own, unless `load_model` and `load_trace` open what
    it names. Raises InputErrors for a plan that its fleet
    does not ask for, InputError for one without a fleet.
    """
    if isinstance(source, tuple):  # both, opened already
        return source
    read = _read(source)
    return None if read is None else _with_fleet(read, source, load_model, load_trace)


def plan_and_wishes(source: object) -> tuple[Plan, tuple[ModelRequest, ...], str] | None:
    """A plan, the requests of the fleet that its document holds, and why these are not known where it holds one
    that cannot be opened here (its models may be elsewhere). None where `source` is no plan."""
    read = _read(source)
    if read is None:
        return None
    if read[1].get("fleet") is None:
        return read[0], (), ""
    try:
        plan, fleet = _with_fleet(read, source)
    except InputError as error:
        return read[0], (), error.faults()[0].message
    return plan, fleet.models, ""


def _read(source: object) -> tuple[Plan, Mapping[str, Any]] | None:
    """(the plan, its document)."""
    from cotenant.readers.plan_document import read_plan

    document: Any = _json_at(source) if isinstance(source, (str, os.PathLike)) else source
    if isinstance(document, Plan):
        return document, {"fleet": document.fleet}
    return (read_plan(document), document) if _is_plan(document) else None


def _with_fleet(
    read: tuple[Plan, Mapping[str, Any]],
    source: object,
    load_model: Callable[[object], LoadedModel] | None = None,
    load_trace: Callable[[str], Trace] | None = None,
) -> tuple[Plan, Fleet]:
    from cotenant.edge.models import open_model
    from cotenant.edge.own_gpus import own_gpus
    from cotenant.edge.traces import trace_opener
    from cotenant.planning.adopted import adopted
    from cotenant.planning.folding import folded_as
    from cotenant.readers.fleet import fleet_from
    from cotenant.readers.input_hash import input_hash

    plan, document = read
    fleet, stated = document.get("fleet"), plan.input_hash
    if not isinstance(fleet, Mapping):
        raise InputError(
            "this plan does not hold the fleet that it was made for, and so no traffic to replay",
            hint="make it anew (cotenant plan FLEET -o plan.json), or give the fleet file",
        )
    if stated and input_hash(fleet) != stated:
        raise InputError(
            "the plan's fleet is not the one that it was made for",
            hint="cotenant plan FLEET -o plan.json writes both",
        )
    question = fleet_from(
        fleet,
        load_model=load_model or open_model,
        load_trace=load_trace or trace_opener(source if isinstance(source, (str, os.PathLike)) else None),
        extra=own_gpus(),
    )
    question = folded_as(question, plan)
    return adopted(plan, question, beside_bytes(document)), question


def beside_bytes(document: Mapping[str, Any]) -> dict[str, int]:
    """Of each replica what those before it hold; nothing where it is not a size."""
    replicas = [one for one in document.get("replicas", ()) if isinstance(one, Mapping)]
    sizes = {str(one.get("id")): one.get("beside_bytes") for one in replicas}
    return {name: size for name, size in sizes.items() if type(size) is int and 0 <= size < 2**60}


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
