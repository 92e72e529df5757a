"""The fast core of many replicas does what the plain kernel does, event for event; and what neighbours cost."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import pytest

from bench.fleet_cases import differ, fleet_case, plainly, quickly
from cotenant.errors import InputError
from cotenant.policy import admission, ledger, preemption, sharing
from cotenant.policy.sharing import SLICES, SPATIAL, slowdown, stretched
from cotenant.simulation import core_steps, costs, fleet, fleet_core, fleet_steps
from cotenant.simulation import fleet_state as at
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.fleet import Site, merged, simulate
from cotenant.simulation.load import Limits, Requests, Status

UNIT = 1_000_000
SITE = Site(Limits(2, 4, 2, 4, 9), StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0), (0,))


@pytest.mark.parametrize("chunk", range(4))
def test_fast_equals_plain_in_ties(chunk: int) -> None:
    preempted = 0
    for seed in range(chunk * 50, (chunk + 1) * 50):
        case = fleet_case(seed)
        assert differ(case, with_numba=False) == [], seed
        preempted += sum(one.preemptions for one in plainly(case))
    assert preempted > 10


def test_fast_equals_plain_where_it_stops_early() -> None:
    for seed in range(60):
        assert differ(fleet_case(seed), until_ns=7 + seed % 11, with_numba=False) == [], seed


@pytest.mark.parametrize("until_ns", [0, 1])
def test_nothing_that_ends_a_femtosecond_after_the_last_moment_counts(until_ns: int) -> None:
    for seed in range(300):  # steps that cost nothing take a femtosecond
        assert differ(fleet_case(seed), until_ns=until_ns, with_numba=False) == [], seed


def test_compiled_equals_plain() -> None:
    pytest.importorskip("numba")
    for seed in range(100):
        assert differ(fleet_case(10_000 + seed, most=14)) == [], seed


def test_a_neighbour_costs_a_turn_or_a_part_of_one() -> None:
    """Two replicas of one card; both decode from 10 to the end. Alone a step takes 10 ns."""
    limits, costs = Limits(4, 16, 4, 64, 64), StepCosts.plane(10 * UNIT, 0, 0, 10 * UNIT, 0, 0)
    sites = [Site(limits, costs, (0,)), Site(limits, costs, (0,))]
    streams = [Requests.of([0], [4], [3]), Requests.of([10], [4], [3])]

    def ends(cross: int) -> list[int]:
        return simulate(merged(streams), sites, [[0], [1]], cross=cross, with_numba=False).table[
            :, at.FINISH
        ].tolist()  # fmt: skip

    assert ends(SLICES) == [
        10 + 20 + 20,
        10 + 20 + 20 + 10,
    ]  # side by side: reading and decoding, then both decode
    assert ends(SPATIAL) == [10 + 12 + 20, 10 + 12 + 20 + 10]


def test_who_comes_after_one_that_waits_alone_again_is_not_lost() -> None:
    """The third to come is done at once; the second is sent away into an empty queue at 5, and the fourth comes
    behind it at 8."""
    streams = [Requests.of([0, 0, 0, 8], [2, 2, 1, 1], [9, 9, 1, 1])]
    site = Site(Limits(4, 8, 2, 7, 16), SITE.costs, (0,))
    case = (streams, [site], [[0]], "least_loaded", SLICES)
    assert sum(one.preemptions for one in plainly(case)) == 1
    assert differ(case, with_numba=False) == []
    assert (quickly(case, with_numba=False).table[:, at.FINISH] > 0).all()


def test_tokens_are_conserved_and_memory_is_never_exceeded() -> None:
    for seed in range(60):
        case = fleet_case(seed)
        found = quickly(case, with_numba=False)
        assert (found.state[:, at.LEAST_FREE] >= 0).all()
        assert (found.state[:, at.FREE] == found.state[:, at.NUM_BLOCKS]).all()  # all given back
        assert (found.state[:, at.LOAD] == 0).all()
        assert (found.state[:, at.ALONE_NS] <= found.state[:, at.BUSY]).all()
        finish = found.table[:, at.FINISH]
        assert ((finish >= 0) | (finish == at.REFUSED)).all()
        done = found.table[finish >= 0]
        assert (done[:, at.FIRST] >= done[:, at.ARRIVAL]).all()
        assert (done[:, at.FINISH] >= done[:, at.FIRST]).all()


def test_the_same_question_has_the_same_answer() -> None:
    one, other = (quickly(fleet_case(5), with_numba=False) for _ in range(2))
    assert np.array_equal(one.log, other.log)
    assert np.array_equal(one.table, other.table)


PACED = fleet_core.keep_pace
MUTANTS: list[tuple[Any, FunctionType, Any]] = [
    (fleet_steps, ledger.opened_within, lambda counts, step, steps, sequences, size: sequences * (steps // size)),
    (fleet_steps, ledger.steps_within, lambda counts, step, wanted, sequences, free, size: wanted),
    (fleet_steps, preemption.victim, lambda ranks, running: 0),
    (fleet_steps, admission.may_join, lambda running, seqs, left, new, free, _: running < seqs and new <= free),
    (fleet_steps, core_steps.steps_until, lambda wanted, first, growth, most: max(1, wanted // first)),
    (fleet_core, sharing.slowdown, lambda reading, one, other, cross: 1000 * (1 + one + other)),
    (fleet_core, fleet_steps.cut_short, lambda state, replica, now, rest: None),
    (fleet_core, fleet_core.keep_pace, lambda *given: None if given[0][given[3], at.PACE] else PACED(*given)),
    (fleet_steps, fleet_steps.queue_again, fleet_steps.queue_up),
    (fleet_steps, costs.steps_along, lambda until, held, sequences, steps: steps),
    (fleet_steps, costs.steps_along, lambda until, held, sequences, steps: (until - held) // sequences + 2),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one[1].__name__)
def test_a_slip_in_any_rule_is_noticed(mutant: tuple[Any, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module, rule, slip = mutant
    monkeypatch.setattr(module, rule.__name__, slip)
    calls = 0
    begin = fleet_steps.begin

    def counted(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 5000:
            raise OverflowError
        begin(*arguments)

    monkeypatch.setattr(fleet_core, "begin", counted)
    monkeypatch.setattr(fleet, "compiled", lambda with_numba: fleet_core.build(0))
    for seed in range(400):
        calls = 0
        try:
            if differ(fleet_case(seed), with_numba=False):
                return
        except (IndexError, OverflowError, ZeroDivisionError):
            return
    pytest.fail(f"no case of 400 tells {rule.__name__} from its slip")


def test_paces_are_whole() -> None:
    assert slowdown(True, 1, 2, SPATIAL) == 1000 + 1000 + 400
    assert slowdown(False, 1, 2, SLICES) == 4000
    assert stretched(7, 3000) == 21
    assert stretched(5000, 1200) == 6000


def test_a_model_without_a_replica_is_refused() -> None:
    with pytest.raises(InputError, match="no replica"):
        simulate(
            merged([Requests.of([0], [1], [1])]),
            [Site(Limits(1, 1, 1, 9, 9), StepCosts.plane(1, 1, 1, 1, 1, 1), (0,))],
            [[]],
        )


def test_what_can_never_be_served_is_refused() -> None:
    found = simulate(merged([Requests.of([0, 0], [30, 2], [1, 2])]), [SITE], [[0]], with_numba=False)
    assert found.outcome(0, [0]).status.tolist() == [Status.REFUSED, Status.FINISHED]
