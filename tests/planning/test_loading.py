"""Load peaks: the criterion against every order of starts, and what the search makes of it."""

from __future__ import annotations

from itertools import permutations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.brute_force import drawn_fleet
from cotenant import load_fleet
from cotenant.planning.greedy import place_greedily
from cotenant.planning.loading import may_join, may_load, start_key
from cotenant.planning.packing import place_exactly as place_compactly
from cotenant.planning.placing import place_exactly
from cotenant.planning.sleeping import solve_fleet
from cotenant.planning.solve import written
from tests.planning.test_packing import candidate, card, problem

pairs = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 15)), max_size=6)


def by_orders(each: list[tuple[int, int]], most: int) -> bool:
    """Whether some order of starts lets each fit."""
    return any(in_order(order, most) for order in permutations(each))


def in_order(order: tuple[tuple[int, int], ...], most: int) -> bool:
    held = 0
    for claim, over in order:
        if held + claim + over > most:
            return False
        held += claim
    return True


@settings(max_examples=400, deadline=None)
@given(pairs, st.integers(0, 50))
@example([(5, 9), (5, 9), (5, 9)], 24)
@example([(5, 9), (5, 9), (5, 9)], 23)
def test_the_criterion_is_that_some_order_fits(each: list[tuple[int, int]], most: int) -> None:
    claims, overshoots = [one[0] for one in each], [one[1] for one in each]
    assert may_load(claims, overshoots, most) == by_orders(each, most)
    ordered = tuple(sorted(each, key=lambda one: start_key(one[0], one[0] + one[1])))
    assert in_order(ordered, most) == by_orders(each, most)


@settings(max_examples=200, deadline=None)
@given(pairs, st.integers(0, 50), st.data())
def test_who_leaves_or_shrinks_breaks_nothing(each: list[tuple[int, int]], most: int, data: st.DataObject) -> None:
    if not each or not may_load([one[0] for one in each], [one[1] for one in each], most):
        return
    place = data.draw(st.integers(0, len(each) - 1))
    claim, over = each[place]
    smaller = data.draw(st.integers(0, claim))
    peak = data.draw(st.integers(smaller, max(smaller, claim + over)))
    for changed in ([], [(smaller, peak - smaller)]):
        others = [*each[:place], *changed, *each[place + 1 :]]
        assert may_load([one[0] for one in others], [one[1] for one in others], most)


@settings(max_examples=200, deadline=None)
@given(pairs, st.integers(0, 12), st.integers(0, 15), st.integers(0, 50))
def test_one_more_is_asked_about_alone(each: list[tuple[int, int]], claim: int, over: int, most: int) -> None:
    claims, overshoots = [one[0] for one in each], [one[1] for one in each]
    if may_load(claims, overshoots, most):
        joined = may_join(claims, overshoots, len(claims), claim, over, most)
        assert joined == may_load([*claims, claim], [*overshoots, over], most)


def test_claims_that_fit_are_not_enough() -> None:
    """Two of 19 GiB that take 31 while loading: 19 + 31 is more than the 48 of the card, 19 + 19 + 5 is not."""
    both = [[candidate(0, 0, 19, over=12)], [candidate(1, 0, 19, over=12)]]
    one = problem(both, [card(0, 0, 0, 40, 1.0, 0)])
    assert one.cards[0].load_bytes == 48 * 2**30
    assert place_exactly(one) is None
    assert place_compactly(one) is None
    assert len(place_greedily(one).placed) == 1
    light = problem([both[0], [candidate(1, 0, 19, over=5)]], [card(0, 0, 0, 40, 1.0, 0)])
    assert place_exactly(light) is not None
    assert place_compactly(light) is not None
    assert len(place_greedily(light).placed) == 2


def test_a_smaller_claim_with_a_higher_peak_dominates_nothing() -> None:
    """Beside a large neighbour only the way that is read in its own format loads."""
    ways = [[candidate(0, 0, 19, over=12), candidate(0, 0, 21, quality=1)], [candidate(1, 0, 19, over=11)]]
    placement = place_exactly(problem(ways, [card(0, 0, 0, 40, 1.0, 0)]))
    assert placement is not None
    assert [one.candidate.claim_bytes // 2**30 for one in placement.assignments] == [21, 19]


def test_two_quantised_while_loading_stand_apart_where_they_must() -> None:
    """A fleet whose plan failed its own check: two fp8 models of 19 GiB on L40S, 31 GiB each while loading."""
    solved = solve_fleet(load_fleet(drawn_fleet("tensor-parallel", 259)), fold=False)
    assert solved.feasible
    assert written(solved).feasible
