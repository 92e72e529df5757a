"""The exact packing against brute force, and against the rules of the card that it must not break."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, combinations, permutations, product
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.planning.greedy import place_greedily
from cotenant.planning.packing import place_exactly
from cotenant.planning.problem import MOST_PROCESSES, Assignment, Candidate, Card, Placement, Problem

GIB = 2**30


def candidate(request: int, offer: int, gib: int, *, tp: int = 1, replicas: int = 1, busy: float = 0.0,
              slack: float = inf, quality: int = 0, over: int = 0) -> Candidate:  # fmt: skip
    return Candidate(
        request=request, offer=offer, format="bf16", checkpoint="org/name", tensor_parallel_size=tp,
        replicas=replicas, claim_bytes=gib * GIB, load_peak_bytes=(gib + over) * GIB, busy=busy, slack=slack,
        quality_rank=quality, settings=None, demand=None, judged=None,  # type: ignore[arg-type]  # the packing never looks inside
    )  # fmt: skip


def card(offer: int, node: int, index: int, room: int, price: float | None, pool: int | None = None,
         places: int = MOST_PROCESSES) -> Card:  # fmt: skip
    return Card(offer, node, index, pool, (room + 8) * GIB, 0, room * GIB, price, places)


def problem(candidates: list[list[Candidate]], cards: list[Card], **wishes: object) -> Problem:
    names = tuple(f"m{number}" for number in range(len(candidates)))
    defaults: dict[str, object] = {"apart": frozenset(), "alone": frozenset(), "pins": {}}
    defaults |= {"objective": ("cost", "headroom", "quality"), "priorities": (0,) * len(candidates)}
    return Problem(names, tuple(map(tuple, candidates)), tuple(cards), **(defaults | wishes))  # type: ignore[arg-type]


def sittings(one: Problem, chosen: Candidate) -> Iterator[tuple[int, ...]]:
    """Every set of cards on which the candidate's groups can sit, whole groups inside one node."""
    fitting = [number for number, place in enumerate(one.cards) if one.allows(chosen, place)]
    for cards in combinations(fitting, chosen.ranks):
        per_node: dict[int, int] = defaultdict(int)
        for number in cards:
            per_node[one.cards[number].node] += 1
        if all(count % chosen.tensor_parallel_size == 0 for count in per_node.values()):
            yield cards


def holds(one: Problem, chosen: tuple[Candidate, ...], cards: tuple[tuple[int, ...], ...]) -> bool:
    """The rules of a card, written apart from the solver's model."""
    company: dict[int, list[Candidate]] = defaultdict(list)
    for mine, places in zip(chosen, cards, strict=True):
        for number in places:
            company[number].append(mine)
    for number, present in company.items():
        if sum(each.claim_bytes for each in present) > one.cards[number].room_bytes:
            return False
        if len(present) > one.cards[number].most_processes:
            return False
        if not any(loads(order, one.cards[number]) for order in permutations(present)):
            return False
        models = {each.request for each in present}
        if any(pair <= models for pair in one.apart) or (len(models) > 1 and models & one.alone):
            return False
        busy = sum(each.busy for each in present)
        if any(busy - each.busy > each.slack + 1e-9 for each in present):
            return False
    return True


def loads(order: tuple[Candidate, ...], place: Card) -> bool:
    """Whether each fits while it loads, started in that order."""
    held = accumulate((each.claim_bytes for each in order), initial=0)
    free = place.capacity_bytes - place.used_bytes
    return all(before + each.load_peak_bytes <= free for before, each in zip(held, order, strict=False))


def brute_force(one: Problem) -> float | None:
    """The least cost over every choice and every sitting."""
    best: float | None = None
    for chosen in product(*one.candidates):
        for cards in product(*(list(sittings(one, each)) for each in chosen)):
            if holds(one, chosen, cards):
                cost = sum(one.weight(one.cards[number]) for number in {n for places in cards for n in places})
                best = cost if best is None or cost < best else best
    return best


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    models = draw(st.integers(2, 3))
    prices = [draw(st.sampled_from([0.5, 1.0, 1.3, 2.0])) for _ in range(2)]
    places = draw(st.sampled_from([MOST_PROCESSES, MOST_PROCESSES, 1, 2]))
    cards = [
        card(0, number // 2, number % 2, 10, prices[0], number, places)
        for number in range(draw(st.integers(1, 3)))
    ]
    cards += [card(1, 5 + number // 2, number % 2, 6, prices[1]) for number in range(draw(st.integers(0, 2)))]
    candidates = []
    for request in range(models):
        ways = [
            candidate(
                request, draw(st.integers(0, 1)), draw(st.integers(1, 10)), tp=draw(st.sampled_from([1, 1, 2])),
                replicas=draw(st.sampled_from([1, 1, 2])), busy=draw(st.sampled_from([0.0, 0.5, 1.0])),
                slack=draw(st.sampled_from([inf, 0.4, 1.2])), quality=draw(st.integers(0, 2)),
                over=draw(st.sampled_from([0, 0, 4, 9, 12])),
            )
            for _ in range(draw(st.integers(1, 2)))
        ]  # fmt: skip
        candidates.append(ways)
    apart = frozenset({frozenset({0, 1})}) if draw(st.booleans()) else frozenset()
    alone = frozenset({0}) if draw(st.booleans()) else frozenset()
    pins = {1: frozenset({0, 1})} if draw(st.booleans()) else {}
    return problem(candidates, cards, apart=apart, alone=alone, pins=pins)


def assert_sound(one: Problem, placement: Placement) -> None:
    chosen = tuple(each.candidate for each in placement.assignments)
    cards = tuple(tuple(each.each_card()) for each in placement.assignments)
    assert holds(one, chosen, cards)
    for each in placement.assignments:
        assert len(each.cards) == each.candidate.replicas
        assert len(set(each.each_card())) == each.candidate.ranks
        for group in each.cards:
            assert len({one.cards[number].node for number in group}) == 1
            assert all(one.allows(each.candidate, one.cards[number]) for number in group)
    used = {number for each in placement.assignments for number in each.each_card()}
    assert placement.objective_value == pytest.approx(sum(one.weight(one.cards[number]) for number in used))


@settings(max_examples=120, deadline=None)
@given(problems())
def test_exact_equals_brute_force(one: Problem) -> None:
    truth, placement = brute_force(one), place_exactly(one)
    if truth is None:
        assert placement is None
        return
    assert placement is not None
    assert_sound(one, placement)
    assert placement.objective_value == pytest.approx(truth)
    assert placement.lower_bound == pytest.approx(truth)
    assert placement.gap == pytest.approx(0.0)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_greedy_is_sound_and_never_cheaper_than_the_optimum(one: Problem) -> None:
    greedy = place_greedily(one)
    assert_sound(one, greedy)
    exact = place_exactly(one)
    if len(greedy.placed) == len(one.names):
        assert exact is not None
        assert greedy.objective_value >= exact.objective_value - 1e-6


@settings(max_examples=40, deadline=None)
@given(problems())
def test_adding_a_model_never_lowers_the_cost(one: Problem) -> None:
    fewer = problem(list(map(list, one.candidates[:-1])), list(one.cards), pins=one.pins,
                    apart=frozenset(pair for pair in one.apart if max(pair) < len(one.names) - 1),
                    alone=one.alone)  # fmt: skip
    with_all, with_fewer = place_exactly(one), place_exactly(fewer)
    if with_all is not None:
        assert with_fewer is not None
        assert with_fewer.objective_value <= with_all.objective_value + 1e-6


@settings(max_examples=40, deadline=None)
@given(problems())
def test_more_memory_never_costs_more(one: Problem) -> None:
    roomier = problem(
        list(map(list, one.candidates)),
        [replace(c, capacity_bytes=c.capacity_bytes + GIB, room_bytes=c.room_bytes + GIB) for c in one.cards],
        apart=one.apart, alone=one.alone, pins=one.pins,
    )  # fmt: skip
    before, after = place_exactly(one), place_exactly(roomier)
    if before is not None:
        assert after is not None
        assert after.objective_value <= before.objective_value + 1e-6


def test_optional_models_place_as_many_as_possible() -> None:
    one = problem([[candidate(0, 0, 9)], [candidate(1, 0, 5)], [candidate(2, 0, 5)]], [card(0, 0, 0, 10, 1.0, 0)])
    assert place_exactly(one) is None
    placement = place_exactly(one, optional=True)
    assert placement is not None
    assert placement.placed == {1, 2}


def test_the_model_of_higher_priority_gets_the_place() -> None:
    ways = [[candidate(0, 0, 9)], [candidate(1, 0, 5)], [candidate(2, 0, 5)]]
    placement = place_exactly(problem(ways, [card(0, 0, 0, 10, 1.0, 0)], priorities=(5, 0, 0)), optional=True)
    assert placement is not None
    assert placement.placed == {0}


def test_of_equals_the_one_with_fewer_ranks_is_taken() -> None:
    ways = [candidate(0, 0, 4, tp=2), candidate(0, 0, 4)]
    placement = place_exactly(problem([ways], [card(0, 0, 0, 10, 0.0, 0), card(0, 0, 1, 10, 0.0, 1)]))
    assert placement is not None
    assert placement.assignments[0].candidate.ranks == 1


def test_headroom_decides_among_equal_costs_then_quality() -> None:
    ways = [candidate(0, 0, 8, quality=0), candidate(0, 0, 4, quality=1)]
    placement = place_exactly(problem([ways], [card(0, 0, 0, 10, 1.0, 0)]))
    assert placement is not None
    assert placement.assignments == (Assignment(ways[1], ((0,),)),)
    same = [candidate(0, 0, 4, quality=1), candidate(0, 0, 4, quality=0)]
    placement = place_exactly(problem([same], [card(0, 0, 0, 10, 1.0, 0)]))
    assert placement is not None
    assert placement.assignments[0].candidate.quality_rank == 0


def test_owned_cards_without_a_price_cost_nothing_beside_bought_ones() -> None:
    cards = [card(0, 0, 0, 10, None, 0), card(1, 1, 0, 10, 0.1)]
    placement = place_exactly(problem([[candidate(0, 1, 4), candidate(0, 0, 4)]], cards))
    assert placement is not None
    assert placement.assignments[0].candidate.offer == 0
    assert placement.objective_value == 0.0
