"""Values as the JSON documents of the contract: the one place that knows their keys.

Every document says its schema, the program's version and the hash of its input. Bytes are whole numbers,
seconds and fractions floats; `intervals` hold the 90 % interval of each figure as [low, high].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cotenant._version import __version__
from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings, Speculation
from cotenant.domain.estimate import Estimate, HostMemory, RankEstimate
from cotenant.domain.interval import Interval
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.errors import CotenantError

if TYPE_CHECKING:  # an estimate's document needs no plans
    from cotenant.domain.device import Device
    from cotenant.domain.migration import Migration
    from cotenant.domain.plan import GpuPlan, GpuShare, Naive, Plan, PlanRound, ReplicaPlan, Sleeper

Document = dict[str, Any]


def header(kind: str, *, catalogue: str, input_hash: str = "", calibration: str | None = None) -> Document:
    """The keys that every document starts with."""
    return {
        "schema": f"cotenant/{kind}/1",
        "cotenant": __version__,
        "catalogue": catalogue,
        "calibration": calibration,
        "input_hash": input_hash,
    }


def error_document(error: CotenantError) -> Document:
    """`{errors: [{error, hint, path}]}`, every fault of a collected error apart."""
    return {
        "errors": [{"error": fault.message, "hint": fault.hint, "path": fault.path} for fault in error.faults()]
    }


def estimate_document(estimate: Estimate, *, catalogue: str, input_hash: str = "") -> Document:
    """One replica on one type of card."""
    cache = estimate.kv_cache
    return {
        **header("estimate", catalogue=catalogue, input_hash=input_hash, calibration=estimate.calibration),
        "model": estimate.model.name,
        "gpu": estimate.gpu.name,
        "engine": f"{estimate.engine}@{estimate.engine_version}",
        "quantization": estimate.quantization,
        "fits": estimate.fits,
        "verdict": str(estimate.verdict),
        "reason": estimate.reason,
        "settings": settings_document(estimate.settings),
        "per_gpu": [_rank(rank) for rank in estimate.per_gpu],
        "kv_cache": {
            "bytes_per_token": cache.bytes_per_token,
            "bytes_per_sequence": cache.bytes_per_sequence,
            "tokens": cache.tokens,
            "tokens_as_printed": cache.tokens_as_printed,
            "max_concurrency": cache.max_concurrency,
            "kv_cache_bytes": cache.reserved_bytes,
            "kv_needed_bytes": cache.needed_bytes,
            "kv_worst_case_bytes": cache.worst_case_bytes,
            "minimum_bytes": cache.minimum_bytes,
        },
        "traffic": _demand(estimate.demand),
        "host": None
        if estimate.host is None
        else {
            "weights_bytes": estimate.host.weights,
            "kv_cache_bytes": estimate.host.kv_cache,
            "compute_bytes": estimate.host.compute,
            "runtime_bytes": None if estimate.host.runtime is None else estimate.host.runtime.value,
            "intervals": _host_intervals(estimate.host),
        },
        "arguments": list(estimate.arguments),
        "warnings": list(estimate.warnings),
    }


def _host_intervals(host: HostMemory) -> Document:
    sizes = (("compute_bytes", host.computed), ("runtime_bytes", host.runtime))
    return {name: [size.low, size.high] for name, size in sizes if size is not None}


def _demand(demand: Demand | None) -> Document | None:
    if demand is None:
        return None
    return {
        "max_model_len": demand.max_model_len,
        "max_num_seqs": demand.max_num_seqs,
        "refused_share": demand.refused_share,
        "mean_in_service": demand.mean_in_service,
        "in_service_p999": demand.in_service_p999,
        "kv_needed_tokens": demand.kv_needed_tokens,
        "kv_overflow": demand.overflow,
        "kv_by_adapter": dict(demand.kv_by_adapter),
        "busy": demand.busy,
        "percentile": demand.percentile,
        "ttft_s": _seconds(demand.ttft_s),
        "tpot_s": _seconds(demand.tpot_s),
        "times_from": demand.times_from,
        "slo_held": demand.slo_held,
    }


def _seconds(found: tuple[float, float, float] | None) -> Document | None:
    """An estimated time with its 90 % interval."""
    return None if found is None else {"value": found[1], "interval": [found[0], found[2]]}


def _rank(rank: RankEstimate) -> Document:
    figures: Mapping[str, Interval] = {
        "capacity_bytes": rank.capacity,
        "budget_bytes": rank.budget,
        "weights_bytes": rank.weights.bytes,
        "kv_cache_bytes": rank.kv_cache.bytes,
        "activations_bytes": rank.activations.bytes,
        "runtime_bytes": rank.runtime.bytes,
        "headroom_bytes": rank.headroom,
        "load_peak_bytes": rank.load_peak,
        "used_bytes": Interval.exact(rank.used_bytes),
    }
    return {
        "rank": rank.rank,
        **{name: figure.value for name, figure in figures.items()},
        "intervals": {name: [figure.low, figure.high] for name, figure in figures.items()},
        "why": {name: term.why for name, term in rank.terms.items()},
    }


def _speculation(asked: Speculation) -> Document:
    """Speculative decoding in the words of vLLM's own object."""
    draft = None if asked.draft is None else asked.draft.name
    return {"method": asked.method, "num_speculative_tokens": asked.tokens, "model": draft}


def _own_options(options: LlamaCppOptions) -> Document:
    """llama.cpp's own options; a draft's where there is one."""
    told = {name: value for name, value in asdict(options).items() if value is not None and value != ""}
    if options.draft is None:
        return {name: value for name, value in told.items() if name not in ("draft_tokens", "draft_contexts")}
    return told | {"draft": {name: value for name, value in told["draft"].items() if value not in (None, "")}}


def settings_document(settings: EngineSettings) -> Document:
    """An engine's settings by name; what stays at the engine's default is left out."""
    values = {
        name: getattr(settings, name)
        for name in EngineSettings.__dataclass_fields__
        if name not in ("adapters", "llama_cpp", "speculation") and getattr(settings, name) is not None
    }
    if settings.speculation is not None:
        values["speculation"] = _speculation(settings.speculation)
    if settings.llama_cpp is not None:
        values |= _own_options(settings.llama_cpp)
    if settings.adapters is not None:
        values |= {"max_loras": settings.adapters.max_loras, "max_lora_rank": settings.adapters.max_lora_rank}
    return values


def plan_document(plan: Plan, *, catalogue: str) -> Document:
    """The whole answer to a fleet."""
    return {
        **header("plan", catalogue=catalogue, input_hash=plan.input_hash, calibration=plan.calibration),
        "feasible": plan.feasible,
        "cost_per_hour": plan.cost_per_hour,
        "objective_value": plan.objective_value,
        "lower_bound": plan.lower_bound,
        "gap": plan.gap,
        "deterministic": plan.deterministic,
        "headroom": plan.headroom,
        "promises_held": plan.promises_held,
        "rounds": [_round(each) for each in plan.rounds],
        "relaxations": [{**asdict(one), "wishes": list(one.wishes)} for one in plan.relaxations],
        "migration": _migration(plan.migration),
        "starved": [asdict(each) for each in plan.starved],
        "strained": [
            {**asdict(each), "targets": list(each.targets), "neighbours": list(each.neighbours)}
            for each in plan.strained
        ],
        "turns": [{**asdict(each), "models": list(each.models)} for each in plan.turns],
        "replicas": [_replica(replica) for replica in plan.replicas],
        "gpus": [_gpu(gpu, plan) for gpu in plan.gpus],
        "naive": _naive(plan.naive),
        "shortfalls": [
            {
                "model": short.model,
                "shortfall_bytes": short.shortfall_bytes,
                "reason": short.reason,
                "remedies": list(short.remedies),
            }
            for short in plan.shortfalls
        ],
        "warnings": list(plan.warnings),
        "fleet": plan.fleet,
    }


def _migration(one: Migration | None) -> Document | None:
    if one is None:
        return None
    named = ("kept", "restarted", "moved", "started", "stopped", "downtimes")
    return {
        "previous_cost_per_hour": one.previous_cost,
        **{name: list(getattr(one, name)) for name in named},
        "steps": [{**asdict(step), "devices": [_device(device) for device in step.devices]} for step in one.steps],
    }


def _round(one: PlanRound) -> Document:
    return {
        "round": one.number,
        "cards": one.cards,
        "cost_per_hour": one.cost_per_hour,
        "lower_bound": one.lower_bound,
        "attainment": dict(one.attainment),
        "missed": list(one.missed),
        "tightened": list(one.tightened),
        "replays": one.replays,
        "requests": one.requests,
    }


def _replica(replica: ReplicaPlan) -> Document:
    settings = replica.settings
    return {
        "id": replica.id,
        "model": replica.model,
        "model_id": replica.model_id,
        "checkpoint": replica.checkpoint,
        "quantization": replica.quantization,
        "quantization_flag": replica.quantization_flag,
        "engine": f"{replica.engine}@{replica.engine_version}",
        "port": replica.port,
        "devices": [_device(device) for device in replica.devices],
        **settings_document(settings),
        "gpu_memory_utilization": settings.gpu_memory_utilization,
        "kv_cache_memory_bytes": settings.kv_cache_memory_bytes,
        **({} if settings.kv_cache_tokens is None else {"kv_cache_tokens": settings.kv_cache_tokens}),
        "adapters": [
            {"name": one.name, "rank": one.rank, "source": one.source, "share": one.share}
            for one in replica.adapters
        ],
        **({"also_serves": list(replica.also_serves)} if replica.also_serves else {}),
        "sharing": replica.sharing,
        "start_order": replica.start_order,
        "beside_bytes": replica.beside_bytes,
        "kv_needed_bytes": replica.kv_needed_bytes,
        "kv_worst_case_bytes": replica.kv_worst_case_bytes,
        "ttft_s": list(replica.ttft_s) if replica.ttft_s else None,
        "tpot_s": list(replica.tpot_s) if replica.tpot_s else None,
        "times_from": replica.times_from,
        "command": replica.command_line,
        "arguments": list(replica.command),
        "environment": dict(replica.environment),
        "why": replica.why,
        "runner_up": replica.runner_up,
    }


def _device(device: Device) -> Document:
    return {"type": device.type, "node": device.node, "index": device.index}


def _gpu(gpu: GpuPlan, plan: Plan) -> Document:
    return {
        **_device(gpu.device),
        "price_per_hour": gpu.price_per_hour,
        "capacity_bytes": gpu.capacity_bytes,
        "used_bytes": gpu.used_bytes,
        "budget_bytes": sum(share.budget_bytes for share in gpu.shares),
        "weights_bytes": sum(share.weights_bytes for share in gpu.shares),
        "kv_cache_bytes": sum(share.kv_cache_bytes for share in gpu.shares),
        "activations_bytes": sum(share.activations_bytes for share in gpu.shares),
        "runtime_bytes": sum(share.runtime_bytes for share in gpu.shares),
        "headroom_bytes": gpu.headroom_bytes,
        "load_peak_bytes": _load_peak(gpu, plan),
        "replicas": [_share(share) for share in gpu.shares],
        "spare": gpu.spare,
        "sleepers": [_sleeper(one) for one in gpu.sleepers],
    }


def _load_peak(gpu: GpuPlan, plan: Plan) -> int:
    """The most that the card holds while its replicas load in their order, what others hold included. Of those
    that take turns one is awake at a time, and none while another of them loads."""
    order = {replica.id: replica.start_order for replica in plan.replicas}
    asleep = _kept_asleep(gpu, plan)
    started: dict[str, list[GpuShare]] = {}
    peak = gpu.used_bytes
    for share in sorted((*gpu.shares, *(one.share for one in gpu.sleepers)), key=lambda one: order[one.replica]):
        group = asleep.get(share.replica, (share.replica, 0))[0]
        held = gpu.used_bytes
        for name, members in started.items():
            rests = [asleep.get(one.replica, ("", 0))[1] for one in members]
            awake = [one.claimed_bytes - rest for one, rest in zip(members, rests, strict=True)]
            held += sum(rests) + (0 if name == group else max(awake))
        peak = max(peak, held + max(share.load_peak_bytes, share.claimed_bytes))
        started.setdefault(group, []).append(share)
    return peak


def _kept_asleep(gpu: GpuPlan, plan: Plan) -> dict[str, tuple[str, int]]:
    """Of each replica here that takes turns: the name of its turns, and what it keeps of the card asleep."""
    model_of = {replica.id: replica.model for replica in plan.replicas}
    told = {one.share.replica: one.asleep_bytes for one in gpu.sleepers}
    found: dict[str, tuple[str, int]] = {}
    for share in (*gpu.shares, *(one.share for one in gpu.sleepers)):
        for number, turns in enumerate(plan.turns):
            if model_of[share.replica] in turns.models:
                kept = 0 if turns.mode == "restart" else share.runtime_bytes
                found[share.replica] = (f"turns {number}", told.get(share.replica, kept))
    return found


def _sleeper(one: Sleeper) -> Document:
    """`bytes` are what it keeps of the card asleep, `awake_bytes` what it takes of it awake."""
    return {
        **_share(one.share),
        "bytes": one.asleep_bytes,
        "awake_bytes": one.share.claimed_bytes,
        "host_bytes": one.host_bytes,
    }


def _share(share: GpuShare) -> Document:
    return {
        "id": share.replica,
        "rank": share.rank,
        "bytes": share.claimed_bytes,
        "budget_bytes": share.budget_bytes,
        "weights_bytes": share.weights_bytes,
        "kv_cache_bytes": share.kv_cache_bytes,
        "activations_bytes": share.activations_bytes,
        "runtime_bytes": share.runtime_bytes,
        "load_peak_bytes": share.load_peak_bytes,
    }


def _naive(naive: Naive | None) -> Document | None:
    if naive is None:
        return None
    return {
        "gpu": naive.gpu,
        "cards": naive.cards,
        "cost_per_hour": naive.cost_per_hour,
        "cards_ratio": naive.cards_ratio,
        "cost_ratio": naive.cost_ratio,
        "by_model": dict(naive.by_model),
    }
