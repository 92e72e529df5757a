"""From a plan, and a fresh estimate of each replica, to what a campaign measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.domain.estimate import Estimate
from cotenant.domain.explanation import TERMS
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.interval import Interval
from cotenant.domain.plan import GpuShare, Plan, ReplicaPlan
from cotenant.domain.workload import SILENT, Lengths
from cotenant.verification.subject import Subject

_OUTPUT = 16  # tokens of an answer where the plan says nothing of its traffic


def subject_of(
    plan: Plan, replica: ReplicaPlan, found: Estimate | None, request: ModelRequest | None = None, family: str = ""
) -> Subject:
    """What the plan says of `replica`. The plan's bytes are what is held to; their intervals come from `found`."""
    on_host = replica.settings.works_on_host
    share = _share(plan, replica)
    estimated = None if found is None else estimated_terms(found, share.rank, on_host=on_host)
    planned = (share.weights_bytes, share.kv_cache_bytes, share.activations_bytes, share.runtime_bytes)
    terms = [
        _about(value, None if estimated is None else estimated[name])
        for name, value in zip(TERMS, planned, strict=True)
    ]
    settings, options = replica.settings, replica.settings.llama_cpp
    slots = settings.slots or 1  # a plan that says nothing has promised no more
    context = options.n_ctx // slots if options and options.n_ctx else 2048
    tokens = settings.max_model_len or context
    traffic = None if request is None else request.traffic
    asked = (traffic.input_tokens or traffic.context_tokens) if traffic else None
    answered = traffic.output_tokens if traffic else None
    return Subject(
        id=replica.id, model=replica.model, engine=replica.engine, version=replica.engine_version,
        gpu=replica.devices[0].type, family=family,
        terms=(terms[0], terms[1], terms[2], terms[3]), concurrency=slots, tokens=tokens,
        input_tokens=min(tokens, _typical(asked, tokens // 4)), output_tokens=_typical(answered, _OUTPUT),
        token_bytes=0 if found is None else found.kv_cache.bytes_per_token,
        fixed_bytes=0 if found is None else found.kv_cache.bytes_per_sequence,
        claimed_bytes=share.claimed_bytes, on_host=on_host, rank=share.rank,
        requests_per_second=None if traffic is None else traffic.requests_per_second,
        ttft_s=replica.ttft_s, tpot_s=replica.tpot_s,
        input_lengths=None if traffic is None else traffic.input_tokens,
        output_lengths=None if traffic is None else traffic.output_tokens,
        silent=request is not None and request.task in SILENT,
        estimated=None if estimated is None else tuple(estimated[name] for name in TERMS),
    )  # fmt: skip


def estimated_terms(found: Estimate, rank: int, *, on_host: bool) -> Mapping[str, Interval]:
    """The four terms of one rank of a replica, or of all of it in host memory where it works from there."""
    if on_host and found.host is not None:
        host = found.host
        return {
            "weights": Interval.exact(host.weights),
            "kv_cache": Interval.exact(host.kv_cache),
            "activations": host.computed or Interval.exact(host.compute),
            "runtime": host.runtime or Interval.exact(0),
        }
    mine = next((one for one in found.per_gpu if one.rank == rank), found.per_gpu[0]).terms
    return {name: mine[name].bytes for name in TERMS}


def side_by_side(plan: Plan, replicas: Sequence[ReplicaPlan]) -> bool:
    """Whether the plan keeps all of them loaded at once."""
    turned = {name for turns in plan.turns for name in turns.models}
    sleepers = any(gpu.sleepers for gpu in plan.gpus)
    return not sleepers and not turned and all(gpu.headroom_bytes >= 0 for gpu in plan.gpus) and len(replicas) > 0


def _share(plan: Plan, replica: ReplicaPlan) -> GpuShare:
    """Its largest rank."""
    mine = [share for gpu in plan.gpus for share in gpu.shares if share.replica == replica.id]
    mine += [one.share for gpu in plan.gpus for one in gpu.sleepers if one.share.replica == replica.id]
    empty = GpuShare(replica.id, 0, 0, 0, 0, 0, 0, 0)
    return max(mine, key=lambda share: share.claimed_bytes, default=empty)


def _about(planned: int, estimated: Interval | None) -> Interval:
    """The plan's figure, as open as the estimate's is."""
    if estimated is None:
        return Interval.exact(planned)
    return Interval(min(planned, estimated.low), planned, max(planned, estimated.high))


def _typical(lengths: Lengths | None, otherwise: int) -> int:
    if lengths is None:
        return max(1, otherwise)
    return max(1, lengths.p50 or lengths.p95 or otherwise)
