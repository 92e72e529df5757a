"""The compiled search against the plain one: the same patterns, values, nodes, in the same order."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.planning import patterns
from cotenant.planning.pattern_arrays import PatternArrays
from cotenant.planning.pattern_core import search
from cotenant.planning.pattern_times import TIME_CELLS, TIME_UNIT, time_cell
from cotenant.planning.patterns import Found, PatternSearch
from cotenant.planning.problem import Problem
from cotenant.planning.sites import seats_of, sites_of
from tests.planning.test_packing import problems


def by_core(one: PatternSearch, problem: Problem, values: list[float], floor: float, every: bool) -> Found:
    """The core as Python runs it, whether numba is there or not."""
    one._arrays = PatternArrays(one._places, one._against, len(problem.names))
    return one._compiled(search, values, floor, 5_000, every=every)


@settings(max_examples=120, deadline=None)
@given(problems(), st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), min_size=64, max_size=64), st.booleans())
def test_same_nodes_same_patterns(problem: Problem, worth: list[float], every: bool) -> None:
    sites, seats = sites_of(problem), seats_of(problem)
    values = [worth[number % len(worth)] for number in range(len(seats))]
    for site in range(len(sites)):
        one = PatternSearch(problem, sites, site, seats)
        if one._room <= 0:
            continue
        plain = one._search(values, 0.3, 5_000, every=every)
        assert by_core(one, problem, values, 0.3, every) == plain


def test_large_sites_are_searched_by_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.drawn_fleets import drawn

    problem = drawn(30, 2, 1)
    sites, seats = sites_of(problem), seats_of(problem)
    values = [0.05 * (1 + number % 7) for number in range(len(seats))]
    fast = PatternSearch(problem, sites, 1, seats).best(values, 0.1, limit=5_000)
    monkeypatch.setattr(patterns, "_COMPILE_FROM", 10_000)
    assert PatternSearch(problem, sites, 1, seats).best(values, 0.1, limit=5_000) == fast


@settings(max_examples=60, deadline=None)
@given(problems(), st.lists(st.sampled_from([0.1, 0.25, 0.5, 1.0]), min_size=64, max_size=64))
def test_the_bound_by_busy_shares_loses_nothing(problem: Problem, worth: list[float]) -> None:
    sites, seats = sites_of(problem), seats_of(problem)
    values = [worth[number % len(worth)] for number in range(len(seats))]
    for site in range(len(sites)):
        with_it, without = PatternSearch(problem, sites, site, seats), PatternSearch(problem, sites, site, seats)
        without._minds = False
        found, whole = (one.best(values, 0.05, limit=50_000) for one in (with_it, without))
        assert found.complete
        assert found.patterns[-1:] == whole.patterns[-1:]
        assert found.nodes <= whole.nodes
        listed, all_of_them = (one.above(values, 0.3, limit=50_000, keep="all") for one in (with_it, without))
        assert listed.patterns == all_of_them.patterns


def test_busy_shares_in_cells_are_never_below_the_truth() -> None:
    assert time_cell(0.0, TIME_CELLS) == 0
    assert time_cell(1.0, TIME_CELLS) == TIME_UNIT
    assert time_cell(TIME_CELLS / TIME_UNIT, TIME_CELLS) == TIME_CELLS
    assert time_cell(inf, TIME_CELLS) == TIME_CELLS
    assert time_cell(3 / TIME_UNIT - 1e-12, TIME_CELLS) == 3
