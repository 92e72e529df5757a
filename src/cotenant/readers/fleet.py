"""A fleet file (YAML or JSON) -> `Fleet`: every fault at once, each with its JSON path.

The keys are those of docs/fleet-file.md. Structure is checked by `fleet_schema`, meaning by `fleet_checks` and
`fleet_models`; parts with a sound structure are checked for meaning even where other parts are broken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from cotenant.domain.fleet import Fleet
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.workload import Trace
from cotenant.errors import CotenantError, FormatError, InputError, InputErrors
from cotenant.readers.fleet_faults import MissingError
from cotenant.readers.foreign import refuse_foreign, refuse_foreign_text
from cotenant.readers.input_hash import input_hash
from cotenant.readers.yaml_text import Document, read_document

if TYPE_CHECKING:
    from cotenant.readers.fleet_schema import GpuEntry, ModelEntry

LoadModel = Callable[[object], LoadedModel]
LoadTrace = Callable[[str], Trace]
_TOP = re.compile(r"\$\.([A-Za-z_][A-Za-z0-9_-]*)")
_PARTS = re.compile(r"([0-9]+)")
_COUNTS = re.compile(r"\$\.gpus(\[[0-9]+\](\.count)?)?")
_MOST_FAULTS = 200
_ROUNDS = 3  # what is left of a part without its broken value may lack that value, and goes too
_STAND_INS: Mapping[str, Any] = {
    "name": "nameless",
    "model": "?",
    "traffic": {"concurrent": 1, "context_tokens": {"p95": 1}},
}
"""For what a model must say and does not, so that the rest of it is looked at all the same."""
_HINT = "a fleet file has `gpus:` and `models:`"


def read_fleet(
    text: str, *, load_model: LoadModel, load_trace: LoadTrace, path: str = "", extra: tuple[GpuSpec, ...] = ()
) -> Fleet:
    """The fleet that `text` describes; `extra` cards stand before the catalogue's.

    `load_model` gets what stands at `model:` (text or a mapping of raw figures), `load_trace` the file named at
    `trace:`. Raises FormatError where the text cannot be read and InputErrors with every fault otherwise.
    """
    refuse_foreign_text(text, "a fleet", path=path)
    return _fleet(read_document(text, path=path), load_model, load_trace, extra, path)


def fleet_from(
    value: Mapping[str, Any], *, load_model: LoadModel, load_trace: LoadTrace, extra: tuple[GpuSpec, ...] = ()
) -> Fleet:
    """The same from a mapping of plain values."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"a fleet must be made of plain values: {error}") from None
    return _fleet(read_document(text, path="the fleet.json"), load_model, load_trace, extra)


def fleet_json_schema() -> dict[str, Any]:
    """The JSON Schema of the fleet file, for editors."""
    from cotenant.readers.fleet_schema import published

    return published()


def _fleet(
    document: Document, load_model: LoadModel, load_trace: LoadTrace, extra: tuple[GpuSpec, ...], path: str = ""
) -> Fleet:
    from cotenant.readers.fleet_checks import head_faults, offers, placement_faults
    from cotenant.readers.fleet_errors import structural_faults
    from cotenant.readers.fleet_models import requests
    from cotenant.readers.fleet_schema import FleetFile, GpuEntry, ModelEntry

    value = document.value
    if not isinstance(value, dict):
        raise InputError("a fleet file is a mapping", hint=_HINT, path="$")
    refuse_foreign(value, "a fleet", path=path)
    structural: list[CotenantError] = [*document.faults, *structural_faults(FleetFile, value)]
    gpu_entries: list[GpuEntry | None] = _sound(GpuEntry, value.get("gpus"), {})
    model_entries: list[ModelEntry | None] = _sound(ModelEntry, value.get("models"), _STAND_INS)
    faults = head_faults(value)
    gpus = offers(gpu_entries, extra, faults)
    engine = value.get("engine", "vllm")
    models = requests(model_entries, engine if isinstance(engine, str) else "vllm", load_model, load_trace, faults)
    counted = [None] if _uncounted(structural) else gpu_entries
    faults += placement_faults(model_entries, counted, _names(value.get("models")))
    _raise(structural, faults, value)
    head = FleetFile.model_validate(value)
    return Fleet(
        gpus=tuple(gpus),
        models=tuple(models),
        headroom=head.headroom,
        kv_overflow=head.kv_overflow,
        objective=tuple(head.objective),
        spare=head.spare,
        input_hash=input_hash(value),
        source=value,
    )


def _uncounted(structural: Sequence[CotenantError]) -> bool:
    """Whether it is unknown how many cards there are, so that nobody can say which numbers name one."""
    return any(_COUNTS.fullmatch(fault.path) for fault in structural)


def _sound(entry: Any, items: object, stand_ins: Mapping[str, Any]) -> list[Any]:
    """Each of `items` as an `entry`, without the values whose structure is broken and with `stand_ins` for those
    that are missing (both are reported elsewhere); None where nothing can be made of it."""
    return [_salvaged(entry, item, stand_ins) for item in items] if isinstance(items, list) else []


def _salvaged(entry: Any, item: object, stand_ins: Mapping[str, Any]) -> Any:
    from pydantic import ValidationError

    rest = deepcopy(item)
    for _ in range(_ROUNDS):
        try:
            return entry.model_validate({**stand_ins, **rest} if isinstance(rest, dict) else rest)
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_input=False):
                _drop(rest, fault["loc"][:-1] if fault["type"] == "missing" else fault["loc"])
    return None


def _drop(item: object, loc: tuple[int | str, ...]) -> None:
    """Take the value at `loc` out of `item`; from a list on the way, the whole list goes."""
    keys = list(takewhile(lambda step: isinstance(step, str), loc))
    for key in keys[:-1]:
        item = item.get(key) if isinstance(item, dict) else None
    if keys and isinstance(item, dict):
        item.pop(keys[-1], None)


def _names(models: object) -> list[str]:
    items = models if isinstance(models, list) else []
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    return [name if isinstance(name, str) else "" for name in names]


def _raise(structural: list[CotenantError], faults: list[CotenantError], value: Mapping[str, Any]) -> None:
    """Raise all faults in the file's order. A fault of meaning at a broken value, or one that misses something
    above it, is an echo of that."""
    broken = {fault.path for fault in structural}
    above = {path[:end] for path in broken for end in _ends(path)}
    meant = [fault for each in faults for fault in each.faults()]
    kept = structural + [
        fault for fault in meant if fault.path not in (above if isinstance(fault, MissingError) else broken)
    ]
    if not kept:
        return
    kept.sort(key=_order(value))
    if len(kept) > _MOST_FAULTS:
        kept = [*kept[:_MOST_FAULTS], InputError(f"and {len(kept) - _MOST_FAULTS:,} more faults", path="$")]
    raise InputErrors(kept)


def _ends(path: str) -> list[int]:
    return [match.start() for match in re.finditer(r"[.\[]", path)] + [len(path)]


def _order(value: Mapping[str, Any]) -> Callable[[CotenantError], tuple[object, ...]]:
    """Sorts faults as the file reads: by its own top-level keys, then by index and key."""
    position = {key: number for number, key in enumerate(value)}

    def key(fault: CotenantError) -> tuple[object, ...]:
        top = _TOP.match(fault.path)
        natural = tuple((len(part), part) if part.isdecimal() else (0, part) for part in _PARTS.split(fault.path))
        return (position.get(top.group(1) if top else "", len(position)), natural)

    return key
