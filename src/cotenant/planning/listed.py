"""Every way in which the models of a fleet may be served, as a reader may ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf

from cotenant.domain.fleet import Fleet
from cotenant.domain.way import Way
from cotenant.planning.candidates import ways_of
from cotenant.planning.problem import Candidate, Refusal
from cotenant.planning.ways import Dropped
from cotenant.planning.why import split_words


def ways_listed(fleet: Fleet) -> tuple[Way, ...]:
    """Model by model: the candidates, those that another one beats, those that were refused."""
    return tuple(way for number in range(len(fleet.models)) for way in _of(fleet, number))


def _of(fleet: Fleet, number: int) -> Iterator[Way]:
    found = ways_of(fleet, number)
    for one in found.candidates:
        yield _sized(fleet, one, "")
    for dropped in found.dropped:
        yield _sized(fleet, dropped.candidate, _beaten(dropped))
    for refusal in found.refusals:
        yield _refused(fleet, refusal)


def _beaten(dropped: Dropped) -> str:
    by = dropped.by
    less = "as large and as fast" if by.claim_bytes == dropped.candidate.claim_bytes else "smaller, no slower"
    kv = by.settings.kv_cache_dtype
    split = "" if _split(by) == _split(dropped.candidate) else f", {split_words(by)}"
    experts = dropped.candidate.settings.enable_expert_parallel
    what = " (whole experts on each rank)" if experts else ""
    if dropped.candidate.step_share != 1:
        what += f" ({dropped.candidate.settings.max_num_batched_tokens:,} tokens a step)"
    told = f"dominated by {by.format}{'' if kv == 'auto' else f' with {kv} cache'}{split}"
    return f"{told}: {less}, no worse in quality{what}"


def _split(one: Candidate) -> tuple[int, int]:
    return one.tensor_parallel_size, one.pipeline_parallel_size


def _sized(fleet: Fleet, one: Candidate, reason: str) -> Way:
    return Way(
        model=fleet.models[one.request].name,
        format=one.format,
        gpu=fleet.gpus[one.offer].gpu.name,
        kv_cache_dtype=one.settings.kv_cache_dtype,
        tensor_parallel_size=one.tensor_parallel_size // one.pipeline_parallel_size,
        pipeline_parallel_size=one.pipeline_parallel_size,
        expert_parallel=one.settings.enable_expert_parallel,
        replicas=one.replicas,
        claim_bytes=one.claim_bytes,
        busy=one.busy,
        slack=None if isinf(one.slack) else one.slack,
        offered=not reason,
        reason=reason or one.reason,
        max_num_batched_tokens=one.settings.max_num_batched_tokens,
        step_share=one.step_share,
    )


def _refused(fleet: Fleet, refusal: Refusal) -> Way:
    return Way(
        model=fleet.models[refusal.request].name,
        format=refusal.format,
        gpu=fleet.gpus[refusal.offer].gpu.name,
        kv_cache_dtype="",
        tensor_parallel_size=refusal.tensor_parallel_size,
        replicas=0,
        claim_bytes=0,
        busy=None,
        slack=None,
        offered=False,
        reason=refusal.reason,
    )
