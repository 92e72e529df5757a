"""Prefill and decode apart, by hand and by its laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.errors import InputError
from cotenant.policy.phases import batch_within
from cotenant.simulation import fast, plain
from cotenant.simulation.apart import Split, simulate
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.load import Limits, Requests, Status

UNIT = 1_000_000
SPLIT = Split(1, 1, 100, 1000, prefill=(10 * UNIT, UNIT, 0), decode=(2 * UNIT, 0, UNIT))


def test_by_hand() -> None:
    """A prompt of 5 takes 10 + 5; two decode steps of 2 + 1 follow. The second prompt waits for the first."""
    found = simulate(Requests.of([0, 3], [5, 5], [3, 1]), SPLIT)
    assert found.first_token_ns.tolist() == [15, 30]
    assert found.finish_ns.tolist() == [15 + 3 + 3, 30]


def test_what_ends_at_the_last_moment_still_counts() -> None:
    """As in every other core: at 15 the first token, at 21 the end; a nanosecond sooner they are not there."""
    requests = Requests.of([0], [5], [3])
    ends = [simulate(requests, SPLIT, until_ns=until) for until in (14, 15, 20, 21)]
    assert [bool(found.has_first[0]) for found in ends] == [False, True, True, True]
    assert [int(found.status[0]) for found in ends] == [Status.UNFINISHED] * 3 + [Status.FINISHED]
    even, limits = StepCosts.plane(10 * UNIT, 0, 0, 10 * UNIT, 0, 0), Limits(4, 16, 4, 64, 64)
    for until, status in ((29, Status.UNFINISHED), (30, Status.FINISHED)):  # three steps of 10 ns
        assert plain.simulate(requests, limits, even, until_ns=until).status[0] == status
        assert fast.simulate(requests, limits, even, until_ns=until, with_numba=False).status[0] == status


def test_reading_does_not_slow_decoding() -> None:
    alone = simulate(Requests.of([0], [5], [20]), SPLIT)
    beside = simulate(Requests.of([0, 16, 30], [5, 90, 90], [20, 1, 1]), SPLIT)
    assert beside.finish_ns[0] == alone.finish_ns[0]


def test_caches_take_time_to_move() -> None:
    found = simulate(Requests.of([0], [5], [3]), replace(SPLIT, move_per_token=2 * UNIT))
    assert found.finish_ns.tolist() == [15 + 10 + 6]


def test_large_batches_have_a_line_of_their_own() -> None:
    split = replace(SPLIT, decode_large=(UNIT, 0, 0), threshold=2)
    assert [split.decode_fs([5]), split.decode_fs([5, 5])] == [3 * UNIT, UNIT]


def test_everybody_ends_and_more_instances_are_no_slower() -> None:
    draw = np.random.default_rng(3)
    requests = Requests.of(
        np.sort(draw.integers(0, 900, 60)), draw.integers(1, 90, 60), draw.integers(1, 20, 60)
    )  # fmt: skip
    one, two = simulate(requests, SPLIT), simulate(requests, replace(SPLIT, prefills=2, decodes=2))
    for found in (one, two):
        assert (found.status == Status.FINISHED).all()
        assert (found.first_token_ns > requests.arrival_ns).all()
        assert ((found.finish_ns > found.first_token_ns) | (requests.output_tokens == 1)).all()
    assert two.first_token_ns.mean() < one.first_token_ns.mean()


def test_batches_keep_their_budget_and_a_prompt_too_long_goes_alone() -> None:
    assert batch_within([4, 4, 4], 3, 9) == 2
    assert batch_within([40, 4], 2, 9) == 1
    assert batch_within([4, 4], 2, 9) == 2


def test_it_stops_where_it_is_told() -> None:
    found = simulate(Requests.of([0, 0], [5, 5], [3, 500]), SPLIT, until_ns=40)
    assert found.status.tolist() == [Status.FINISHED, Status.UNFINISHED]


def test_no_instance_is_refused() -> None:
    with pytest.raises(InputError, match="an instance"):
        replace(SPLIT, prefills=0)
