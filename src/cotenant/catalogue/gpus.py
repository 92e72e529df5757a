"""The catalogue of cards: `gpus.json` read strictly, and the cards and prices that a user adds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from cotenant.catalogue.gpu_names import pick
from cotenant.catalogue.gpu_sizes import Sizes, completed
from cotenant.catalogue.strict import Row, raise_faults
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.errors import CotenantError, InputError
from cotenant.units import GIB, MIB, parse_price

PRECISIONS = ("fp16", "bf16", "int8", "fp8", "fp4")
KEYS = (
    "name", "vendor", "architecture", "aliases", "marketed_gb", "driver_mib", "cuda_gib", "memory_bandwidth_gbs",
    "dense_tflops", "compute_capability", "link_gbs_bidirectional", "link", "host_link_gbs", "tdp_w", "price",
    "sources",
)  # fmt: skip
_PRINTED = round(0.005 * GIB)  # logs print GiB with two decimals
_EMPTY = Interval.exact(0)


class _Read(NamedTuple):
    """One row as it stands in the file; `raw` keeps it for users who change a part of it."""

    raw: Mapping[str, Any]
    spec: GpuSpec  # its two capacities still empty
    sizes: Sizes


def all_gpus() -> tuple[GpuSpec, ...]:
    """Every card of the catalogue, in the file's order (by vendor and age)."""
    return _catalogue()[0]


def find_gpu(name: str, extra: tuple[GpuSpec, ...] = ()) -> GpuSpec:
    """The card called `name` by its catalogue name or an alias; cards in `extra` stand before the catalogue's.

    Case, spaces, dashes, underscores and the order of the words do not matter. Raises UnknownGpuError naming the
    nearest when no card or more than one answers to it.
    """
    if not extra:
        return _found(name)
    own = {gpu.name for gpu in extra}
    return pick(name, (*extra, *(gpu for gpu in all_gpus() if gpu.name not in own)))


def gpus_from(value: object) -> tuple[GpuSpec, ...]:
    """Cards from a user's list (or ``{gpus: [...]}``) with the keys of gpus.json, most of them optional.

    A row with the name of a catalogue card changes only the keys that it gives, so name and price are enough.
    `price` may be ``$1.29/h``. Raises InputErrors with the path of every fault.
    """
    path = "$"
    if isinstance(value, Mapping) and set(value) == {"gpus"}:
        value, path = value["gpus"], "$.gpus"
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise InputError("cards are a list", hint="gpus: [{name: ..., driver_mib: ...}]", path=path)
    _, known, measured = _catalogue()
    rows = [{**known.get(_name(row), {}), **row} if isinstance(row, Mapping) else row for row in value]
    return tuple(_with_sizes(card, measured) for card in _read_all(rows, path))


@lru_cache(maxsize=256)
def _found(name: str) -> GpuSpec:
    return pick(name, all_gpus())


@lru_cache(maxsize=1)
def _catalogue() -> tuple[tuple[GpuSpec, ...], Mapping[str, Mapping[str, Any]], tuple[Sizes, ...]]:
    """(cards, raw rows by name, sizes of the measured cards)."""
    text = files("cotenant.catalogue").joinpath("gpus.json").read_text(encoding="utf-8")
    read = _read_all(json.loads(text), "$")
    measured = tuple(c.sizes for c in read if c.sizes.cuda_measured and c.sizes.driver is not None)
    return tuple(_with_sizes(card, measured) for card in read), {_name(c.raw): c.raw for c in read}, measured


def _name(row: Mapping[str, Any]) -> str:
    name = row.get("name")
    return name if isinstance(name, str) else ""


def _read_all(rows: Sequence[object], path: str) -> list[_Read]:
    faults: list[CotenantError] = []
    read = [_read(Row(row, f"{path}[{i}]", faults, KEYS)) for i, row in enumerate(rows)]
    names = [_name(card.raw).lower() for card in read]
    for i, name in enumerate(names):
        if name in names[:i]:
            faults.append(InputError(f"the card {name!r} stands here twice", path=f"{path}[{i}].name"))
    raise_faults(faults)
    return read


def _read(row: Row) -> _Read:
    marketed = row.number_or_none("marketed_gb", low=0.1, high=1e5)
    driver = row.number_or_none("driver_mib", low=1, high=1e8)
    cuda, measured = _cuda(row)
    if row.values and driver is None and cuda is None and marketed is None:
        row.note("needs driver_mib, cuda_gib or marketed_gb", None)
    sizes = Sizes(
        vendor=row.text("vendor", "NVIDIA"),
        architecture=row.text("architecture", ""),
        marketed=round(marketed * GIB) if marketed else None,
        driver=Interval.exact(round(driver * MIB)) if driver else None,
        cuda=cuda,
        cuda_measured=measured,
    )
    return _Read(row.values, _spec(row, sizes), sizes)


def _with_sizes(card: _Read, measured: Sequence[Sizes]) -> GpuSpec:
    driver, cuda = completed(card.sizes, measured)
    return replace(card.spec, driver_bytes=driver, cuda_bytes=cuda)


def _cuda(row: Row) -> tuple[Interval | None, bool]:
    if not row.has("cuda_gib"):
        return None, False
    figures = row.row("cuda_gib", ("low", "high", "measured", "source"))
    low, high = (round(figures.number(key, low=0.1, high=1e5) * GIB) for key in ("low", "high"))
    if low > high:
        figures.note("must not be below `low`", figures.values.get("high"), "high")
        return None, False
    return Interval(low - _PRINTED, (low + high) // 2, high + _PRINTED), figures.flag("measured")


def _spec(row: Row, sizes: Sizes) -> GpuSpec:
    peaks = row.row("dense_tflops", PRECISIONS) if row.has("dense_tflops") else Row({}, "", [], ())
    tera = {precision: peaks.number_or_none(precision) for precision in PRECISIONS}
    capability, gfx = _capability(row)
    price, price_source = _price(row)
    sources = row.values.get("sources")
    return GpuSpec(
        name=row.text("name"),
        vendor=sizes.vendor,
        architecture=sizes.architecture,
        driver_bytes=_EMPTY,
        cuda_bytes=_EMPTY,
        cuda_measured=sizes.cuda_measured,
        memory_bandwidth=row.number("memory_bandwidth_gbs", low=1, high=1e6) * 1e9,
        peak_flops={precision: value * 1e12 for precision, value in tera.items() if value},
        compute_capability=capability,
        gfx=gfx,
        link_bandwidth=_giga(row, "link_gbs_bidirectional"),
        host_bandwidth=_giga(row, "host_link_gbs"),
        price_per_hour=price,
        price_source=price_source,
        aliases=row.texts("aliases"),
        sources={str(k): str(v) for k, v in sources.items()} if isinstance(sources, Mapping) else None,
    )


def _giga(row: Row, key: str) -> float | None:
    value = row.number_or_none(key, high=1e6)
    return value * 1e9 if value is not None else None


def _capability(row: Row) -> tuple[tuple[int, int] | None, str | None]:
    """(compute capability, gfx name): NVIDIA's ``8.0`` or AMD's ``gfx942``."""
    if not row.has("compute_capability"):
        return None, None
    text = row.text("compute_capability")
    major, _, minor = text.partition(".")
    if text.startswith("gfx") and text.isalnum():
        return None, text
    if major.isdecimal() and minor.isdecimal() and len(text) <= 6:
        return (int(major), int(minor)), None
    row.note("must be a compute capability such as '8.0' or 'gfx942'", text, "compute_capability")
    return None, None


def _price(row: Row) -> tuple[float | None, str]:
    if not row.has("price"):
        return None, ""
    if isinstance(row.values["price"], str):
        try:
            return parse_price(row.values["price"]), "the user's own"
        except InputError as error:
            row.faults.append(InputError(error.message, hint=error.hint, path=f"{row.path}.price"))
            return None, ""
    price = row.row("price", ("usd_per_hour", "date", "source"))
    return price.number("usd_per_hour", high=1e5), f"{price.text('source')} ({price.text('date')})"
