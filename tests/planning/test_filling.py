"""Cards filled one after another: sound, for what it says it costs, and not far from the bound."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from bench.drawn_fleets import drawn
from cotenant.planning.filling import filled
from cotenant.planning.greedy import place_greedily
from cotenant.planning.patterns import PatternSearch
from cotenant.planning.placing import place_exactly
from cotenant.planning.problem import Placement, Problem
from cotenant.planning.relaxation import Relaxation
from cotenant.planning.resource_bound import resource_bound, resource_prices
from cotenant.planning.seated import cost_of, patterns_of, singles_of
from cotenant.planning.seating import Seated, Space, assignments_of
from cotenant.planning.sites import seats_of, sites_of
from tests.planning.test_packing import assert_sound, candidate, card, problem


def space_of(one: Problem) -> Space:
    return Space(one, sites_of(one), seats_of(one))


def fill(one: Problem, passes: int, worth: tuple[float, ...] | None = None) -> tuple[Space, Seated | None]:
    space = space_of(one)
    searches = [PatternSearch(one, space.sites, number, space.seats) for number in range(len(space.sites))]
    return space, filled(space, searches, worth or resource_prices(one), passes=passes, enough=0.0)


def test_a_filling_keeps_every_rule_and_beats_the_greedy_placement() -> None:
    one = drawn(30, 4, 2)
    space, found = fill(one, 6)
    assert found is not None
    cost = cost_of(space, found)
    placement = Placement(assignments_of(space, found), cost, 0.0, None, proven=False)
    assert placement.placed == frozenset(range(30))
    assert_sound(one, replace(placement, lower_bound=cost))
    assert resource_bound(one) <= cost < place_greedily(one).objective_value


def test_more_passes_never_cost_more() -> None:
    one = drawn(30, 4, 2)
    costs = [cost_of(space, found) for space, found in (fill(one, 1), fill(one, 6)) if found is not None]
    assert len(costs) == 2
    assert costs[1] <= costs[0]


def test_ranks_of_one_model_stand_on_cards_of_one_node() -> None:
    cards = [card(0, number // 2, number % 2, 10, 1.0, number) for number in range(6)]
    one = problem([[candidate(0, 0, 6, tp=2)], [candidate(1, 0, 6, tp=2)], [candidate(2, 0, 4)]], cards)
    space, found = fill(one, 3)
    assert found is not None
    assert cost_of(space, found) == 4.0
    nodes = [{cards[each].node for each in assignment.each_card()} for assignment in assignments_of(space, found)]
    assert [len(each) for each in nodes] == [1, 1, 1]


def test_a_model_without_a_way_has_no_filling() -> None:
    one = problem([[candidate(0, 0, 6)]], [card(0, 0, 0, 10, 1.0, 0)])
    assert fill(one, 2, (inf,))[1] is None


def test_a_search_with_an_aim_ends_there() -> None:
    one = drawn(62, 2, 1)
    cheapest = place_exactly(replace(one, contention=False))
    assert cheapest is not None
    strict = place_exactly(one, aim=cheapest.objective_value)
    assert strict is not None
    assert len(strict.assignments) == 62
    assert strict.lower_bound <= strict.objective_value + 1e-6
    assert place_exactly(one, aim=strict.objective_value) == strict


def test_a_dive_ends_where_a_pattern_stands_on_one_card_and_a_half() -> None:
    """Three ranks of one model on cards of their own: shares above one must be rounded up, not down for ever."""
    cards = [card(0, 0, number, 10, 1.0, number) for number in range(4)]
    one = problem([[candidate(0, 0, 6, replicas=3)], [candidate(1, 0, 4)]], cards)
    space = space_of(one)
    relaxation = Relaxation(one, space.sites, space.seats, missing=100.0)
    relaxation.add(singles_of(space))
    relaxation.add(pattern for _, pattern in patterns_of(space, place_greedily(one)) or ())
    relaxation.solve(rounds=30, limit=10_000)
    found = relaxation.dive(rounds=20, at_once=1, limit=10_000)
    assert found is not None
    assert sum(count for _, count in found) == 3
