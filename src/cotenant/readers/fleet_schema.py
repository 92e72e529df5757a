"""The shape of a fleet file, as pydantic models: the JSON Schema for editors comes from these.

Import this module inside a function only: pydantic costs a tenth of a second that `cotenant estimate` never pays.
Meaning (known cards, unique names, one kind of traffic) is checked in `fleet_checks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from cotenant.catalogue.time_zones import check_zone
from cotenant.domain.defaults import HEADROOM, KV_OVERFLOW
from cotenant.errors import InputError
from cotenant.units import parse_bytes, parse_percent, parse_price, parse_seconds

Tokens = Annotated[int, Field(ge=1, le=2**31)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]


def refusal(message: str, hint: str = "") -> PydanticCustomError:
    """An error that carries our own words through pydantic."""
    return PydanticCustomError("cotenant", "{message}", {"message": message, "hint": hint})


def _printable(text: str) -> str:
    """Names and paths go into commands and onto terminals: no line ends, escapes or reversed writing."""
    if text.isprintable():
        return text
    raise refusal(f"{text[:60]!r} holds characters that cannot be printed", "remove them, or rename the file")


Text = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_printable)]


def _reads(parse: Callable[[object], float]) -> BeforeValidator:
    def read(value: object) -> float:
        try:
            return parse(value)
        except InputError as error:
            raise refusal(error.message, error.hint) from None

    return BeforeValidator(read)


def _zone(name: str) -> str:
    try:
        return name if name == "UTC" else check_zone(name)
    except InputError as error:
        raise refusal(error.message, error.hint) from None


Zone = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_+/-]{0,60}$"), AfterValidator(_zone)]


def _written(pattern: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": list(examples)})


_NUMBER = r"^\s*[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?\s*"
Bytes = Annotated[
    int, _reads(parse_bytes), _written(_NUMBER + r"([kKmMgGtT][iI]?)?[bB]\s*$", "80GiB", "512GB")
]  # fmt: skip
Percent = Annotated[float, _reads(parse_percent), _written(_NUMBER + r"%\s*$", "12%", "1%")]
Seconds = Annotated[float, _reads(parse_seconds), _written(_NUMBER + r"(us|µs|ms|s|m|min|h|d)\s*$", "3s", "80ms")]
Price = Annotated[
    float, _reads(parse_price), _written(r"^\s*\$\s*[0-9]+(\.[0-9]+)?\s*/\s*(h|hr|hour)\s*$", "$1.29/h")
]  # fmt: skip


class Wish(NamedTuple):
    """A precision that the user asks for, and the checkpoint that holds it where they say one."""

    format: str
    checkpoint: str = ""


def _wish(value: object) -> Wish:
    if isinstance(value, str) and value:
        return Wish(value)
    if isinstance(value, dict) and len(value) == 1:
        ((name, checkpoint),) = value.items()
        if isinstance(name, str) and isinstance(checkpoint, str) and name and checkpoint:
            return Wish(name, _checkpoint(checkpoint))
    raise refusal("must be a format or one format with its checkpoint", "write fp8 or {awq-int4: hub/id}")


def _checkpoint(text: str) -> str:
    """A hub id or a path: the engine's first argument, where a leading dash would read as an option."""
    if text.startswith("-") or text != text.strip() or len(text) > 500:
        raise refusal(
            f"{text[:60]!r} is not a checkpoint", "write OWNER/NAME of the hub or a path such as ./folder"
        )
    return _printable(text)


def _model(value: object) -> object:
    if (isinstance(value, str) and 0 < len(value) <= 4096) or (isinstance(value, dict) and value):
        return value
    raise refusal(
        "must be a name, a path or raw figures", "e.g. {parameters: 7B, layers: 32, kv_heads: 8, head_dim: 128}"
    )


_WISH_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "string"}},
    ]
}
_MODEL_SCHEMA = {
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": 4096}, {"type": "object", "minProperties": 1}],
    "description": "catalogue name, hub id, folder, config.json, .gguf, or raw figures",
}


class Entry(BaseModel):
    """One mapping of the file: unknown keys and coerced types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class NodeEntry(Entry):
    """The machine that the cards sit in."""

    size: Annotated[int, Field(ge=1, le=1024)] = 8
    host_memory: Bytes | None = None


class GpuEntry(Entry):
    """Cards of one type: owned (`count`) or for hire (`price`, `max`)."""

    type: Text
    count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    max: Annotated[int, Field(ge=1, le=100_000)] | None = None
    node: NodeEntry = NodeEntry()
    used: Annotated[Bytes, Field(json_schema_extra={"default": "0GiB"})] = 0
    price: Price | None = None
    mig: bool | Annotated[str, Field(pattern=r"^[1-7]g\.[0-9]{1,3}gb$")] = False
    time_slices: Annotated[int, Field(ge=2, le=64)] | None = None


def _histogram(value: object) -> tuple[tuple[int, float], ...]:
    """Pairs of a length and its weight."""
    if isinstance(value, list) and 0 < len(value) <= 10_000 and all(_is_bar(bar) for bar in value):
        if sum(weight for _, weight in value) > 0:
            return tuple((length, float(weight)) for length, weight in value)
        raise refusal("the weights add up to nothing", "[[100, 5], [500, 20], [2000, 3]]")
    raise refusal("must be a list of lengths and weights", "[[100, 5], [500, 20], [2000, 3]]")


def _is_bar(bar: object) -> bool:
    if not (isinstance(bar, list) and len(bar) == 2):
        return False
    length, weight = bar
    numbers = type(length) is int and type(weight) in (int, float)
    return numbers and 1 <= length <= 2**31 and 0 <= weight <= 1e15


_HISTOGRAM_SCHEMA = {
    "type": "array",
    "minItems": 1,
    "maxItems": 10_000,
    "description": "pairs of a length in tokens and its weight",
    "items": {
        "type": "array",
        "prefixItems": [{"type": "integer", "minimum": 1}, {"type": "number", "minimum": 0}],
        "minItems": 2,
        "maxItems": 2,
    },
}


class GapsEntry(Entry):
    """Requests in bursts (`gamma`: deviation of gaps over their mean) or in spells (`on`, `off`: mean seconds)."""

    gamma: Annotated[float, Field(ge=0.05, le=50)] | None = None
    on: Seconds | None = None
    off: Seconds | None = None


def _gaps(value: object) -> object:
    """``poisson`` is neither in bursts nor in spells."""
    if value == "poisson":
        return GapsEntry()
    if isinstance(value, GapsEntry) or (isinstance(value, dict) and value):
        return value
    raise refusal("must be poisson, or say how requests come", "{gamma: 2}, or {on: 30s, off: 90s}")


_SPELL = {"type": "string", "pattern": _NUMBER + r"(us|µs|ms|s|m|min|h|d)\s*$"}
_GAPS_SCHEMA = {
    "anyOf": [
        {"const": "poisson"},
        {
            "type": "object",
            "properties": {"gamma": {"type": "number", "minimum": 0.05, "maximum": 50}},
            "required": ["gamma"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"on": _SPELL, "off": _SPELL},
            "required": ["on", "off"],
            "additionalProperties": False,
        },
    ],
    "description": "how the requests of a rate come: bursts (deviation of gaps over their mean) or spells (means)",
}


class LengthsEntry(Entry):
    """Token lengths by percentile, or as a histogram."""

    p50: Tokens | None = None
    p95: Tokens | None = None
    max: Tokens | None = None
    histogram: Annotated[Any, PlainValidator(_histogram), WithJsonSchema(_HISTOGRAM_SCHEMA)] = None


class TrafficEntry(Entry):
    """A rate with lengths, a concurrency with the context in flight, or a trace."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["requests_per_second", "input_tokens"]},
                {"required": ["concurrent", "context_tokens"]},
                {"required": ["trace"]},
            ]
        }
    )
    requests_per_second: Annotated[float, Field(ge=1e-9, le=1e6)] | None = None
    input_tokens: LengthsEntry | None = None
    output_tokens: LengthsEntry | None = None
    concurrent: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    context_tokens: LengthsEntry | None = None
    trace: Text | None = None
    by_hour: Annotated[list[Annotated[float, Field(ge=0, le=1e9)]], Field(min_length=24, max_length=24)] | None = (
        None
    )
    timezone: Zone = "UTC"
    arrivals: Annotated[
        GapsEntry,
        BeforeValidator(_gaps),
        WithJsonSchema(_GAPS_SCHEMA),
        Field(json_schema_extra={"default": "poisson"}),
    ] = GapsEntry()


class SloEntry(Entry):
    """Latency targets."""

    ttft: Seconds | None = None
    tpot: Seconds | None = None
    percentile: Annotated[float, Field(ge=1, le=99.99)] = 95.0


class AdapterEntry(Entry):
    """One LoRA adapter."""

    name: Name
    rank: Annotated[int, Field(ge=1, le=512)]
    source: Text | None = None
    share: Percent | None = None
    target_modules: list[Name] = []


class QualityEntry(Entry):
    """How much quality may be lost."""

    max_loss: Percent


class ReplicasEntry(Entry):
    """How many copies may run."""

    min: Annotated[int, Field(ge=1, le=10_000)] = 1
    max: Annotated[int, Field(ge=1, le=10_000)] | None = None


class PinEntry(Entry):
    """Where the model must run."""

    gpus: Annotated[list[Annotated[int, Field(ge=0, le=100_000)]], Field(min_length=1)]


class ModelEntry(Entry):
    """One model that must be served."""

    name: Name
    model: Annotated[Any, PlainValidator(_model), WithJsonSchema(_MODEL_SCHEMA)]
    traffic: TrafficEntry
    engine: Text | None = None
    task: Text | None = None
    quality: QualityEntry | None = None
    quantization: (
        Annotated[list[Annotated[Wish, PlainValidator(_wish), WithJsonSchema(_WISH_SCHEMA)]], Field(min_length=1)]
        | None
    ) = None
    kv_cache_dtype: Annotated[list[Text], Field(min_length=1)] | None = None
    speculative_config: dict[str, Any] | None = None
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=2**24)] | None = None
    slo: SloEntry | None = None
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    adapters: list[AdapterEntry] = []
    replicas: ReplicasEntry = ReplicasEntry()
    sharing: Annotated[list[Literal["co-resident", "sleep", "alone"]], Field(min_length=1)] | None = None
    pin: PinEntry | None = None
    spread: Literal["none", "node"] = "none"
    apart_from: list[Name] = []


class FleetFile(Entry):
    """The whole file."""

    engine: Text = "vllm"
    headroom: Annotated[Percent, Field(json_schema_extra={"default": HEADROOM})] = parse_percent(HEADROOM)
    kv_overflow: Annotated[Percent, Field(json_schema_extra={"default": KV_OVERFLOW})] = parse_percent(KV_OVERFLOW)
    objective: Annotated[list[Literal["cost", "headroom", "quality"]], Field(min_length=1)] = [
        "cost",
        "headroom",
        "quality",
    ]
    spare: Literal["none", "gpu", "node"] = "none"
    gpus: Annotated[list[GpuEntry], Field(min_length=1)]
    models: Annotated[list[ModelEntry], Field(min_length=1)]


def published() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the fleet file."""
    schema = FleetFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Cotenant fleet file"}
