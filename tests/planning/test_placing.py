"""Placement by card patterns: the optimum of the compact program, objective by objective, on random fleets."""

from __future__ import annotations

from hypothesis import given, settings

from cotenant.planning.packing import PackingModel
from cotenant.planning.placing import place_by_patterns, rounded_up, step_of
from cotenant.planning.problem import Placement, Problem
from tests.planning.test_packing import assert_sound, problems


def quality(placement: Placement) -> int:
    return sum(each.candidate.quality_rank for each in placement.assignments)


def ranks(placement: Placement) -> int:
    return sum(each.candidate.ranks for each in placement.assignments)


@settings(max_examples=150, deadline=None)
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
