"""The estimate of an engine that allocates what it is told to, and nothing more.

footprint = weights + KV cache + compute buffer + context and libraries, each GPU by its own layers
budget    = capacity - used by others; it fits where every GPU's footprint does
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.calibration import CalibrationProfile
from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Estimate, KvCacheEstimate, RankEstimate
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval, total
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines.rules import Allocation, Capacity, DeviceBuffers, EngineRules
from cotenant.errors import UnsupportedError
from cotenant.estimation.calibrated import HOST, profile_for, scaled, scaled_term
from cotenant.estimation.drafted import with_draft
from cotenant.estimation.verdict import Check, judge
from cotenant.estimation.weights import tensor_bytes


def allocated_estimate(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    *,
    engine: EngineRules,
    version: Version,
    format: QuantizationFormat,  # noqa: A002 - the field's own word
    used_bytes: int = 0,
    demand: Demand | None = None,
    model_path: str = "",
) -> Estimate:
    """The estimate of one replica, judged. Raises UnsupportedError for what the engine refuses."""
    rules = engine.rules(version, gpu)
    if rules.allocate is None:
        raise UnsupportedError(f"{engine.title} {version} fills a budget: its buffers do not follow from options")
    resolved = engine.resolve(model, gpu, settings, version)
    capacity = gpu.cuda_bytes if rules.capacity is Capacity.CUDA else gpu.driver_bytes
    allocation = rules.allocate(model, gpu, resolved, tensor_bytes(model, format, resolved.dtype))
    found = _as_measured(
        with_draft(allocation, model, gpu, resolved, allocate=rules.allocate, format=format),
        profile_for(engine.name, str(version), HOST if resolved.works_on_host else gpu.name, model.family),
    )
    free = engine.budget(capacity, resolved).shifted(-used_bytes)
    ranks = tuple(_rank(number, part, capacity, free, used_bytes) for number, part in enumerate(found.devices))
    verdict, reason = judge(_checks(found, free))
    return Estimate(
        model=model, gpu=gpu, engine=engine.name, engine_version=str(version), quantization=format.name,
        settings=resolved, verdict=verdict, per_gpu=ranks, kv_cache=_cache(found, resolved, ranks, demand),
        arguments=engine.arguments(
            replace(resolved), version=version, model_path=model_path or model.name,
            quantization=format.engine_flag,
        ),
        reason=reason, warnings=(*rules.notes, *found.notes), demand=demand, host=found.host,
    )  # fmt: skip


def _as_measured(found: Allocation, profile: CalibrationProfile | None) -> Allocation:
    """Compute and runtime as they were measured; weights and caches are by rule."""
    if profile is None:
        return found
    devices = tuple(
        replace(
            part, compute=scaled_term(part.compute, "activations", profile),
            runtime=scaled_term(part.runtime, "runtime", profile),
        )
        for part in found.devices
    )  # fmt: skip
    if profile.gpu != HOST:
        return replace(found, devices=devices)
    host, told = found.host, profile.factors
    computed = scaled(host.computed or Interval.exact(host.compute), told.get("activations"))
    beside = None if host.runtime is None else scaled(host.runtime, told.get("runtime"))
    return replace(found, host=replace(host, compute=computed.value, computed=computed, runtime=beside))


def _footprint(part: DeviceBuffers) -> Interval:
    return total((part.weights.bytes, part.kv_cache.bytes, part.compute.bytes, part.runtime.bytes))


def _rank(number: int, part: DeviceBuffers, capacity: Interval, free: Interval, used_bytes: int) -> RankEstimate:
    return RankEstimate(
        rank=number, capacity=capacity, used_bytes=used_bytes, budget=free.clamped(), weights=part.weights,
        kv_cache=part.kv_cache, activations=part.compute, runtime=part.runtime,
        load_peak=total((part.weights.bytes, part.runtime.bytes)), headroom=free - _footprint(part), fills=False,
    )  # fmt: skip


def _checks(found: Allocation, free: Interval) -> list[Check]:
    """Buffers in the order in which the engine allocates them; it dies at the first that fails."""
    checks = []
    several = len(found.devices) > 1
    for number, part in enumerate(found.devices):
        where = f"GPU {number} has left" if several else "the card has left"
        hint = "fewer layers on the GPU (-ngl), a shorter context or a smaller cache type"
        checks.append(
            Check("loading its weights", total((part.weights.bytes, part.runtime.bytes)), free, where, hint)
        )
        checks.append(Check("the sum of its buffers", _footprint(part), free, where, hint))
    return checks


def _cache(
    found: Allocation, settings: EngineSettings, ranks: tuple[RankEstimate, ...], demand: Demand | None
) -> KvCacheEstimate:
    slots = settings.max_num_seqs or 1
    return KvCacheEstimate(
        bytes_per_token=found.token_bytes,
        bytes_per_sequence=found.sequence_bytes,
        tokens=found.cells,
        tokens_as_printed=found.cells,
        max_concurrency=found.cells / (settings.max_model_len or 1),
        reserved_bytes=ranks[0].kv_cache.bytes.value,
        needed_bytes=None if demand is None else demand.kv_needed_bytes,
        worst_case_bytes=found.slot_bytes * slots if demand is None else demand.kv_worst_case_bytes,
        minimum_bytes=found.slot_bytes,
    )
