"""The ways to serve one model on the cards of one offer: precisions, splits, and the fewest replicas of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cotenant.domain.fleet import GpuOffer, ModelRequest
from cotenant.errors import UnsupportedError
from cotenant.estimation.in_flight import Quick
from cotenant.planning.case import Case
from cotenant.planning.precisions import Barred, precisions_of
from cotenant.planning.problem import Candidate, Refusal
from cotenant.planning.sizing import fewest_replicas, taken_as
from cotenant.planning.splits import Split, has_expert_parallel, in_stages, split_of, tensor_sizes
from cotenant.planning.startable import startable
from cotenant.planning.steps import with_other_steps
from cotenant.planning.ways import Ways, sifted
from cotenant.units import format_gib

TENSOR_PARALLEL_SIZES = 2  # the smallest that does, and one more for its speed and its smaller shares
WORTHWHILE = 0.0025  # of a card: stages that save less of it than that are not worth their slower steps
PIPELINES = 2  # sizes with stages that tensor parallel does not do, the smallest that do


@dataclass(frozen=True, slots=True)
class Wish:
    """What a fleet asks of every size: the share of a card that stays free, the probability that a cache is full,
    how much slower than alone steps may take (`pace`); `quick` does the sums of many demands. `visible`: the share
    of a card that fewer tokens a step must save to be offered."""

    headroom: float
    kv_overflow: float
    pace: float = 1.0
    quick: Quick | None = None
    visible: float = WORTHWHILE


def ways_on(request: ModelRequest, number: int, offer: GpuOffer, offer_number: int, wish: Wish) -> Ways:
    """All candidates on the cards of one offer; the numbers are places in the fleet."""
    allowed, barred = precisions_of(request, offer.gpu)
    refused = refusals_of(barred, number, offer_number)
    found: list[Candidate] = []
    for served in allowed:
        case = Case(
            number, request, offer_number, offer, wish.headroom, wish.kv_overflow, served, wish.pace, wish.quick,
            visible=wish.visible,
        )  # fmt: skip
        mine, missing, others = _in_tensors(case)
        staged, lacking = _in_stages(case, mine, missing)
        found += (*mine, *staged, *_with_whole_experts(case, mine))
        refused += (*missing, *lacking)
        found += [one for one in others if isinstance(one, Candidate)]
        refused += [one for one in others if isinstance(one, Refusal)]
    return sifted([startable(one, request, offer, wish.headroom) for one in found], refused)


def refusals_of(barred: Sequence[Barred], number: int, offer_number: int) -> list[Refusal]:
    """Precisions that may not run there, as refusals of a model."""
    return [
        Refusal(number, offer_number, one.format, 0, one.reason, unproven=one.unproven) for one in barred
    ]  # fmt: skip


def _in_tensors(case: Case) -> tuple[list[Candidate], list[Refusal], list[Candidate | Refusal]]:
    """The smallest powers of two that do, why smaller ones do not, and what other steps offer on either."""
    found: list[Candidate] = []
    refused: list[Refusal] = []
    others: list[Candidate | Refusal] = []
    for size in tensor_sizes(case.cards_at_most):
        fewest = fewest_replicas(case, Split(size))
        others += with_other_steps(case, Split(size), fewest)
        outcome = fewest.outcome
        if isinstance(outcome, Refusal):
            refused.append(outcome)
            continue
        found.append(outcome)
        if len(found) == TENSOR_PARALLEL_SIZES:
            break
    return found, refused, others


def _in_stages(
    case: Case, whole: Sequence[Candidate], refused: Sequence[Refusal]
) -> tuple[list[Candidate], list[Refusal]]:
    """The splits with pipeline stages that do: of sizes that tensor parallel does not, the smallest; of the others
    those that take fewer bytes."""
    splits = in_stages(
        case.served.engine.name, case.cards_at_most, case.request.model.num_layers,
        held=[one.tensor_parallel_size for one in whole],
        refused=[one.tensor_parallel_size for one in refused if not one.shortfall_bytes and one.unsplittable],
    )  # fmt: skip
    found: list[Candidate] = []
    lacking: list[Refusal] = []
    others: set[int] = set()  # sizes with stages that tensor parallel does not do
    for split in splits:
        alike = [one for one in (*whole, *found) if one.tensor_parallel_size == split.size]
        if not alike and len(others) == PIPELINES:
            continue
        larger = _larger(case, split, min(alike, key=_bytes)) if alike else None
        outcome = fewest_replicas(case, split).outcome if larger is None else larger
        if isinstance(outcome, Refusal):
            told = f"{split.pipeline} stages of {split.tensor}: {outcome.reason}"
            lacking.append(replace(outcome, reason=told))
            continue
        found.append(outcome)
        if not alike:
            others.add(split.size)
    return found, lacking


def _bytes(one: Candidate) -> int:
    return one.claim_bytes


def _larger(case: Case, split: Split, like: Candidate) -> Refusal | None:
    """Why stages need not be sized: they take no fewer bytes than as many cards split otherwise."""
    try:
        claim, peak = taken_as(case, split, like)
    except UnsupportedError as error:
        return case.refusal(split, error.message, unsplittable=True)
    least = WORTHWHILE * case.offer.gpu.cuda_bytes.value
    if claim < like.claim_bytes - least or peak < like.load_peak_bytes - least:
        return None
    other = split_of(like.settings)
    words = f"{other.tensor} ranks" if other.pipeline == 1 else f"{other.pipeline} stages of {other.tensor}"
    return case.refusal(
        split, f"takes {format_gib(claim)} a card and is slower, {words} take {format_gib(like.claim_bytes)}"
    )


def _with_whole_experts(case: Case, whole: Sequence[Candidate]) -> Iterator[Candidate]:
    """The same with expert parallel."""
    for one in whole:
        size, experts = one.tensor_parallel_size, case.request.model.num_experts
        if has_expert_parallel(case.served.engine.name, experts, size):
            outcome = fewest_replicas(case, Split(size, experts=True)).outcome
            if isinstance(outcome, Candidate):
                yield outcome
