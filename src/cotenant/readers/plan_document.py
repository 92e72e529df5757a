"""A plan's JSON document back as a `Plan`: typed fields only; its commands are never read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from cotenant.domain.device import Device
from cotenant.domain.engine import AdapterSlots, EngineSettings
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.plan import GpuPlan, GpuShare, Plan, ReplicaPlan, Shortfall, Sleeper, Turns
from cotenant.domain.workload import Adapter
from cotenant.engines import find_engine
from cotenant.engines.names import also_named
from cotenant.errors import CotenantError, FormatError, InputError, InputErrors
from cotenant.readers.fleet_errors import structural_faults
from cotenant.readers.plan_schema import (
    LLAMA_CPP,
    SETTINGS,
    DeviceEntry,
    GpuEntry,
    PlanEntry,
    ReplicaEntry,
    ShareEntry,
)

SCHEMA = "cotenant/plan/1"
_PREFIX = "cotenant/plan/"
_NO_WORDS = ("why", "runner_up", "command")  # texts for people: no engine is told them
_COUNTS = ("max_num_seqs", "n_parallel", "n_ctx", "max_model_len")
_WITH_OPTIONS = ("llama.cpp", "ollama")


def is_plan(document: object) -> bool:
    """Whether it calls itself a plan, of whatever version."""
    return isinstance(document, Mapping) and str(document.get("schema", "")).startswith(_PREFIX)


def read_plan(document: Mapping[str, Any]) -> Plan:
    """The plan that the document holds. Raises FormatError for another schema, InputErrors with every fault."""
    schema = document.get("schema")
    if schema != SCHEMA:
        told = (
            "it names no schema" if schema is None else f"{str(schema)[:60]!r} is not a schema that is read here"
        )
        raise FormatError(
            f"no plan: {told}", hint=f"it reads {SCHEMA}, as `cotenant plan FLEET -o plan.json` writes"
        )
    faults: list[CotenantError] = list(structural_faults(PlanEntry, document))
    if not faults:
        faults += _setting_faults(document)
    if faults:
        raise InputErrors(faults)
    entry = PlanEntry.model_validate(document)
    faults += _contradictions(entry)
    if faults:
        raise InputErrors(faults)
    return _plan(
        entry, [_settings(one, raw) for one, raw in zip(entry.replicas, document["replicas"], strict=True)]
    )


def _setting_faults(document: Mapping[str, Any]) -> Iterator[CotenantError]:
    for number, replica in enumerate(document["replicas"]):
        path = f"$.replicas[{number}]"
        yield from _word_faults(replica, path)
        for index, adapter in enumerate(replica.get("adapters") or ()):
            yield from _word_faults(adapter, f"{path}.adapters[{index}]")
        given = {name: value for name, value in replica.items() if value is not None}
        yield from structural_faults(SETTINGS, given, path)
        yield from structural_faults(LLAMA_CPP, given, path)
        if replica.get("speculation"):
            yield InputError("speculative decoding is not deployed yet", path=f"{path}.speculation")


def _word_faults(told: Mapping[str, Any], path: str) -> Iterator[CotenantError]:
    """Values that a command line would take for something else: a text that begins like a flag (a checkpoint named
    ``--trust-remote-code``), one that no argument can hold, a number beyond what any engine counts."""
    for name, value in told.items():
        if isinstance(value, str) and name not in _NO_WORDS:
            if value.startswith("-") or (name == "name" and "=" in value):
                yield InputError(f"{value[:60]!r} would be read as a flag", path=f"{path}.{name}")
            elif "\0" in value:
                yield InputError("no argument can hold the character NUL", path=f"{path}.{name}")
        elif isinstance(value, int) and not (1 if name in _COUNTS else -1) <= value < 2**60:
            yield InputError("is no number that an engine takes", path=f"{path}.{name}")


def _contradictions(entry: PlanEntry) -> Iterator[CotenantError]:
    """Names that stand twice or nowhere, engines without rules, text that no file can hold."""
    known: set[str] = set()
    ports: set[tuple[int, int]] = set()
    for number, replica in enumerate(entry.replicas):
        path = f"$.replicas[{number}]"
        if replica.id in known:
            yield InputError(f"the id {replica.id[:60]!r} stands there twice", path=f"{path}.id")
        known.add(replica.id)
        port = (replica.devices[0].node, replica.port)
        if port in ports:
            yield InputError(f"another replica there listens on port {replica.port}", path=f"{path}.port")
        ports.add(port)
        if len({(one.node, one.type, one.index) for one in replica.devices}) < len(replica.devices):
            yield InputError("one device stands there twice", path=f"{path}.devices")
        try:
            find_engine(replica.engine)
        except CotenantError as error:
            yield InputError(error.message, hint=error.hint, path=f"{path}.engine")
    for number, gpu in enumerate(entry.gpus):
        for share in (*gpu.replicas, *gpu.sleepers):
            if share.id not in known:
                yield InputError(f"no replica {share.id[:60]!r} in this plan", path=f"$.gpus[{number}].replicas")


def _settings(replica: ReplicaEntry, raw: Mapping[str, Any]) -> EngineSettings:
    given = {name: value for name, value in raw.items() if value is not None}
    common = _fields(SETTINGS, given)
    slots = replica.max_loras and AdapterSlots(replica.max_loras, replica.max_lora_rank or 16)
    options = None
    if find_engine(replica.engine)[0].name in _WITH_OPTIONS:
        words = _fields(LLAMA_CPP, given)
        options = LlamaCppOptions(**words | {"tensor_split": tuple(words.get("tensor_split", ()))})
    return EngineSettings(**common, adapters=slots or None, llama_cpp=options)


def _fields(kind: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    return kind.model_validate(given).model_dump(exclude_unset=True)


def _plan(entry: PlanEntry, settings: list[EngineSettings]) -> Plan:
    return Plan(
        feasible=entry.feasible,
        replicas=tuple(_replica(one, told) for one, told in zip(entry.replicas, settings, strict=True)),
        gpus=tuple(_gpu(one) for one in entry.gpus),
        cost_per_hour=entry.cost_per_hour,
        objective_value=entry.objective_value,
        lower_bound=entry.lower_bound,
        gap=entry.gap,
        deterministic=entry.deterministic,
        headroom=entry.headroom,
        naive=None,
        shortfalls=tuple(
            Shortfall(one.model, one.shortfall_bytes, one.reason, tuple(one.remedies)) for one in entry.shortfalls
        ),
        warnings=tuple(entry.warnings),
        turns=tuple(Turns(**one.model_dump() | {"models": tuple(one.models)}) for one in entry.turns),
        input_hash=entry.input_hash,
        calibration=entry.calibration,
    )


def _replica(entry: ReplicaEntry, settings: EngineSettings) -> ReplicaPlan:
    """Command and environment are built anew from the fields."""
    engine, version = find_engine(entry.engine)
    adapters = tuple(Adapter(one.name, one.rank, one.source, one.share) for one in entry.adapters)
    argv = engine.arguments(
        settings, version=version, model_path=entry.checkpoint, port=entry.port,
        quantization=entry.quantization_flag, served_name=entry.model, adapters=adapters,
    )  # fmt: skip
    return ReplicaPlan(
        id=entry.id,
        model=entry.model,
        model_id=entry.model_id,
        checkpoint=entry.checkpoint,
        quantization=entry.quantization,
        engine=engine.name,
        engine_version=str(version),
        settings=settings,
        devices=tuple(_device(one) for one in entry.devices),
        port=entry.port,
        adapters=adapters,
        sharing=entry.sharing,
        start_order=entry.start_order,
        command=also_named(argv, entry.also_serves),
        environment={
            "CUDA_VISIBLE_DEVICES": ",".join(str(one.index) for one in entry.devices),
            **({"VLLM_SERVER_DEV_MODE": "1"} if settings.enable_sleep_mode else {}),
        },
        why=entry.why,
        runner_up=entry.runner_up,
        kv_needed_bytes=entry.kv_needed_bytes,
        kv_worst_case_bytes=entry.kv_worst_case_bytes,
        beside_bytes=entry.beside_bytes,
        ttft_s=_three(entry.ttft_s),
        tpot_s=_three(entry.tpot_s),
        times_from=entry.times_from,
        quantization_flag=entry.quantization_flag,
        also_serves=tuple(entry.also_serves),
    )


def _three(times: list[float] | None) -> tuple[float, float, float] | None:
    return None if times is None else (times[0], times[1], times[2])


def _device(entry: DeviceEntry) -> Device:
    return Device(type=entry.type, node=entry.node, index=entry.index, offer=0)


def _gpu(entry: GpuEntry) -> GpuPlan:
    return GpuPlan(
        device=_device(entry),
        capacity_bytes=entry.capacity_bytes,
        used_bytes=entry.used_bytes,
        shares=tuple(_share(one) for one in entry.replicas),
        price_per_hour=entry.price_per_hour,
        sleepers=tuple(Sleeper(_share(one), one.bytes, one.host_bytes) for one in entry.sleepers),
        spare=entry.spare,
    )


def _share(entry: ShareEntry) -> GpuShare:
    return GpuShare(
        replica=entry.id,
        rank=entry.rank,
        budget_bytes=entry.budget_bytes,
        weights_bytes=entry.weights_bytes,
        kv_cache_bytes=entry.kv_cache_bytes,
        activations_bytes=entry.activations_bytes,
        runtime_bytes=entry.runtime_bytes,
        load_peak_bytes=entry.load_peak_bytes,
    )
