"""Every raw choice for one model, sized one by one: what the planner's candidates are held against.

Nothing of `cotenant.planning` is used: the rules are stated anew from docs/planning.md and the sizes come from
`cotenant.estimation`. No choice is left out because another beats it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor

from cotenant.domain.demand import Demand
from cotenant.domain.engine import AdapterSlots, EngineSettings
from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.quantization import Advice
from cotenant.engines import find_engine
from cotenant.errors import UnsupportedError
from cotenant.estimation.demand import demand
from cotenant.estimation.inverse import settings_for_pool
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.precision import decide
from cotenant.estimation.served_format import ServedFormat, served_format
from cotenant.estimation.sizing import reserved_bytes
from cotenant.estimation.step_time import roofline


@dataclass(frozen=True, slots=True)
class RawChoice:
    """One way to serve a model: `replicas` groups of `size` cards of one offer, `claim_bytes` on each for good,
    `peak_bytes` while it loads, `asleep_bytes` while it sleeps."""

    offer: int
    format: str
    size: int
    replicas: int
    claim_bytes: int
    peak_bytes: int
    asleep_bytes: int = 0


def raw_choices(fleet: Fleet, request: ModelRequest) -> tuple[RawChoice, ...]:
    """All of them: offers x formats x KV types x powers of two of tensor parallel x pipeline stages x tokens a
    step x numbers of replicas."""
    return tuple(
        RawChoice(number, name, split[0] * split[1], replicas, *taken)
        for number, offer in enumerate(fleet.gpus)
        for name, served in _formats(request, offer)
        for dtype in request.kv_cache_dtypes
        for split in _splits(offer)
        for step in _steps(request, offer, split)
        for replicas in _replicas(request, offer, split[0] * split[1])
        if (taken := _taken(fleet, request, offer, served, dtype, (*split, step), replicas)) is not None
    )


def room_bytes(fleet: Fleet, offer: GpuOffer) -> int:
    """What the headroom and others leave of one card."""
    return max(0, floor(offer.gpu.cuda_bytes.value * (1 - fleet.headroom)) - offer.used_bytes)


def loading_bytes(offer: GpuOffer) -> int:
    """What others leave of one card: engines that load may take the headroom for a while."""
    return offer.gpu.cuda_bytes.value - offer.used_bytes


def _formats(request: ModelRequest, offer: GpuOffer) -> Iterator[tuple[str, ServedFormat]]:
    """What the kernels run and the task's loss allows; only what can be loaded and is known to pass, unasked."""
    engine, version = find_engine(request.engine)
    rows = decide(
        offer.gpu, engine=engine.name, version=version, task=request.task, model=request.model,
        max_loss_percent=request.max_loss_percent, checkpoints=request.checkpoints, wishes=request.formats,
    )  # fmt: skip
    loaded = LoadedModel(request.model, request.model_id, request.checkpoints, request.task, "")
    for row in rows:
        asked = row.format in (*request.formats, "bf16", "fp16", request.model.quantization)
        known = row.quality_known and (row.checkpoint or row.online)
        if row.advice is Advice.REFUSED or not (asked or known):
            continue
        try:
            yield row.format, served_format(loaded, row.format, offer.gpu, engine=engine, version=version)
        except UnsupportedError:
            continue


def _most(offer: GpuOffer) -> int:
    return min([each for each in (offer.count, offer.maximum) if each is not None], default=64)


def _splits(offer: GpuOffer) -> Iterator[tuple[int, int]]:
    """(ranks of a stage, stages), whatever fits into a node."""
    limit, ranks = min(offer.node_size, _most(offer)), 1
    while ranks <= limit:
        yield from ((ranks, stages) for stages in range(1, limit // ranks + 1))
        ranks *= 2


def _steps(request: ModelRequest, offer: GpuOffer, split: tuple[int, int]) -> tuple[int, ...]:
    """Tokens a step: the engine's own (or what the user says), a quarter and a sixteenth of it from 512 on, four
    and sixteen times as many up to 16,384 (docs/planning.md)."""
    if request.max_num_batched_tokens is not None:
        return (request.max_num_batched_tokens,)
    engine, version = find_engine(request.engine)
    asked = EngineSettings(tensor_parallel_size=split[0], pipeline_parallel_size=split[1])
    try:
        own = engine.resolve(request.model, offer.gpu, asked, version).max_num_batched_tokens or 1
    except UnsupportedError:
        return (0,)
    others = (own // 4, own // 16, own * 4, own * 16)
    return (0, *(step for step in others if 512 <= step <= 16_384))


def _replicas(request: ModelRequest, offer: GpuOffer, size: int) -> range:
    most = min(request.max_replicas or request.min_replicas, _most(offer) // size)
    return range(request.min_replicas, most + 1)


def _taken(
    fleet: Fleet,
    request: ModelRequest,
    offer: GpuOffer,
    served: ServedFormat,
    dtype: str,
    split: tuple[int, int, int],
    replicas: int,
) -> tuple[int, int, int] | None:
    """What each card gives up for good, while it loads and while it sleeps; None where the choice does not run,
    fit or hold its SLO."""
    try:
        return _sized(fleet, request, offer, served, dtype, split, replicas)
    except UnsupportedError:
        return None


def _sized(
    fleet: Fleet,
    request: ModelRequest,
    offer: GpuOffer,
    served: ServedFormat,
    dtype: str,
    split: tuple[int, int, int],
    replicas: int,
) -> tuple[int, int, int] | None:
    engine, version = find_engine(request.engine)
    slots = None
    if request.adapters:
        slots = AdapterSlots(len(request.adapters), max(adapter.rank for adapter in request.adapters))
    ranks, stages, step = split
    settings = EngineSettings(
        tensor_parallel_size=ranks, pipeline_parallel_size=stages, kv_cache_dtype=dtype, adapters=slots,
        max_num_batched_tokens=step or None,
    )  # fmt: skip
    reserved = reserved_bytes(request.model, offer.gpu, settings, engine=engine, version=version)
    asked = demand(
        request.model, request.traffic, slo=request.slo, overflow=fleet.kv_overflow, replicas=replicas,
        adapters=request.adapters,
        sequence_bytes=reserved,
        times=replace(
            roofline(
                request.model, offer.gpu, engine=engine.name, version=version, format=served.format,
                kernel=served.kernel, tensor_parallel_size=ranks, kv_cache_dtype=dtype,
            ),
            chunk_tokens=reserved.batched_tokens,
        ),
    )  # fmt: skip
    if not isinstance(asked, Demand) or asked.slo_held is False or 0 < step < asked.max_num_seqs:
        return None
    full = replace(settings, max_num_seqs=asked.max_num_seqs, max_model_len=asked.max_model_len)
    granted = settings_for_pool(
        request.model, offer.gpu, full, engine=engine, version=version, format=served.format,
        kv_bytes=asked.kv_pool_bytes, used_bytes=offer.used_bytes,
    ).settings  # fmt: skip
    found = estimate_memory(
        request.model, offer.gpu, granted, engine=engine, version=version, format=served.format,
        used_bytes=offer.used_bytes, demand=asked, model_path=served.model_path,
    )  # fmt: skip
    claim = max(rank.claimed_bytes for rank in found.per_gpu)
    asleep = max(rank.runtime.bytes.value for rank in found.per_gpu)
    peak = max(rank.load_peak.value for rank in found.per_gpu)
    return (claim, peak, asleep) if found.fits and claim <= room_bytes(fleet, offer) else None
