"""The ways to serve one model on the cards of one offer: precisions, splits, and the fewest replicas of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cotenant.domain.fleet import GpuOffer, ModelRequest
from cotenant.estimation.in_flight import Quick
from cotenant.planning.case import Case
from cotenant.planning.precisions import Barred, precisions_of
from cotenant.planning.problem import Candidate, Refusal
from cotenant.planning.sizing import fewest_replicas
from cotenant.planning.splits import Split, has_expert_parallel, in_stages, tensor_sizes
from cotenant.planning.startable import startable
from cotenant.planning.ways import Ways, sifted

TENSOR_PARALLEL_SIZES = 2  # the smallest that does, and one more for its speed and its smaller shares
PIPELINES = 2  # sizes with stages, the smallest that do


@dataclass(frozen=True, slots=True)
class Wish:
    """What a fleet asks of every size: the share of a card that stays free, the probability that a cache is full,
    how much slower than alone steps may take (`pace`); `quick` does the sums of many demands."""

    headroom: float
    kv_overflow: float
    pace: float = 1.0
    quick: Quick | None = None


def ways_on(request: ModelRequest, number: int, offer: GpuOffer, offer_number: int, wish: Wish) -> Ways:
    """All candidates on the cards of one offer; the numbers are places in the fleet."""
    allowed, barred = precisions_of(request, offer.gpu)
    refused = refusals_of(barred, number, offer_number)
    found: list[Candidate] = []
    for served in allowed:
        case = Case(
            number, request, offer_number, offer, wish.headroom, wish.kv_overflow, served, wish.pace, wish.quick
        )  # fmt: skip
        mine, missing = _in_tensors(case)
        staged, lacking = _in_stages(case, mine, missing)
        found += (*mine, *staged, *_with_whole_experts(case, mine))
        refused += (*missing, *lacking)
    return sifted([startable(one, request, offer, wish.headroom) for one in found], refused)


def refusals_of(barred: Sequence[Barred], number: int, offer_number: int) -> list[Refusal]:
    """Precisions that may not run there, as refusals of a model."""
    return [
        Refusal(number, offer_number, one.format, 0, one.reason, unproven=one.unproven) for one in barred
    ]  # fmt: skip


def _in_tensors(case: Case) -> tuple[list[Candidate], list[Refusal]]:
    """The smallest powers of two that do, and why smaller ones do not."""
    found: list[Candidate] = []
    refused: list[Refusal] = []
    for size in tensor_sizes(case.cards_at_most):
        outcome = fewest_replicas(case, Split(size))
        if isinstance(outcome, Refusal):
            refused.append(outcome)
            continue
        found.append(outcome)
        if len(found) == TENSOR_PARALLEL_SIZES:
            break
    return found, refused


def _in_stages(
    case: Case, whole: Sequence[Candidate], refused: Sequence[Refusal]
) -> tuple[list[Candidate], list[Refusal]]:
    """The smallest splits with pipeline stages that do, where tensor parallel leaves something to gain."""
    splits = in_stages(
        case.served.engine.name, case.cards_at_most, case.request.model.num_layers,
        held=min((one.tensor_parallel_size for one in whole), default=None),
        refused=[one.tensor_parallel_size for one in refused if not one.shortfall_bytes and one.unsplittable],
        copied=[one.tensor_parallel_size for one in whole if case.served.keeps_copies(one.tensor_parallel_size)],
    )  # fmt: skip
    found: list[Candidate] = []
    lacking: list[Refusal] = []
    for split in splits:
        if any(one.tensor_parallel_size == split.size for one in found):
            continue
        outcome = fewest_replicas(case, split)
        if isinstance(outcome, Refusal):
            told = f"{split.pipeline} stages of {split.tensor}: {outcome.reason}"
            lacking.append(replace(outcome, reason=told))
            continue
        found.append(outcome)
        if len(found) == PIPELINES:
            break
    return found, lacking


def _with_whole_experts(case: Case, whole: Sequence[Candidate]) -> Iterator[Candidate]:
    """The same with expert parallel."""
    for one in whole:
        size, experts = one.tensor_parallel_size, case.request.model.num_experts
        if has_expert_parallel(case.served.engine.name, experts, size):
            outcome = fewest_replicas(case, Split(size, experts=True))
            if isinstance(outcome, Candidate):
                yield outcome
