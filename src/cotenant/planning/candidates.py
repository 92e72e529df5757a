"""Every way in which a model may be served on the fleet's cards, sized from its traffic.

The declared space: each format that passes the decision matrix, each KV type allowed, the two smallest powers of
two of tensor parallel that do inside a node, pipeline stages and whole experts beside them (`splits`), and the
smallest number of replicas that carries the traffic and holds the SLO. Of these, what another way beats in every
respect is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import floor

from cotenant.domain.demand import Demand
from cotenant.domain.engine import AdapterSlots, EngineSettings, Version
from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import Fleet, GpuOffer, ModelRequest
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.quantization import PrecisionChoice
from cotenant.domain.step_time import Scaled, Times
from cotenant.engines import find_engine
from cotenant.engines.rules import EngineRules
from cotenant.errors import UnsupportedError
from cotenant.estimation.compound_arrays import compiled
from cotenant.estimation.demand import demand
from cotenant.estimation.inverse import settings_for_pool
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.precision import candidates as precision_candidates
from cotenant.estimation.precision import decide
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.sequence_limit import longest_sequence
from cotenant.estimation.served_format import ServedFormat, served_format
from cotenant.estimation.sizing import reserved_bytes
from cotenant.estimation.step_time import roofline
from cotenant.estimation.weights import weights_per_rank
from cotenant.planning.problem import Candidate, Refusal
from cotenant.planning.splits import Split, has_expert_parallel, has_stages, in_stages, split_of, tensor_sizes
from cotenant.units import format_gib, format_seconds

MOST_REPLICAS = 64
TENSOR_PARALLEL_SIZES = 2  # the smallest that does, and one more for its speed and its smaller shares
PIPELINES = 2  # sizes with stages, the smallest that do
RAW_FIGURES = "raw figures"
SIXTEEN_BITS = ("bf16", "fp16")
_COMPILE_FROM = 100  # models x offers: below, loading the compiler takes longer than it saves
_BESIDE_SIZES = ("name", "priority", "pin_gpus", "apart_from", "also_serves", "spread")


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that another one beats or equals in every respect."""

    candidate: Candidate
    by: Candidate


@dataclass(frozen=True, slots=True)
class Ways:
    """What was found for one model: the candidates, what was refused, with reasons, and what another one beats."""

    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...]
    dropped: tuple[Dropped, ...] = ()


_ON_OFFER: IdentityCache[Ways] = IdentityCache(1024)


@dataclass(frozen=True, slots=True)
class _Case:
    """One model on one offer in one precision: what all its sizes share."""

    fleet: Fleet
    number: int
    request: ModelRequest
    offer_number: int
    offer: GpuOffer
    engine: EngineRules
    version: Version
    choice: PrecisionChoice
    served: ServedFormat
    kv_cache_dtype: str
    pace: float = 1.0  # how much slower than alone it is sized to run

    def refusal(self, size: int, reason: str, shortfall_bytes: int = 0) -> Refusal:
        return Refusal(self.number, self.offer_number, self.choice.format, size, reason, shortfall_bytes)


def ways_of(fleet: Fleet, number: int, pace: float = 1.0) -> Ways:
    """All candidates of one model over every offer; a fleet that differs elsewhere finds them sized already.

    With a `pace` above 1 each is sized to keep its SLO although every step takes that many times as long: more
    requests are in flight then, so it holds more cache, and may need more replicas.
    """
    request = fleet.models[number]
    parts = [
        _ON_OFFER.get(
            (request, offer),
            (number, offer_number, fleet.headroom, fleet.kv_overflow, pace),
            partial(_ways_on, fleet, number, offer_number, pace),
        )
        for offer_number, offer in enumerate(fleet.gpus)
    ]
    return Ways(
        tuple(candidate for part in parts for candidate in part.candidates),
        tuple(refusal for part in parts for refusal in part.refusals),
        tuple(dropped for part in parts for dropped in part.dropped),
    )


def _ways_on(fleet: Fleet, number: int, offer_number: int, pace: float) -> Ways:
    """All candidates of one model on the cards of one offer."""
    found: list[Candidate] = []
    refused: list[Refusal] = []
    for case in _cases(fleet, number, offer_number, pace, refused):
        mine, missing = _in_tensors(case)
        staged, lacking = _in_stages(case, mine, missing)
        found += (*mine, *staged, *_with_whole_experts(case, mine))
        refused += (*missing, *lacking)
    kept = undominated(found)
    return Ways(kept, tuple(refused), tuple(_dropped(found, kept)))


def _dropped(found: Sequence[Candidate], kept: Sequence[Candidate]) -> Iterator[Dropped]:
    staying = set(map(id, kept))
    for one in found:
        if id(one) not in staying:
            yield Dropped(one, next(other for other in kept if _dominates(other, one)))


def undominated(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Without those that another beats or equals in every respect; of equals the first stays."""
    kept: list[Candidate] = []
    for one in candidates:
        if any(_dominates(other, one) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(one, other)]
        kept.append(one)
    return tuple(kept)


def _dominates(one: Candidate, other: Candidate) -> bool:
    """Whether `one` can take the place of `other` in any plan and leave it no worse.

    The same cards and group size at most as many groups, each no larger, no busier and no less patient, in a
    precision at least as good.
    """
    return (
        one.offer == other.offer
        and one.tensor_parallel_size == other.tensor_parallel_size
        and one.replicas <= other.replicas
        and one.claim_bytes <= other.claim_bytes
        and one.load_peak_bytes <= other.load_peak_bytes
        and one.busy <= other.busy
        and one.slack >= other.slack
        and one.quality_rank <= other.quality_rank
    )


def _cases(fleet: Fleet, number: int, offer_number: int, pace: float, refused: list[Refusal]) -> Iterator[_Case]:
    """The precisions that may run there; the others go to `refused`."""
    request, offer = fleet.models[number], fleet.gpus[offer_number]
    engine, version = find_engine(request.engine)
    rows = decide(
        offer.gpu, engine=engine.name, version=version, task=request.task, model=request.model,
        max_loss_percent=request.max_loss_percent, checkpoints=request.checkpoints, wishes=request.formats,
    )  # fmt: skip
    able = precision_candidates(rows)
    allowed = [row for row in able if _is_sure(row, request)]
    names = {row.format for row in allowed}
    unproven = {row.format for row in able if not row.quality_known and (row.checkpoint or row.online)}
    refused += [
        Refusal(number, offer_number, row.format, 0, row.reason, unproven=row.format in unproven)
        for row in rows
        if row.format not in names
    ]
    loaded = LoadedModel(request.model, request.model_id, request.checkpoints, request.task, "")
    for row in allowed:
        try:
            served = served_format(loaded, row.format, offer.gpu, engine=engine, version=version)
        except UnsupportedError as error:
            refused.append(Refusal(number, offer_number, row.format, 0, error.message))
            continue
        for dtype in request.kv_cache_dtypes:
            yield _Case(
                fleet, number, request, offer_number, offer, engine, version, row, served, dtype, pace
            )  # fmt: skip


def _is_sure(row: PrecisionChoice, request: ModelRequest) -> bool:
    """Whether a plan may choose it unasked: its loss is known to pass, and there is something to load.

    Raw figures are planned as they are given: nobody knows what else there is to load.
    """
    if row.format in request.formats or row.format in SIXTEEN_BITS or row.format == request.model.quantization:
        return True
    if request.model.architecture == RAW_FIGURES:
        return False
    return row.quality_known and bool(row.checkpoint or row.online)


def _limit(offer: GpuOffer) -> int:
    """The most cards that one replica may have: those of a node. A process sees one MIG slice only."""
    if offer.slice_of is not None:
        return 1
    return min(
        offer.node_size, *(each for each in (offer.count, offer.maximum, offer.node_size) if each is not None)
    )


def _in_tensors(case: _Case) -> tuple[list[Candidate], list[Refusal]]:
    """The smallest powers of two that do, and why smaller ones do not."""
    found: list[Candidate] = []
    refused: list[Refusal] = []
    for size in tensor_sizes(_limit(case.offer)):
        outcome = _smallest(case, Split(size))
        if isinstance(outcome, Refusal):
            refused.append(outcome)
            continue
        found.append(outcome)
        if len(found) == TENSOR_PARALLEL_SIZES:
            break
    return found, refused


def _in_stages(
    case: _Case, whole: Sequence[Candidate], refused: Sequence[Refusal]
) -> tuple[list[Candidate], list[Refusal]]:
    """The smallest splits with pipeline stages that do, where tensor parallel leaves something to gain."""
    splits = in_stages(
        case.engine.name, _limit(case.offer), case.request.model.num_layers,
        held=min((one.tensor_parallel_size for one in whole), default=None),
        refused=[one.tensor_parallel_size for one in refused if not one.shortfall_bytes and one.unsplittable],
        copied=[one.tensor_parallel_size for one in whole if _keeps_copies(case, one.tensor_parallel_size)],
    )  # fmt: skip
    found: list[Candidate] = []
    lacking: list[Refusal] = []
    for split in splits:
        if any(one.tensor_parallel_size == split.size for one in found):
            continue
        outcome = _smallest(case, split)
        if isinstance(outcome, Refusal):
            told = f"{split.pipeline} stages of {split.tensor}: {outcome.reason}"
            lacking.append(replace(outcome, reason=told))
            continue
        found.append(outcome)
        if len(found) == PIPELINES:
            break
    return found, lacking


def _keeps_copies(case: _Case, size: int) -> bool:
    """Whether so many ranks hold more cache between them than half as many ranks in two stages."""
    if size == 1 or not has_stages(case.engine.name) or not case.request.model.has_cache:
        return False
    whole, staged = (
        reserved_bytes(
            case.request.model, case.offer.gpu, _settings(case, split), engine=case.engine, version=case.version
        )(4096)
        for split in (Split(size), Split(size // 2, 2))
    )  # fmt: skip
    return staged * 5 < whole * 4


def _with_whole_experts(case: _Case, whole: Sequence[Candidate]) -> Iterator[Candidate]:
    """The same with expert parallel."""
    for one in whole:
        if has_expert_parallel(case.engine.name, case.request.model.num_experts, one.tensor_parallel_size):
            outcome = _smallest(case, Split(one.tensor_parallel_size, experts=True))
            if isinstance(outcome, Candidate):
                yield outcome


def _settings(case: _Case, split: Split) -> EngineSettings:
    return EngineSettings(
        tensor_parallel_size=split.tensor, pipeline_parallel_size=split.pipeline,
        enable_expert_parallel=split.experts, kv_cache_dtype=case.kv_cache_dtype, adapters=_slots(case.request),
        speculation=case.request.speculation,
    )  # fmt: skip


def _smallest(case: _Case, split: Split) -> Candidate | Refusal:
    """The least number of replicas that serves the traffic, fits and holds the SLO; else the last refusal."""
    request, offer, size = case.request, case.offer, split.size
    limits = [request.max_replicas or MOST_REPLICAS, MOST_REPLICAS]
    limits += [each // size for each in (offer.count, offer.maximum) if each is not None]
    settings = _settings(case, split)
    try:
        times = roofline(
            request.model, offer.gpu, engine=case.engine.name, version=case.version, format=case.served.format,
            kernel=case.served.kernel, tensor_parallel_size=_at_once(case, split.tensor),
            kv_cache_dtype=case.kv_cache_dtype,
        )  # fmt: skip
        heavy = _too_heavy(case, split)
        if heavy is not None:
            return heavy
        if min(limits) < request.min_replicas:
            return case.refusal(size, f"fewer than {request.min_replicas * size} such cards")
        return _fewest(case, settings, times, min(limits))
    except UnsupportedError as error:
        return replace(case.refusal(size, error.message), unsplittable=True)


def _at_once(case: _Case, size: int) -> int:
    """GPUs that work on one token at a time: where whole layers are dealt to them, one works after another."""
    return size if case.engine.rules(case.version).allocate is None else 1


def _fewest(case: _Case, settings: EngineSettings, times: Roofline, most: int) -> Candidate | Refusal:
    """The fewest replicas that do, else why `most` do not. One more never needs a larger card nor serves more
    slowly, so where the most fail all fail, and what lies between is found by doubled steps, then halved ones."""
    failing = case.request.min_replicas
    outcome = _sized(case, settings, times, failing)
    if isinstance(outcome, Candidate) or failing == most or _is_hopeless(times, case.request, case.pace):
        return outcome
    best = _sized(case, settings, times, most)
    if isinstance(best, Refusal):
        return best
    step = 1
    while best.replicas - failing > 1:
        middle = min(failing + step, (failing + best.replicas) // 2)
        outcome = _sized(case, settings, times, middle)
        if isinstance(outcome, Candidate):
            best = outcome
        else:
            failing, step = middle, 2 * step
    return best


def _too_heavy(case: _Case, split: Split) -> Refusal | None:
    """A refusal where the weights alone overflow the room: no traffic needs to be looked at then."""
    room = _room(case)
    weights = max(
        term.bytes.value
        for term in weights_per_rank(
            case.request.model, case.served.format, tensor_parallel_size=split.tensor,
            pipeline_parallel_size=split.pipeline,
        )
    )  # fmt: skip
    if weights <= room:
        return None
    return case.refusal(split.size, _short("weights take", weights, room, case), weights - room)


def _room(case: _Case) -> int:
    """What the headroom and others leave of one card."""
    return floor(case.offer.gpu.cuda_bytes.value * (1 - case.fleet.headroom)) - case.offer.used_bytes


def _slots(request: ModelRequest) -> AdapterSlots | None:
    if not request.adapters:
        return None
    return AdapterSlots(len(request.adapters), max(adapter.rank for adapter in request.adapters))


def _is_hopeless(times: Roofline, request: ModelRequest, pace: float) -> bool:
    """Whether more replicas cannot help: one request alone breaks the SLO."""
    slo = request.slo
    return slo is not None and slo.tpot_s is not None and times.decode_step_s(1, 1) * pace > slo.tpot_s


def _sized(case: _Case, settings: EngineSettings, times: Roofline, replicas: int) -> Candidate | Refusal:
    """One number of replicas: demand, settings, estimate, and everything that must hold."""
    size = split_of(settings).size
    asked = _demand(case, settings, times, replicas)
    if isinstance(asked, Refusal):
        return asked
    granted = settings_for_pool(
        case.request.model, case.offer.gpu,
        replace(settings, max_num_seqs=asked.max_num_seqs, max_model_len=asked.max_model_len),
        engine=case.engine, version=case.version, format=case.served.format, kv_bytes=asked.kv_pool_bytes,
        used_bytes=case.offer.used_bytes,
    ).settings  # fmt: skip
    estimate = judged(case.fleet, case.request, case.offer, granted, case.served, asked)
    claim = max(rank.claimed_bytes for rank in estimate.per_gpu)
    room = _room(case)
    if claim > room:
        return case.refusal(size, _short("needs", claim, room, case), claim - room)
    if not estimate.fits:
        return case.refusal(size, f"{estimate.verdict}: {estimate.reason}")
    if asked.slo_held is False:
        return case.refusal(size, _floor_reason(case, times) or _slo_reason(asked, case.request))
    return _candidate(case, granted, estimate, asked, times, replicas, claim)


def _demand(case: _Case, settings: EngineSettings, times: Roofline, replicas: int) -> Demand | Refusal:
    """What one replica must hold; the longest sequence grown to the pool where one percentile alone is known."""
    request = case.request
    sequence_bytes = reserved_bytes(
        request.model, case.offer.gpu, settings, engine=case.engine, version=case.version
    )  # fmt: skip
    asked = demand(
        request.model, request.traffic, times=_paced(times, case.pace), sequence_bytes=sequence_bytes,
        slo=request.slo, overflow=case.fleet.kv_overflow, replicas=replicas, adapters=request.adapters,
        search=compiled() if len(case.fleet.models) * len(case.fleet.gpus) >= _COMPILE_FROM else None,
    )  # fmt: skip
    if not isinstance(asked, Demand):
        return case.refusal(split_of(settings).size, asked.reason)
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


def judged(
    fleet: Fleet,
    request: ModelRequest,
    offer: GpuOffer,
    settings: EngineSettings,
    served: ServedFormat,
    asked: Demand | None,
) -> Estimate:
    """The estimate of one replica of `request` with these settings, alone on a card of `offer`."""
    engine, version = find_engine(request.engine)
    return estimate_memory(
        request.model, offer.gpu, settings, engine=engine, version=version, format=served.format,
        used_bytes=offer.used_bytes, demand=asked, model_path=served.model_path,
    )  # fmt: skip


def _candidate(
    case: _Case,
    granted: EngineSettings,
    estimate: Estimate,
    asked: Demand,
    times: Roofline,
    replicas: int,
    claim: int,
) -> Candidate:
    step = times.decode_step_s(max(1.0, asked.mean_in_service), asked.kv_needed_tokens)
    busy = 1 - (1 - asked.busy) ** (1 / case.pace)  # the same work spread out: busy is 1 - exp(-number in service)
    return Candidate(
        request=case.number,
        offer=case.offer_number,
        format=case.choice.format,
        checkpoint=case.served.model_path,
        tensor_parallel_size=split_of(granted).size,
        pipeline_parallel_size=granted.pipeline_parallel_size,
        replicas=replicas,
        claim_bytes=claim,
        load_peak_bytes=max(rank.load_peak.value for rank in estimate.per_gpu),
        busy=busy * max(0.0, 1 - times.overhead_s / step) if step > 0 else busy,
        slack=max(0.0, (1 + asked.slack) * case.pace - 1),
        quality_rank=case.choice.rank - 1,
        estimate=estimate,
        demand=asked,
        reason=case.choice.reason,
    )


def _short(verb: str, need: int, room: int, case: _Case) -> str:
    share = f"{case.fleet.headroom:.0%}"
    if room <= 0:
        held = f" beside what others hold ({format_gib(case.offer.used_bytes)})" if case.offer.used_bytes else ""
        return f"{verb} {format_gib(need)}, nothing of {case.offer.gpu.name} is left after {share} headroom{held}"
    return (
        f"{verb} {format_gib(need)}, {format_gib(room)} of {case.offer.gpu.name} are left after {share} headroom"
    )


def _floor_reason(case: _Case, times: Roofline) -> str:
    """Where one request alone is too slow: no traffic, slot or neighbour has anything to do with it."""
    if not _is_hopeless(times, case.request, 1.0):
        return ""
    slo = case.request.slo
    target = slo.tpot_s if slo is not None and slo.tpot_s is not None else 0.0
    floor = format_seconds(times.decode_step_s(1, 1))
    return (
        f"a TPOT of {format_seconds(target)} is below the floor of {case.offer.gpu.name}: one step for one "
        f"request alone takes {floor}"
    )


def _slo_reason(asked: Demand, request: ModelRequest) -> str:
    parts = []
    for name, found, target in (
        ("TTFT", asked.ttft_s, request.slo.ttft_s if request.slo else None),
        ("TPOT", asked.tpot_s, request.slo.tpot_s if request.slo else None),
    ):
        if found and target is not None and found[1] > target:
            parts.append(f"estimated {name} {format_seconds(found[1])} is above {format_seconds(target)}")
    return "; ".join(parts) or "the SLO is not held"


def all_ways(fleet: Fleet) -> tuple[Ways, ...]:
    """`ways_of` every model; two requests for the same thing are sized once."""
    first: dict[object, int] = {}
    found: list[Ways] = []
    for number, request in enumerate(fleet.models):
        asked = first.setdefault(_question(request), number)
        found.append(ways_of(fleet, number) if asked == number else _renumbered(found[asked], number))
    return tuple(found)


def _question(request: ModelRequest) -> object:
    """All that sizes depend on; who asks, how urgently and beside whom is not of it."""
    values = []
    for field in fields(request):
        value = getattr(request, field.name)
        if field.name == "model":
            value = id(value)
        elif isinstance(value, Mapping):
            value = tuple(sorted(value.items()))
        values.append(None if field.name in _BESIDE_SIZES else value)
    return tuple(values)


def _renumbered(ways: Ways, number: int) -> Ways:
    """The same for another model that asks for the same."""
    return replace(
        ways,
        candidates=tuple(replace(one, request=number) for one in ways.candidates),
        refusals=tuple(replace(one, request=number) for one in ways.refusals),
        dropped=tuple(
            Dropped(replace(one.candidate, request=number), replace(one.by, request=number))
            for one in ways.dropped
        ),
    )
