"""What a fleet file means: known cards and engines, names that exist, pins within the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.mig import profiles_of, sliced
from cotenant.catalogue.strict import nearest
from cotenant.domain.fleet import GpuOffer
from cotenant.domain.gpu import GpuSpec
from cotenant.engines import find_engine
from cotenant.errors import CotenantError, InputError
from cotenant.readers.fleet_faults import MissingError
from cotenant.readers.fleet_schema import GpuEntry, ModelEntry
from cotenant.units import format_gib, parse_percent, plural


def placed(error: CotenantError, path: str) -> CotenantError:
    """The same refusal, standing at `path` (in front of the path that it may already have)."""
    for fault in error.faults():
        fault.path = path + fault.path.removeprefix("$")
    return error


def head_faults(value: Mapping[str, Any]) -> list[CotenantError]:
    """Faults of the fleet's own settings, structure apart."""
    faults: list[CotenantError] = []
    headroom, overflow = _share(value.get("headroom")), _share(value.get("kv_overflow"))
    if headroom is not None and headroom >= 1:
        faults.append(InputError("a headroom of 100% leaves nothing to use", hint="12%", path="$.headroom"))
    if overflow is not None and not 0 < overflow <= 0.5:
        hint = "1%; never overflowing would take the worst case, so write 0.1% for almost never"
        faults.append(InputError("kv_overflow must be above 0% and at most 50%", hint=hint, path="$.kv_overflow"))
    objective = value.get("objective")
    if isinstance(objective, list):
        faults += repeated(
            [str(item) for item in objective], "$.objective", "the objective {!r} stands here twice"
        )
    if isinstance(value.get("engine"), str):
        faults += engine_faults(value["engine"], "$.engine")
    return faults


def _share(value: object) -> float | None:
    try:
        return parse_percent(value)
    except InputError:
        return None


def engine_faults(engine: str, path: str) -> list[CotenantError]:
    """The fault of an engine or a version that no rule covers, if there is one."""
    try:
        find_engine(engine)
    except CotenantError as error:
        return [placed(error, path)]
    return []


def repeated(items: Sequence[str], path: str, message: str, suffix: str = "") -> list[CotenantError]:
    """A fault for each item that stood before."""
    faults: list[CotenantError] = []
    seen: set[str] = set()
    for i, item in enumerate(items):
        if item and item in seen:
            faults.append(InputError(message.format(item), path=f"{path}[{i}]{suffix}"))
        seen.add(item)
    return faults


def offers(
    entries: Sequence[GpuEntry | None], extra: tuple[GpuSpec, ...], faults: list[CotenantError]
) -> list[GpuOffer]:
    """The cards of the fleet; what is wrong with them goes into `faults`."""
    found: list[GpuOffer] = []
    for i, entry in enumerate(entries):
        if entry is None:
            continue
        path = f"$.gpus[{i}]"
        try:
            gpu = find_gpu(entry.type, extra)
        except CotenantError as error:
            faults.append(placed(error, f"{path}.type"))
            continue
        faults += _offer_faults(entry, gpu, path)
        whole = None
        if isinstance(entry.mig, str):
            try:
                whole, gpu = gpu, sliced(gpu, entry.mig)[0]
            except CotenantError as error:
                faults.append(placed(error, f"{path}.mig"))
                continue
        found.append(
            GpuOffer(
                gpu=gpu,
                count=entry.count,
                maximum=entry.max,
                price_per_hour=entry.price,
                node_size=entry.node.size,
                host_memory_bytes=entry.node.host_memory,
                used_bytes=entry.used,
                slice_of=whole,
                time_slices=entry.time_slices,
            )
        )
    return found


def _offer_faults(entry: GpuEntry, gpu: GpuSpec, path: str) -> list[CotenantError]:
    faults: list[CotenantError] = []
    if entry.count is not None and entry.max is not None:
        hint = "count is what you own, max what you may hire: write two entries for both"
        faults.append(InputError("`count` and `max` contradict each other", hint=hint, path=f"{path}.max"))
    if entry.count is None and entry.max is None and entry.price is None:
        hint = "count: 4 (cards that you own), or price: $1.29/h (cards for hire) with or without max"
        faults.append(MissingError(f"how many {gpu.name} are there?", hint=hint, path=path))
    if entry.price == 0:
        hint = "leave it out for cards that cost nothing more: beside cards with a price they count as free"
        faults.append(InputError(f"a price of $0/h for {gpu.name}", hint=hint, path=f"{path}.price"))
    if entry.used >= gpu.driver_bytes.high:
        held = f"{format_gib(entry.used)} used of {format_gib(gpu.driver_bytes.value)}"
        faults.append(InputError(f"{gpu.name} has nothing left: {held}", path=f"{path}.used"))
    if entry.mig is True:
        profiles = ", ".join(one.name for one in profiles_of(gpu))
        message = f"split into which slices of {gpu.name}?" if profiles else f"{gpu.name} has no MIG profiles"
        hint = profiles or "leave mig out; plan on whole cards and share them between replicas"
        faults.append(InputError(message, hint=hint, path=f"{path}.mig"))
    return faults


def placement_faults(
    models: Sequence[ModelEntry | None], gpus: Sequence[GpuEntry | None], names: Sequence[str]
) -> list[CotenantError]:
    """Faults between models and cards: names, pins, and who must stay apart. `names` has every model's name,
    "" where there is none."""
    faults = repeated(names, "$.models", "the name {!r} stands here twice", ".name")
    for i, model in enumerate(models):
        if model is None:
            continue
        path = f"$.models[{i}]"
        faults += _apart_faults(model, models, names, path)
        if model.pin is not None:
            faults += _pin_faults(model.pin.gpus, gpus, f"{path}.pin.gpus")
            faults += _too_few_pins(model, f"{path}.pin.gpus")
            faults += _crowded_pins(model, models, f"{path}.pin.gpus")
    return faults


def _too_few_pins(model: ModelEntry, path: str) -> list[CotenantError]:
    """Fewer cards than replicas: no card takes two replicas of one model."""
    pins = set(model.pin.gpus) if model.pin is not None else set()
    if model.replicas.min <= len(pins):
        return []
    cards = plural(len(pins), "pinned card")
    message = f"at least {model.replicas.min} replicas on {cards}: no card takes two of one model"
    return [InputError(message, hint=f"pin {model.replicas.min} cards, or lower replicas.min", path=path)]


def _crowded_pins(model: ModelEntry, models: Sequence[ModelEntry | None], path: str) -> list[CotenantError]:
    """Each card that it is pinned to belongs to another, pinned to that alone, with whom it cannot share."""
    pins = set(model.pin.gpus) if model.pin is not None else set()
    in_the_way: dict[int, str] = {}
    for other in models:
        if other is None or other is model or other.pin is None or len(set(other.pin.gpus)) != 1:
            continue
        apart = other.name in model.apart_from or model.name in other.apart_from
        if apart or _is_alone(model) or _is_alone(other):
            in_the_way[other.pin.gpus[0]] = other.name
    if not pins or not pins <= in_the_way.keys():
        return []
    named = ", ".join(f"{in_the_way[card]!r} on card {card}" for card in sorted(pins))
    message = f"{model.name!r} cannot share with {named}, and is pinned to nothing else"
    if len(pins) == 1 and model.apart_from:
        return []  # told where apart_from stands
    return [InputError(message, hint="pin one of them elsewhere, or let them share", path=path)]


def _is_alone(model: ModelEntry) -> bool:
    return model.sharing is not None and "co-resident" not in model.sharing and "sleep" not in model.sharing


def _apart_faults(
    model: ModelEntry, models: Sequence[ModelEntry | None], names: Sequence[str], path: str
) -> list[CotenantError]:
    faults = repeated(model.apart_from, f"{path}.apart_from", "{!r} stands here twice")
    others = {other.name: other for other in models if other is not None and other.name != model.name}
    for j, name in enumerate(model.apart_from):
        at = f"{path}.apart_from[{j}]"
        if name == model.name:
            faults.append(InputError(f"{name!r} cannot be apart from itself", path=at))
        elif name in others:
            faults += _same_pin(model, others[name], at)
        elif name not in names:
            hint = nearest(name, [other for other in names if other not in ("", model.name)])
            faults.append(InputError(f"no model is called {name!r}", hint=hint, path=at))
    return faults


def _same_pin(model: ModelEntry, other: ModelEntry, path: str) -> list[CotenantError]:
    pins = (model.pin, other.pin)
    if all(pin is not None and len(pin.gpus) == 1 for pin in pins) and pins[0] == pins[1]:
        return [InputError(f"{model.name!r} and {other.name!r} are apart but pinned to one card", path=path)]
    return []


def _pin_faults(pins: Sequence[int], gpus: Sequence[GpuEntry | None], path: str) -> list[CotenantError]:
    faults = repeated([str(pin) for pin in pins], path, "card {} stands here twice")
    if any(gpu is None for gpu in gpus):
        return faults  # the entry is broken
    cards = sum(gpu.count or 0 for gpu in gpus if gpu is not None)
    for j, pin in enumerate(pins):
        if pin >= cards:
            message = f"there is no card {pin}: the fleet owns {cards}"
            hint = (
                f"owned cards are counted from 0 over the entries with a count: 0 to {cards - 1}"
                if cards
                else "pins name owned cards (count); hired ones come and go"
            )
            faults.append(InputError(message, hint=hint, path=f"{path}[{j}]"))
    return faults
