"""The catalogue of weight formats: bytes by role, which engine runs them on what, what they cost in quality.

Read strictly from quantization.json, part by part and only when asked. Roles that a format does not shrink keep
the model's own type: by default everything but attention, MLP and expert matrices, since checkpoint recipes leave
embeddings, heads, norms, routers, towers and recurrent mixers alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeVar

from cotenant.catalogue.gguf_mixes import largest_bits, mix_storage
from cotenant.catalogue.strict import Row, nearest, raise_faults
from cotenant.domain.engine import Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import Role
from cotenant.domain.quantization import (
    KernelSupport,
    QualityFigure,
    QuantizationFormat,
    Speed,
    SpeedFigure,
)
from cotenant.domain.storage import Storage
from cotenant.errors import CotenantError, InputError

FORMAT_KEYS = (
    "name", "title", "aliases", "family", "weight_bits", "group_size", "scale_bits", "zero_bits", "input_bits",
    "tensor_bits", "block", "second_scale", "scale_granularity", "activation", "unquantized_roles", "by_role",
    "gguf_mix", "kv_cache_dtypes", "notes", "source",
)  # fmt: skip
SUPPORT_KEYS = (
    "engine", "format", "kernel", "speed", "min_compute_capability", "max_compute_capability", "architectures",
    "since_version", "until_version", "note", "source",
)  # fmt: skip
QUALITY_KEYS = ("format", "model", "task", "metric", "baseline", "value", "loss_percent", "source", "note")
SPEED_KEYS = (
    "format", "kernel", "engine", "model", "gpu", "metric", "value", "baseline", "ratio", "source", "note"
)  # fmt: skip

_SHRUNK = (Role.ATTENTION, Role.MLP, Role.EXPERT)
_FASTEST = (Speed.FAST, Speed.WORKS, Speed.SLOW)
# What --quantization must say where the engine makes the format itself from 16-bit weights.
_ENGINE_FLAGS = {"fp8": "fp8", "bnb-nf4": "bitsandbytes", "bnb-int8": "bitsandbytes"}
_T = TypeVar("_T")


@lru_cache(maxsize=1)
def all_formats() -> tuple[QuantizationFormat, ...]:
    """Every format, in the file's order. BF16 and FP16 store nothing of their own: the model's tensors as such."""
    raw = _raw()
    plain: dict[str, Mapping[Role, Storage]] = {}

    def read(row: Row) -> QuantizationFormat:
        storage = _storage(row, plain)
        found = _format(row, storage)
        plain[found.name] = storage
        return found

    return _rows(raw, "formats", FORMAT_KEYS, read)


def find_format(name: str) -> QuantizationFormat:
    """The format called `name` by its own name or an alias; case, spaces, dashes and underscores do not matter.

    Raises InputError naming the nearest.
    """
    if not isinstance(name, str):
        raise InputError(f"a format is named by text such as fp8, not {type(name).__name__}")
    found = _by_name().get(_letters(name)) or _gguf_type(name)
    if found is None:
        hint = (
            nearest(name[:60], [item.name for item in all_formats()])
            or "`cotenant quantize MODEL --gpu GPU` lists the formats"
        )
        raise InputError(f"unknown format {name[:60]!r}", hint=hint)
    return found


def kernel(engine: str, format: str, gpu: GpuSpec, version: Version | None = None) -> KernelSupport | None:  # noqa: A002
    """The fastest kernel of `engine` (its id) that runs `format` (its name) on that card; None where none does.

    Without a version, the newest that the rows know of.
    """
    engine = _KERNELS_OF.get(engine, engine)
    known = _support().get((engine, format)) or (
        _support().get((engine, _ANY_GGUF), ()) if format.startswith("gguf-") else ()
    )
    rows = [row for row in known if _on_card(row, gpu) and _in_version(row, version)]
    return min(rows, key=lambda row: _FASTEST.index(row.speed), default=None)


@lru_cache(maxsize=512)
def quality(format: str, task: str = "") -> tuple[QualityFigure, ...]:  # noqa: A002
    """The published losses of `format`, of one task or ("") of all."""
    return tuple(figure for figure in _quality() if figure.format == format and task in ("", figure.task))


@lru_cache(maxsize=1)
def speed_figures() -> tuple[SpeedFigure, ...]:
    """Every published speed."""
    return _rows(_raw(), "speed", SPEED_KEYS, _speed_figure)


_KERNELS_OF = {"ollama": "llama.cpp"}  # an engine that runs another's kernels
_ANY_GGUF = "gguf-q8_0"  # whose kernels serve every block type of the GGUF family


# What llama.cpp's own help prints for mixes whose rules stand in no table here (tools/quantize/quantize.cpp).
_GGUF_BITS: Mapping[str, float] = {
    "IQ2_M": 2.7, "IQ3_XS": 3.3, "Q4_0_4_4": 4.5, "Q4_0_4_8": 4.5, "Q4_0_8_8": 4.5,
}  # fmt: skip
_MATRICES = (Role.EMBEDDING, Role.HEAD, Role.ATTENTION, Role.MLP, Role.EXPERT, Role.STATE)


@lru_cache(maxsize=64)
def _gguf_type(name: str) -> QuantizationFormat | None:
    """A GGUF file of a mix or of one block type that no format is named after: ``gguf-q4_k_s``, ``gguf-q4_1``. A
    file at hand says its exact bytes itself."""
    if not name.lower().startswith("gguf-"):
        return None
    wanted = name[len("gguf-") :].upper()
    storage: Mapping[Role, Storage] | None = None
    if any(mix["name"] == wanted for mix in _raw()["gguf_mixes"]):
        storage = _gguf(wanted)
    else:
        types = {item["name"].upper(): 8 * item["bytes"] / item["block"] for item in _raw()["gguf_types"]}
        bits = _GGUF_BITS.get(wanted) or types.get(wanted) or types.get(wanted.removesuffix("_M"))
        if bits is not None:
            storage = dict.fromkeys(_MATRICES, Storage(bits)) | {Role.ROUTER: Storage(32)}
    return (
        None
        if storage is None
        else QuantizationFormat(f"gguf-{wanted.lower()}", f"GGUF {wanted}", storage, "bf16")
    )


def _letters(name: str) -> str:
    return name.lower().translate(str.maketrans("", "", " -_"))


@lru_cache(maxsize=1)
def _by_name() -> Mapping[str, QuantizationFormat]:
    """Names before aliases, so that an alias never hides a format."""
    aliases = {_letters(alias): item for item in all_formats() for alias in item.aliases}
    return aliases | {_letters(item.name): item for item in all_formats()}


@lru_cache(maxsize=1)
def _raw() -> Mapping[str, Any]:
    text = files("cotenant.catalogue").joinpath("quantization.json").read_text(encoding="utf-8")
    raw: Mapping[str, Any] = json.loads(text)
    return raw


def _rows(raw: Mapping[str, Any], part: str, keys: Iterable[str], read: Callable[[Row], _T]) -> tuple[_T, ...]:
    faults: list[CotenantError] = []
    known = tuple(keys)
    rows = tuple(read(Row(value, f"$.{part}[{i}]", faults, known)) for i, value in enumerate(raw[part]))
    raise_faults(faults)
    return rows


def _format(row: Row, storage: Mapping[Role, Storage]) -> QuantizationFormat:
    name = row.text("name")
    return QuantizationFormat(
        name=name,
        title=row.text("title"),
        storage=storage,
        activation=row.text("activation"),
        aliases=row.texts("aliases"),
        engine_flag=_ENGINE_FLAGS.get(name, ""),
        notes=row.text("notes", ""),
        source=row.text("source"),
    )


def _storage(row: Row, known: Mapping[str, Mapping[Role, Storage]]) -> Mapping[Role, Storage]:
    """Which storage each role gets; `known` holds the formats before this one, for mixed formats."""
    if row.has("gguf_mix"):
        return _gguf(row.text("gguf_mix"))
    if row.has("by_role"):
        return _mixed(row, known)
    if row.has("weight_bits") and row.text("family") == "float" and not row.has("scale_granularity"):
        bits = row.number("weight_bits", low=1, high=64)
        return {} if bits == 16 else {role: Storage(bits) for role in Role if role is not Role.NORM}
    storage = _one(row)
    kept = {*row.texts("unquantized_roles")}
    return {role: storage for role in _SHRUNK if role.value not in kept}


def _one(row: Row) -> Storage:
    """One storage for all matrices. A second scale (bitsandbytes: one for many groups) is spread over the bits."""
    bits = row.number("weight_bits", low=1, high=64)
    granularity = row.text("scale_granularity")
    group = {"channel": 0, "tensor": -1}.get(granularity, int(row.number_or_none("group_size", low=1) or -1))
    scale = int(row.number("scale_bits", high=64))
    if row.has("second_scale"):
        second = row.row("second_scale", ("bits", "groups"))
        bits += (scale + second.number("bits") / second.number("groups", low=1)) / group
        scale, group = 0, -1
    block = row.values.get("block")
    return Storage(
        bits=bits,
        group_size=group,
        scale_bits=scale,
        zero_bits=int(row.number("zero_bits", high=64)),
        input_bits=int(row.number("input_bits", high=64)),
        block=(int(block[0]), int(block[1])) if block else None,
        tensor_bits=int(row.number("tensor_bits", high=1e6)),
    )


def _mixed(row: Row, known: Mapping[str, Mapping[Role, Storage]]) -> Mapping[Role, Storage]:
    """Each role as the named format stores it; experts are MLPs."""
    named: Mapping[str, Any] = row.row("by_role", [role.value for role in Role]).values
    storage: dict[Role, Storage] = {}
    for role, name in named.items():
        if name not in known:
            row.note("must name a format above", name, f"by_role.{role}")
            continue
        roles = (Role.MLP, Role.EXPERT) if role == "mlp" and "expert" not in named else (Role(role),)
        storage |= {each: known[name][each] for each in roles}
    return storage


@lru_cache(maxsize=32)
def _gguf(name: str) -> Mapping[Role, Storage]:
    return mix_storage(_mixes()[name], _type_bits())


def largest_of_mix(name: str, tensor: str) -> float | None:
    """Bytes of an element of a tensor such as `ffn_down` where that GGUF mix gives it most, None for no mix."""
    mix = _mixes().get(name.upper())
    return largest_bits(mix, tensor, _type_bits()) / 8 if mix else None


def _mixes() -> Mapping[str, Mapping[str, Any]]:
    return {mix["name"]: mix for mix in _raw()["gguf_mixes"]}


def _type_bits() -> Mapping[str, float]:
    return {item["name"]: 8 * item["bytes"] / item["block"] for item in _raw()["gguf_types"]}


@lru_cache(maxsize=1)
def _support() -> Mapping[tuple[str, str], tuple[KernelSupport, ...]]:
    found: dict[tuple[str, str], tuple[KernelSupport, ...]] = {}
    for row in _rows(_raw(), "support", SUPPORT_KEYS, _kernel_support):
        found[row.engine, row.format] = (*found.get((row.engine, row.format), ()), row)
    return found


def _kernel_support(row: Row) -> KernelSupport:
    speed = row.text("speed")
    if speed not in set(Speed):
        row.note(f"must be one of {', '.join(Speed)}", speed, "speed")
    return KernelSupport(
        engine=row.text("engine"),
        format=row.text("format"),
        kernel=row.text("kernel"),
        speed=Speed(speed) if speed in set(Speed) else Speed.SLOW,
        min_compute_capability=_capability(row, "min_compute_capability"),
        max_compute_capability=_capability(row, "max_compute_capability"),
        gfx=row.texts("architectures"),
        since_version=_version_text(row, "since_version"),
        until_version=_version_text(row, "until_version"),
        note=row.text("note", "") if row.has("note") else "",
        source=row.text("source"),
    )


def _capability(row: Row, key: str) -> tuple[int, int] | None:
    if not row.has(key):
        return None
    major, _, minor = row.text(key).partition(".")
    if major.isdecimal() and minor.isdecimal():
        return int(major), int(minor)
    row.note("must be a compute capability such as '8.0'", row.values[key], key)
    return None


def _version_text(row: Row, key: str) -> str:
    if not row.has(key):
        return ""
    text = row.text(key)
    try:
        Version.parse(text)
    except ValueError:
        row.note("must be a version", text, key)
    return text


def _on_card(row: KernelSupport, gpu: GpuSpec) -> bool:
    if row.gfx:
        return gpu.gfx in row.gfx or gpu.architecture in row.gfx
    if gpu.compute_capability is None:
        return row.min_compute_capability is None and row.max_compute_capability is None
    low, high = row.min_compute_capability or (0, 0), row.max_compute_capability or (99, 9)
    return low <= gpu.compute_capability <= high


def _in_version(row: KernelSupport, version: Version | None) -> bool:
    """`since` and `until` both count in; ``until 0.23.0`` covers every 0.23."""
    if version is None:
        return not row.until_version
    if row.since_version and version < Version.parse(row.since_version):
        return False
    if not row.until_version:
        return True
    last = Version.parse(row.until_version).parts
    while last and last[-1] == 0:
        last = last[:-1]
    return version.parts[: len(last)] <= last


@lru_cache(maxsize=1)
def _quality() -> tuple[QualityFigure, ...]:
    return _rows(_raw(), "quality", QUALITY_KEYS, _quality_figure)


def _quality_figure(row: Row) -> QualityFigure:
    return QualityFigure(
        format=row.text("format"),
        model=row.text("model"),
        task=row.text("task"),
        metric=row.text("metric"),
        loss_percent=row.number_or_none("loss_percent", low=-100, high=1000),
        source=row.text("source"),
        baseline=row.number_or_none("baseline", low=-1e6),
        value=row.number_or_none("value", low=-1e6),
    )


def _speed_figure(row: Row) -> SpeedFigure:
    return SpeedFigure(
        format=row.text("format"),
        kernel=row.text("kernel"),
        engine=row.text("engine"),
        model=row.text("model"),
        gpu=row.text("gpu", "") if row.has("gpu") else "",
        metric=row.text("metric"),
        value=row.number("value"),
        baseline=row.number_or_none("baseline"),
        ratio=row.number_or_none("ratio"),
        source=row.text("source"),
        note=row.text("note", "") if row.has("note") else "",
    )
