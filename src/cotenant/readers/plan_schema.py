"""The shape of a plan's JSON document (`cotenant/plan/1`), as far as a deployment needs it."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from cotenant.domain.engine import EngineSettings
from cotenant.domain.llama_cpp import LlamaCppOptions

_NESTED = ("adapters", "llama_cpp", "speculation")  # written under other names, or not at all
_STRICT = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

Bytes = Annotated[int, Field(ge=0, lt=2**60)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
Text = Annotated[str, Field(max_length=4096)]
Name = Annotated[str, Field(min_length=1, max_length=4096)]
ServedName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,255}$")]
Seconds = Annotated[list[float], Field(min_length=3, max_length=3)]


def _of(kind: type[Any], name: str, skip: tuple[str, ...] = ()) -> type[BaseModel]:
    """The fields of a dataclass of settings as they stand in the document: tuples are lists there."""
    hints = get_type_hints(kind)
    found: dict[str, Any] = {}
    for field in fields(kind):
        if field.name not in skip:
            hint = list[float] if field.name == "tensor_split" else hints[field.name]
            found[field.name] = (hint, None if field.default is MISSING else field.default)
    return create_model(name, __config__=_STRICT, **found)


SETTINGS = _of(EngineSettings, "Settings", skip=_NESTED)
LLAMA_CPP = _of(LlamaCppOptions, "LlamaCpp", skip=("draft",))  # follows from the others


class DeviceEntry(BaseModel):
    """A card by type and place."""

    model_config = _STRICT
    type: Name
    node: Count
    index: Count


class AdapterEntry(BaseModel):
    """A LoRA adapter."""

    model_config = _STRICT
    name: Name
    rank: Annotated[int, Field(ge=1, le=4096)]
    source: Text = ""
    share: float | None = None


class ReplicaEntry(BaseModel):
    """One running engine. Its settings stand beside these keys and are read apart."""

    model_config = _STRICT
    id: Name
    model: Name
    model_id: Text = ""
    checkpoint: Name
    quantization: Text
    quantization_flag: Text
    engine: Name
    port: Annotated[int, Field(ge=1, le=65535)]
    devices: Annotated[list[DeviceEntry], Field(min_length=1, max_length=1024)]
    adapters: list[AdapterEntry] = []
    sharing: Text = "co-resident"
    start_order: Count
    max_loras: Annotated[int, Field(ge=1)] | None = None
    max_lora_rank: Annotated[int, Field(ge=1)] | None = None
    kv_needed_bytes: Bytes = 0
    kv_worst_case_bytes: Bytes = 0
    beside_bytes: Bytes = 0
    also_serves: list[ServedName] = []
    ttft_s: Seconds | None = None
    tpot_s: Seconds | None = None
    times_from: str = ""
    why: str = ""
    runner_up: str = ""


class ShareEntry(BaseModel):
    """What one rank takes of a card."""

    model_config = _STRICT
    id: Name
    rank: Count
    budget_bytes: Bytes
    weights_bytes: Bytes
    kv_cache_bytes: Bytes
    activations_bytes: Bytes
    runtime_bytes: Bytes
    load_peak_bytes: Bytes


class SleeperEntry(ShareEntry):
    """A rank that takes turns: its bytes awake, and what it keeps of the card and of host memory asleep."""

    bytes: Bytes
    host_bytes: Bytes = 0


class TurnsEntry(BaseModel):
    """Models that take turns on the same cards."""

    model_config = _STRICT
    models: list[Name]
    mode: Name
    swaps_per_day: float = 0.0
    first_wait_s: dict[str, float] = {}
    delayed: dict[str, float] = {}
    swapping: float = 0.0
    host_bytes: Bytes = 0
    saves_per_hour: float | None = None


class GpuEntry(DeviceEntry):
    """A card with all that lives on it."""

    capacity_bytes: Bytes
    used_bytes: Bytes = 0
    price_per_hour: float | None = None
    replicas: list[ShareEntry]
    sleepers: list[SleeperEntry] = []
    spare: bool = False


class ShortfallEntry(BaseModel):
    """A model without a place."""

    model_config = _STRICT
    model: Name
    shortfall_bytes: int = 0
    reason: str = ""
    remedies: list[str] = []


class PlanEntry(BaseModel):
    """The document."""

    model_config = _STRICT
    feasible: bool
    replicas: Annotated[list[ReplicaEntry], Field(max_length=10_000)]
    gpus: Annotated[list[GpuEntry], Field(max_length=10_000)]
    cost_per_hour: float | None = None
    objective_value: float = 0.0
    lower_bound: float = 0.0
    gap: float | None = None
    deterministic: bool = True
    headroom: float = 0.0
    shortfalls: list[ShortfallEntry] = []
    turns: list[TurnsEntry] = []
    warnings: list[str] = []
    input_hash: Text = ""
    calibration: Text | None = None
