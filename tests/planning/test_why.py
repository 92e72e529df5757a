"""What other choices would have meant, where a fleet is too large to be solved again for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.drawn_fleets import drawn
from cotenant import plan
from cotenant.planning import why
from cotenant.planning.resource_bound import bound_with, resource_bound
from tests.planning.fleets import trio


def test_the_bound_with_one_way_alone() -> None:
    problem = drawn(12, 3, 1)
    asked = bound_with(problem)
    for number, ways in enumerate(problem.candidates):
        for way in ways:
            only = (*problem.candidates[:number], (way,), *problem.candidates[number + 1 :])
            assert asked(way) == pytest.approx(resource_bound(replace(problem, candidates=only)), rel=1e-12)


def test_a_cost_that_is_not_worked_out_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "_MOST_SITTINGS", 0)
    told = [replica.runner_up for replica in plan(trio()).replicas]
    assert any("is not worked out for 3 models" in one for one in told)
