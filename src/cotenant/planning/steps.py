"""How many tokens a step reads of prompts (max_num_batched_tokens and its kin), where the user does not say it.

A step that reads fewer needs less memory for what it computes; a prompt that is longer takes more of them, each
with its own weights to read and its own launches. So fewer tokens are slower and smaller, more are quicker and
larger, and neither can stand for the other. The engine's own number is always looked at; of those a quarter and a
sixteenth as large, and four and sixteen times as large (`engines.prompt_steps`),

- smaller ones where they save a visible share of the card (`offered.Wish.visible`) with as many replicas, and
  where the engine's own lacks no more bytes than they save;
- larger ones where the engine's own misses the SLO, or needs more replicas to keep it, and would keep it if no
  prompt were split: the nearest that does.

More tokens are never slower, so where the SLO is missed even by prompts read whole, no larger number helps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from cotenant.domain.demand import Demand
from cotenant.planning.case import Case
from cotenant.planning.problem import Candidate, Refusal
from cotenant.planning.sizing import (
    Failed,
    Fewest,
    beside_pool_bytes,
    fewest_replicas,
    is_late_anyway,
    sized_with,
)
from cotenant.planning.splits import Split


def with_other_steps(case: Case, split: Split, found: Fewest) -> Iterator[Candidate | Refusal]:
    """What other numbers of tokens a step offer beside what was `found` with the engine's own, and those that
    would save memory but miss the SLO."""
    failed = found.failed
    if found.way is not None:
        yield from _leaner(case, split, found.way)
    if failed is not None and failed.asked is not None:
        yield from (_quicker if failed.late else _fitting)(case, split, found, failed, failed.asked)


def _leaner(case: Case, split: Split, way: Candidate) -> Iterator[Candidate | Refusal]:
    """Of as many replicas that read fewer tokens a step, those that take visibly less than the one before."""
    least = case.visible * case.offer.gpu.cuda_bytes.value
    if least == inf or case.served.most_saved_bytes(split, case.offer.used_bytes) < least:
        return
    taken, claim = beside_pool_bytes(case, split, way.demand), way.claim_bytes
    for step in case.served.other_steps(split)[0]:
        mine = replace(case, step=step)
        if step < _fewest_tokens(way):
            return
        less = beside_pool_bytes(mine, split, way.demand)
        if taken - less < least:
            continue
        outcome = sized_with(mine, split, way.replicas)
        if isinstance(outcome, Failed):
            reason = f"{step:,} tokens a step: {outcome.refusal.reason}"
            yield replace(outcome.refusal, reason=reason, shortfall_bytes=0)
            return
        if claim - outcome.claim_bytes >= least:  # its cache may grow by as much as it saves
            yield outcome
            taken, claim = less, outcome.claim_bytes


def _fewest_tokens(way: Candidate) -> int:
    """A step holds a token of each slot, and of each that is proposed beyond it."""
    drafted = way.settings.speculation.tokens if way.settings.speculation else 0
    return way.demand.max_num_seqs * (1 + drafted)


def _quicker(case: Case, split: Split, found: Fewest, failed: Failed, asked: Demand) -> Iterator[Candidate]:
    """The nearest larger number that keeps the SLO with fewer replicas than the engine's own needs."""
    larger = case.served.other_steps(split)[1]
    if not larger or asked.max_model_len <= case.served.reserved(split).batched_tokens:
        return  # no prompt is split
    most = case.replicas_at_most(split) if found.way is None else found.way.replicas - 1
    if not is_late_anyway(case, split, most):
        yield from _fewer(case, split, found, larger)


def _fitting(case: Case, split: Split, found: Fewest, failed: Failed, asked: Demand) -> Iterator[Candidate]:
    """The nearest smaller number that saves what the engine's own lacks."""
    lacks = failed.refusal.shortfall_bytes
    if not 0 < lacks <= case.served.most_saved_bytes(split, case.offer.used_bytes):
        return
    taken = beside_pool_bytes(case, split, asked)
    enough = [
        step
        for step in case.served.other_steps(split)[0]
        if step >= asked.max_num_seqs
        and taken - beside_pool_bytes(replace(case, step=step), split, asked) >= lacks
    ]
    yield from _fewer(case, split, found, enough)


def _fewer(case: Case, split: Split, found: Fewest, steps: Sequence[int]) -> Iterator[Candidate]:
    """The first of those numbers that does with fewer replicas than were found."""
    for step in steps:
        way = fewest_replicas(replace(case, step=step), split).way
        if way is not None and (found.way is None or way.replicas < found.way.replicas):
            yield way
            return
