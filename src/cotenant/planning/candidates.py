"""Every way in which a model may be served on the fleet's cards, sized from its traffic.

The declared space: each format that passes the decision matrix (`precisions`), each KV type allowed, the two
smallest powers of two of tensor parallel that do inside a node, pipeline stages and whole experts beside them
(`splits`), and the smallest number of replicas that carries the traffic and holds the SLO (`sizing`). Of these,
what another way beats in every respect is dropped (`ways`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

from cotenant.domain.fleet import Fleet, ModelRequest
from cotenant.estimation.compound_arrays import compiled
from cotenant.estimation.memo import IdentityCache
from cotenant.planning.case import Case
from cotenant.planning.precisions import precisions_of
from cotenant.planning.problem import Candidate, Refusal
from cotenant.planning.sizing import fewest_replicas
from cotenant.planning.splits import Split, has_expert_parallel, in_stages, tensor_sizes
from cotenant.planning.ways import Ways, joined, sifted

TENSOR_PARALLEL_SIZES = 2  # the smallest that does, and one more for its speed and its smaller shares
PIPELINES = 2  # sizes with stages, the smallest that do
_COMPILE_FROM = 100  # models x offers: below, loading the compiler takes longer than it saves
_BESIDE_SIZES = ("name", "priority", "pin_gpus", "apart_from", "also_serves", "spread")

_ON_OFFER: IdentityCache[Ways] = IdentityCache(1024)


def all_ways(fleet: Fleet) -> tuple[Ways, ...]:
    """`ways_of` every model; two requests for the same thing are sized once."""
    first: dict[object, int] = {}
    found: list[Ways] = []
    for number, request in enumerate(fleet.models):
        asked = first.setdefault(_question(request), number)
        found.append(ways_of(fleet, number) if asked == number else found[asked].of(number))
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


def ways_of(fleet: Fleet, number: int, pace: float = 1.0) -> Ways:
    """All candidates of one model over every offer; a fleet that differs elsewhere finds them sized already.

    With a `pace` above 1 each is sized to keep its SLO although every step takes that many times as long: more
    requests are in flight then, so it holds more cache, and may need more replicas.
    """
    request = fleet.models[number]
    return joined(
        [
            _ON_OFFER.get(
                (request, offer),
                (number, offer_number, fleet.headroom, fleet.kv_overflow, pace),
                partial(_ways_on, fleet, number, offer_number, pace),
            )
            for offer_number, offer in enumerate(fleet.gpus)
        ]
    )


def _ways_on(fleet: Fleet, number: int, offer_number: int, pace: float) -> Ways:
    """All candidates of one model on the cards of one offer."""
    request, offer = fleet.models[number], fleet.gpus[offer_number]
    allowed, barred = precisions_of(request, offer.gpu)
    quick = compiled() if len(fleet.models) * len(fleet.gpus) >= _COMPILE_FROM else None
    refused = [
        Refusal(number, offer_number, one.format, 0, one.reason, unproven=one.unproven) for one in barred
    ]  # fmt: skip
    found: list[Candidate] = []
    for served in allowed:
        case = Case(
            number, request, offer_number, offer, fleet.headroom, fleet.kv_overflow, served, pace, quick
        )  # fmt: skip
        mine, missing = _in_tensors(case)
        staged, lacking = _in_stages(case, mine, missing)
        found += (*mine, *staged, *_with_whole_experts(case, mine))
        refused += (*missing, *lacking)
    return sifted(found, refused)


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
