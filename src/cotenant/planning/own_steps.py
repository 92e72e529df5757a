"""Each model reads as many tokens a step as its engine does by itself, unless that costs more.

Fewer tokens a step make a way smaller and slower (`steps`): the search takes them wherever they are offered, since
it weighs bytes. What they were not needed for is given back here: model after model, as long as all fit and the
others' SLOs hold. Headroom beyond what is asked for is not worth slower prompts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from cotenant.planning.problem import (
    Candidate,
    Placement,
    Problem,
    contention_holds,
    least_headroom,
    loading_holds,
)


def of_own_steps(problem: Problem) -> Problem:
    """The same without other numbers of tokens a step than the engines' own, for models that those serve at all;
    itself where that is no difference."""
    own = tuple(tuple(one for one in each if one.step_share == 1) or each for each in problem.candidates)
    return problem if own == problem.candidates else replace(problem, candidates=own)


def with_own_steps(problem: Problem, placement: Placement) -> Placement:
    """The same cards and company, with the engines' own steps where they fit."""
    if all(each.candidate.step_share >= 1 for each in placement.assignments):
        return placement
    chosen = {each.candidate.request: each for each in placement.assignments}
    on: dict[int, list[int]] = defaultdict(list)
    for request, each in chosen.items():
        for card in each.each_card():
            on[card].append(request)
    for request in sorted(chosen):
        was = chosen[request]
        cards = set(was.each_card())
        for twin in _twins(problem, was.candidate):
            chosen[request] = replace(was, candidate=twin)
            if all(_holds(problem, card, [chosen[one].candidate for one in on[card]]) for card in cards):
                break
            chosen[request] = was
    assignments = tuple(chosen[each.candidate.request] for each in placement.assignments)
    return replace(placement, assignments=assignments, least_headroom=least_headroom(problem, assignments))


def _twins(problem: Problem, one: Candidate) -> Iterator[Candidate]:
    """The same way with more tokens a step, up to the engine's own number, the most first."""
    if one.step_share >= 1:
        return
    twins = [
        other
        for other in problem.candidates[one.request]
        if one.step_share < other.step_share <= 1 and _kind(other) == _kind(one)
    ]
    yield from sorted(twins, key=lambda other: -other.step_share)


def _kind(one: Candidate) -> tuple[object, ...]:
    mine = (
        one.offer, one.format, one.checkpoint, one.settings.kv_cache_dtype, one.tensor_parallel_size,
        one.pipeline_parallel_size, one.settings.enable_expert_parallel, one.replicas,
    )  # fmt: skip
    return (*mine, *(_kind(member) for member in one.members))


def _holds(problem: Problem, card: int, company: list[Candidate]) -> bool:
    where = problem.cards[card]
    if sum(one.claim_bytes for one in company) > where.room_bytes:
        return False
    if not loading_holds(company, where.load_bytes):
        return False
    return not problem.contention or contention_holds(tuple(company))
