"""Placement by card patterns: the optimum of the compact program, objective by objective, on random fleets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from bench.drawn_fleets import drawn
from cotenant.planning import placing
from cotenant.planning.greedy import place_greedily
from cotenant.planning.listing import list_patterns
from cotenant.planning.packing import PackingModel
from cotenant.planning.packing import place_exactly as place_compactly
from cotenant.planning.partition import Partition
from cotenant.planning.placing import place_by_patterns
from cotenant.planning.problem import Placement, Problem
from cotenant.planning.relaxation import Relaxation
from cotenant.planning.resource_bound import is_short, resource_bound
from cotenant.planning.seated import rounded_up, step_of
from cotenant.planning.seating import Space
from cotenant.planning.sites import seats_of, sites_of
from tests.planning.test_packing import assert_sound, candidate, card, problem, problems


def quality(placement: Placement) -> int:
    return sum(each.candidate.quality_rank for each in placement.assignments)


def ranks(placement: Placement) -> int:
    return sum(each.candidate.ranks for each in placement.assignments)


@settings(max_examples=80, deadline=None)
@given(problems())
def test_patterns_equal_the_compact_program(one: Problem) -> None:
    truth, found = PackingModel(one).solve(), place_by_patterns(one)
    if truth is None:
        assert found is None
        return
    assert found is not None
    assert_sound(one, found)
    assert found.proven
    assert abs(found.objective_value - truth.objective_value) < 1e-6
    assert abs(found.lower_bound - truth.objective_value) < 1e-6
    assert abs(found.least_headroom - truth.least_headroom) < 1e-6
    assert quality(found) == quality(truth)
    assert ranks(found) == ranks(truth)


def test_bounds_are_rounded_up_to_what_prices_can_add_up_to() -> None:
    assert step_of([0.4, 0.9, 1.9]) == 0.1
    assert step_of([0.4, 1 / 3]) == 0.0
    assert abs(rounded_up(10.825, [0.4, 0.9, 1.9]) - 10.9) < 1e-9
    assert abs(rounded_up(10.9000000001, [0.4, 0.9, 1.9]) - 10.9) < 1e-9
    assert rounded_up(10.825, [0.4, 1 / 3]) == 10.825


def test_fleets_of_tens_are_proven_and_cheaper_than_greedy() -> None:
    one = drawn(14, 4, 3)
    found = place_by_patterns(one)
    assert found is not None
    assert found.proven
    assert_sound(one, found)
    assert found.objective_value <= place_greedily(one).objective_value
    assert found.lower_bound >= resource_bound(one) - 1e-6


def test_a_work_limit_yields_the_best_known_above_a_valid_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    one = drawn(10, 3, 5)
    truth = place_by_patterns(one)
    for module, name, value in (
        (placing, "QUICK_NODES", 1), (placing, "LISTING_NODES", 1), (placing, "MOST_GROUPS", 0),
        (placing, "FEWEST_ROUNDS", 2), (placing, "SEARCH_NODES", 50), (placing, "PARTS", 0),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    found = place_by_patterns(one)
    assert truth is not None
    assert found is not None
    assert_sound(one, found)
    assert found.lower_bound <= truth.objective_value + 1e-6
    assert truth.objective_value <= found.objective_value + 1e-6
    assert found.gap is not None
    assert found.gap >= 0


def test_a_little_headroom_is_not_worth_more_ranks_and_a_lot_is() -> None:
    """Two cards are in use anyway: 5 of 100 more on one of them, or of 4 on each; then one of 30 or of 16."""
    cards = [card(0, 0, number, 100, 1.0, number) for number in range(2)]
    others = [[candidate(0, 0, 60)], [candidate(1, 0, 60)]]
    for small, half, expected in ((5, 4, 1), (30, 16, 2)):
        one = problem([*others, [candidate(2, 0, small), candidate(2, 0, half, tp=2)]], cards)
        for found in (place_by_patterns(one), PackingModel(one).solve()):
            assert found is not None
            assert found.assignments[2].candidate.ranks == expected
            assert_sound(one, found)


def test_ranks_are_taken_before_stages_and_the_lowest_nodes_first() -> None:
    """Stages that claim a little less change nothing; nodes in use have the lowest numbers."""
    cards = [card(0, number // 2, number % 2, 100, 1.0, number) for number in range(6)]
    staged = replace(candidate(0, 0, 60, tp=2), pipeline_parallel_size=2)
    one = problem([[staged, candidate(0, 0, 61, tp=2)], [candidate(1, 0, 70)], [candidate(2, 0, 70)]], cards)
    found, compact = place_by_patterns(one), PackingModel(one).solve()
    assert found is not None
    assert compact is not None
    assert found.assignments[0].candidate.pipeline_parallel_size == 1
    assert compact.assignments[0].candidate.pipeline_parallel_size == 1
    assert {one.cards[number].node for each in found.assignments for number in each.each_card()} == {0, 1}


def test_the_same_fleet_has_the_same_placement() -> None:
    first, second = place_by_patterns(drawn(12, 3, 2)), place_by_patterns(drawn(12, 3, 2))
    assert first is not None
    assert first == second


def test_more_ranks_than_a_node_holds_are_spread_over_nodes() -> None:
    """Three replicas of two ranks on nodes of three cards: one replica a node, so three nodes."""
    cards = [card(0, number // 3, number % 3, 10, 1.0, number) for number in range(9)]
    one = problem([[candidate(0, 0, 6, tp=2, replicas=3)], [candidate(1, 0, 6, tp=2)]], cards)
    assert place_by_patterns(one) is None
    one = problem([[candidate(0, 0, 6, tp=2, replicas=3)], [candidate(1, 0, 4, tp=2)]], cards)
    found = place_by_patterns(one)
    assert found is not None
    assert_sound(one, found)
    assert found.objective_value == 6.0


@settings(max_examples=60, deadline=None)
@given(problems())
def test_the_list_for_a_cost_holds_every_pattern_of_cheaper_placements(one: Problem) -> None:
    """Reduced costs of valid prices never exclude what the compact optimum uses."""
    truth = PackingModel(one).solve()
    if truth is None:
        return
    space = Space(one, sites_of(one), seats_of(one))
    relaxation = Relaxation(one, space.sites, space.seats, missing=100.0)
    prices = relaxation.solve(rounds=50, limit=100_000).prices
    assert prices.bound <= truth.objective_value + 1e-6
    listing = list_patterns(space, prices, truth.objective_value)
    assert listing.complete
    found = Partition(space).minimise(listing.patterns, weigh=lambda each: space.sites[each.site].weight)
    assert found is not None
    assert abs(found.value - truth.objective_value) < 1e-6


@given(problems())
@settings(max_examples=60, deadline=None)
def test_memory_alone_is_short_only_where_nothing_fits(asked: Problem) -> None:
    if is_short(asked):
        assert place_compactly(asked) is None


def test_memory_alone_is_short_by_a_little() -> None:
    """Two models of half a card each fill one card; three do not, whatever is searched."""

    def halves(count: int) -> Problem:
        return problem([[candidate(number, 0, 20)] for number in range(count)], [card(0, 0, 0, 40, None)])

    assert (is_short(halves(2)), is_short(halves(3))) == (False, True)
    assert place_by_patterns(halves(3)) is None
