"""A way to serve a model, sized from its traffic: the fewest replicas that carry it, fit and hold its SLO.

Each number of replicas is tried in the order in which it fails soonest: the demand, the memory that holds it, the
card's room, everything that an engine checks, the SLO. The terms of the memory are worked out once; the whole
estimate, with its sentences, is left to whoever looks at it (`judged`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.domain.demand import Demand
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Estimate, Verdict
from cotenant.domain.step_time import Scaled, Times
from cotenant.errors import UnsupportedError
from cotenant.estimation.demand import demand
from cotenant.estimation.inverse import allocated_sizing, size_pool
from cotenant.estimation.memory_checks import claimed_bytes, pools_of
from cotenant.estimation.memory_checks import judged as judged_terms
from cotenant.estimation.memory_terms import ReplicaMemory, with_pool
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.sequence_limit import longest_sequence
from cotenant.planning.case import Case
from cotenant.planning.judged import Judged, judged
from cotenant.planning.problem import Candidate, Refusal
from cotenant.planning.splits import Split, split_of


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a number of replicas does not do; what each was asked, where that is known. `late`: the SLO breaks."""

    refusal: Refusal
    asked: Demand | None = None
    late: bool = False


@dataclass(frozen=True, slots=True)
class Fewest:
    """The fewest replicas that do (None: none), and why fewer, or the most, do not (None: the least do)."""

    way: Candidate | None
    failed: Failed | None

    @property
    def outcome(self) -> Candidate | Refusal:
        """The way, else the refusal."""
        if self.way is not None:
            return self.way
        if self.failed is None:
            raise ValueError("neither a way nor a reason")
        return self.failed.refusal


def fewest_replicas(case: Case, split: Split) -> Fewest:
    """The least number of replicas that serves the traffic, fits and holds the SLO; else the last refusal."""
    most, least = case.replicas_at_most(split), case.request.min_replicas
    try:
        case.served.whole_times(split)
        heavy = case.too_large(split, "weights take", case.served.weights_bytes(split))
        if heavy is not None:  # no traffic needs to be looked at then
            return Fewest(None, Failed(heavy))
        if most < least:
            return Fewest(None, Failed(case.refusal(split, f"fewer than {least * split.size} such cards")))
        return _fewest(case, split, case.served.times(split, case.step), most)
    except UnsupportedError as error:
        return Fewest(None, Failed(case.refusal(split, error.message, unsplittable=True)))


def _fewest(case: Case, split: Split, times: Roofline, most: int) -> Fewest:
    """The fewest replicas that do, else why `most` do not. One more never needs a larger card nor serves more
    slowly, so where the most fail all fail, and what lies between is found by doubled steps, then halved ones."""
    failing = case.request.min_replicas
    outcome = _sized(case, split, times, failing)
    if isinstance(outcome, Candidate):
        return Fewest(outcome, None)
    if failing == most or case.is_hopeless(times):
        return Fewest(None, outcome)
    best, why = _sized(case, split, times, most), outcome
    if isinstance(best, Failed):
        return Fewest(None, best)
    step = 1
    while best.replicas - failing > 1:
        middle = min(failing + step, (failing + best.replicas) // 2)
        outcome = _sized(case, split, times, middle)
        if isinstance(outcome, Candidate):
            best = outcome
        else:
            failing, step, why = middle, 2 * step, outcome
    return Fewest(best, why)


def sized_with(case: Case, split: Split, replicas: int) -> Candidate | Failed:
    """That number of replicas."""
    try:
        return _sized(case, split, case.served.times(split, case.step), replicas)
    except UnsupportedError as error:
        return Failed(case.refusal(split, error.message))


def demand_of(case: Case, split: Split, replicas: int) -> Demand | None:
    """What one of so many replicas must hold; None where its requests would pile up."""
    asked = _demand(case, split, case.served.times(split, case.step), replicas)
    return asked if isinstance(asked, Demand) else None


def is_late_anyway(case: Case, split: Split, replicas: int) -> bool:
    """Whether so many replicas miss the SLO even where every prompt is read in one step."""
    asked = _demand(case, split, case.served.whole_times(split), replicas)
    return not isinstance(asked, Demand) or asked.slo_held is False


def beside_pool_bytes(case: Case, split: Split, asked: Demand) -> int:
    """What the fullest rank takes beside its pool, of an engine that fills a budget."""
    used = case.offer.used_bytes
    return case.served.opened(split, used, asked.max_num_seqs, asked.max_model_len, case.step)[1].beside_pool_bytes


@dataclass(frozen=True, slots=True)
class _Held:
    """What a replica with its pool takes of each card, and why it does not fit ("" where it does)."""

    settings: EngineSettings
    claim_bytes: int
    load_peak_bytes: int
    fault: str
    estimate: Estimate | None = None


def _sized(case: Case, split: Split, times: Roofline, replicas: int) -> Candidate | Failed:
    """One number of replicas: demand, settings, memory, and everything that must hold."""
    asked = _demand(case, split, times, replicas)
    if isinstance(asked, Refusal):
        return Failed(asked)
    unfit = case.unfit_step(asked)
    if unfit:
        return Failed(case.refusal(split, unfit))
    held = _filled(case, split, asked) if case.served.is_filled else _allocated(case, split, asked)
    large = case.too_large(split, "needs", held.claim_bytes)
    if large is not None:
        return Failed(large, asked)
    if held.fault:
        return Failed(case.refusal(split, held.fault), asked)
    if asked.slo_held is False:
        return Failed(case.too_slow(split, times, asked), asked, late=True)
    return _candidate(case, split, held, asked, times, replicas)


def _filled(case: Case, split: Split, asked: Demand) -> _Held:
    """An engine that fills a budget: terms once, then the smallest pool that holds the demand."""
    used, kv_bytes = case.offer.used_bytes, asked.kv_pool_bytes
    resolved, bare = case.served.opened(split, used, asked.max_num_seqs, asked.max_model_len, case.step)
    if bare.in_bytes is not None:
        given = bare.in_bytes.given(resolved, kv_bytes)
        if given.fits or given.claimed_bytes > case.room_bytes:  # nobody asks what else fails then
            return _Held(given.settings, given.claimed_bytes, bare.load_peak_bytes, "")
    memory = _with_smallest_pool(case, bare.memory(resolved), kv_bytes)
    pools = pools_of(memory)
    verdict, reason = judged_terms(memory, pools, case.served.engine, used, asked)
    return _Held(
        memory.settings,
        claimed_bytes(memory, pools),
        bare.load_peak_bytes,
        "" if verdict is Verdict.FITS else f"{verdict}: {reason}",
    )


def _with_smallest_pool(case: Case, bare: ReplicaMemory, kv_bytes: int) -> ReplicaMemory:
    granted = size_pool(bare, kv_bytes, in_bytes=bare.rules.has_cache_bytes).settings
    return with_pool(bare, granted, engine=case.served.engine, used_bytes=case.offer.used_bytes)


def taken_as(case: Case, split: Split, like: Candidate) -> tuple[int, int]:
    """(bytes for good, while it loads) of the fullest rank, were a replica with that split to hold what
    `like` does, of an engine that fills a budget. Raises UnsupportedError for what the engine refuses.

    Stages are slower than ranks, so for the same traffic they hold no less: it is a floor of theirs.
    """
    asked, mine = like.demand, case.served.reserved(split)
    theirs = case.served.reserved(split_of(like.settings))
    kv_bytes = asked.kv_pool_bytes
    if kv_bytes:
        length = asked.max_model_len
        kv_bytes = kv_bytes * mine(length) // max(1, theirs(length))
    used = case.offer.used_bytes
    resolved, bare = case.served.opened(split, used, asked.max_num_seqs, asked.max_model_len)
    if bare.in_bytes is not None:
        return bare.in_bytes.likely_bytes(resolved, kv_bytes), bare.load_peak_bytes
    memory = bare.memory(resolved)
    if memory.rules.has_cache_bytes:  # the quick way to the same figure
        return size_pool(memory, kv_bytes, in_bytes=True).claimed_bytes, bare.load_peak_bytes
    memory = _with_smallest_pool(case, memory, kv_bytes)
    return claimed_bytes(memory, pools_of(memory)), bare.load_peak_bytes


def _allocated(case: Case, split: Split, asked: Demand) -> _Held:
    """An engine that allocates what its settings say: they are its pool."""
    one = case.served
    settings = replace(
        one.settings(split, case.step), max_num_seqs=asked.max_num_seqs, max_model_len=asked.max_model_len
    )  # fmt: skip
    granted = allocated_sizing(
        one.model, one.gpu, settings, engine=one.engine, version=one.version, format=one.served.format
    ).settings
    found = judged(case.request, case.offer, one, granted, asked)
    return _Held(
        granted,
        max(rank.claimed_bytes for rank in found.per_gpu),
        max(rank.load_peak.value for rank in found.per_gpu),
        "" if found.fits else f"{found.verdict}: {found.reason}",
        found,
    )


def _demand(case: Case, split: Split, times: Roofline, replicas: int) -> Demand | Refusal:
    """What one replica must hold; the longest sequence grown to the pool where one percentile alone is known."""
    request, sequence_bytes = case.request, case.served.reserved(split, case.step)
    asked = demand(
        request.model, request.traffic, times=_paced(times, case.pace), sequence_bytes=sequence_bytes,
        slo=request.slo, overflow=case.kv_overflow, replicas=replicas, adapters=request.adapters,
        quick=case.quick,
    )  # fmt: skip
    if not isinstance(asked, Demand):
        return case.refusal(split, asked.reason)
    if not asked.max_model_len_is_minimum or not request.model.has_cache:
        return asked
    traffic = request.traffic
    parts = (traffic.input_tokens, traffic.output_tokens, traffic.context_tokens)
    known = sum(part.p95 or part.p50 or part.maximum or 0 for part in parts if part is not None)
    length = longest_sequence(
        asked.kv_pool_bytes, sequence_bytes, percentile=known, model_limit=request.model.max_model_len
    )  # fmt: skip
    length = max(length, asked.max_model_len)
    longest = sequence_bytes(length)
    return replace(
        asked, max_model_len=length, kv_minimum_bytes=longest, kv_worst_case_bytes=longest * asked.max_num_seqs
    )  # fmt: skip


def _paced(times: Roofline, pace: float) -> Times:
    return times if pace == 1 else Scaled(times, pace, times.low, times.high)


def _candidate(
    case: Case, split: Split, held: _Held, asked: Demand, times: Roofline, replicas: int
) -> Candidate:  # fmt: skip
    step = times.decode_step_s(max(1.0, asked.mean_in_service), asked.kv_needed_tokens)
    own = case.served.reserved(split).batched_tokens if case.step else 1
    busy = 1 - (1 - asked.busy) ** (1 / case.pace)  # the same work spread out: busy is 1 - exp(-number in service)
    return Candidate(
        request=case.number,
        offer=case.offer_number,
        format=case.served.choice.format,
        checkpoint=case.served.served.model_path,
        tensor_parallel_size=split.size,
        pipeline_parallel_size=split.pipeline,
        replicas=replicas,
        claim_bytes=held.claim_bytes,
        load_peak_bytes=held.load_peak_bytes,
        busy=busy * max(0.0, 1 - times.overhead_s / step) if step > 0 else busy,
        slack=max(0.0, (1 + asked.slack) * case.pace - 1),
        quality_rank=case.served.choice.rank - 1,
        settings=held.settings,
        judged=Judged(
            held.settings, asked, case.served.precision, (case.request, case.offer, case.served), held.estimate
        ),
        demand=asked,
        reason=_reason(case, own),
        step_share=case.step / own if case.step else 1.0,
    )


def _reason(case: Case, own: int) -> str:
    reason = case.served.choice.reason
    return f"{reason}; a step reads {case.step:,} tokens instead of {own:,}" if case.step else reason
