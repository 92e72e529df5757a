"""Who gives way to host memory: by hand, and what holds whatever comes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cotenant
from bench.simulation_cases import random_case
from cotenant.errors import InputError
from cotenant.policy.preemption import held_back
from cotenant.simulation.caching import CachingReplica
from cotenant.simulation.conditions import conditions_of
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.host_copies import HostCopies
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import NEVER, Event, Limits, Outcome, Prefixes, Requests, Status
from cotenant.simulation.replica import Replica

UNIT = 1_000_000
FLEET = "examples/raw-figures.yaml"


def served(
    requests: Requests, limits: Limits, costs: StepCosts, copies: HostCopies | None, kind: type[Replica] = Replica
) -> Outcome:
    host = Host(kind(requests, limits, costs), (0,))
    host.replica.copies = copies
    run([host], [Stream(requests, (0,))])
    return host.replica.outcome(host.busy_fs, host.last_fs)


def both_ways(copies: HostCopies, *, each_read: int = 0) -> tuple[Outcome, Outcome]:
    """Two sequences of 4 blocks each in a pool of 5 (`test_cores`): with copies, and computed again."""
    case = (
        Requests.of([0, 0], [2, 2], [6, 6]),
        Limits(4, 8, 2, 5, 16),
        StepCosts.plane(UNIT, 0, 0, UNIT, each_read * UNIT, 0),
    )
    return served(*case, copies), served(*case, None)


def test_by_hand() -> None:
    """Prompts are read at 1; two decode steps grow both to 4 tokens in 2 blocks each. The next step wants a block
    for each and has one: the second goes, 2 blocks in 20. The first writes its last three tokens by 26; the second
    comes back with the step that begins then (20 + 1), and writes its last three by 49."""
    found, again = both_ways(HostCopies(9, 10 * UNIT))
    assert found.finish_ns.tolist() == [3 + (20 + 1) + 1 + 1, 26 + (20 + 1) + 1 + 1]
    moves = [row[1:] for row in found.log.tolist() if row[2] in (Event.PREEMPT, Event.ADMIT)]
    assert moves == [[0, Event.ADMIT, 0], [0, Event.ADMIT, 1], [3, Event.PREEMPT, 1], [26, Event.ADMIT, 1]]
    assert again.finish_ns.tolist() == [6, 9]  # here a step that reads costs what one that decodes does


def test_nothing_is_read_twice() -> None:
    """Reading a token takes 50, moving a block 1: two prompts of 2 by 201, and nothing is read after that."""
    found, again = both_ways(HostCopies(9, UNIT), each_read=50)
    assert found.finish_ns.tolist() == [201 + 2 + (2 + 1) + 1 + 1, 208 + (2 + 1) + 1 + 1]
    assert again.finish_ns.tolist() == [206, 206 + (1 + 5 * 50) + 1 + 1]


def test_where_host_memory_is_full_it_computes_again() -> None:
    for space in (0, 1):
        copies = HostCopies(space, 10 * UNIT)
        found, again = both_ways(copies)
        assert found.finish_ns.tolist() == again.finish_ns.tolist()
        assert (copies.kept, copies.full) == (0, 1)


def test_who_left_meanwhile_leaves_its_place() -> None:
    copies = HostCopies(9, 10 * UNIT)
    case = Requests.of([0, 0], [2, 2], [6, 6], 0, [NEVER, 20]), Limits(4, 8, 2, 5, 16)
    found = served(*case, StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0), copies)
    assert found.status.tolist() == [Status.FINISHED, Status.CANCELLED]
    assert copies.away == {}


def test_a_hundredth_of_the_pool_stays_free_for_those_who_run() -> None:
    assert [held_back(1, 1000), held_back(0, 1000), held_back(3, 99)] == [10, 0, 0]


def test_who_was_cheap_to_compute_again_may_be_dear_to_move() -> None:
    """Of two that could go the short one is cheap to compute again; over a free link both are: the later goes."""
    requests = Requests.of([0, 1, 2], [2, 4, 12], [30, 30, 30])
    costs = StepCosts.plane(UNIT, 0, 0, UNIT, 9 * UNIT, UNIT)
    first: list[int] = []
    for copies in (None, HostCopies(99, 0)):
        host = Host(Replica(requests, Limits(4, 64, 2, 24, 64), costs), (0,))
        host.replica.preempts_cheapest, host.replica.copies = True, copies
        run([host], [Stream(requests, (0,))])
        log = host.replica.outcome(0, 0).log.tolist()
        first.append(next(row[3] for row in log if row[2] == Event.PREEMPT))
    assert first == [1, 2]


@pytest.mark.parametrize("chunk", range(6))
def test_whatever_comes_everybody_is_answered_and_memory_is_never_exceeded(chunk: int) -> None:
    """Random cases full of ties, with host memory for nobody, few or all, with and without a prefix cache: all end
    as they would computing again, within the pool, and nothing is left in host memory."""
    kept = 0
    for seed in range(chunk * 60, chunk * 60 + 60):
        requests, limits, costs = random_case(seed)
        draw = np.random.default_rng([seed, 3])
        copies = HostCopies(int(draw.integers(0, 12)), int(draw.integers(0, 3)) * UNIT)
        kind: type[Replica] = Replica
        if seed % 3 == 0:
            names = tuple((int(draw.integers(0, 2)), request) for request in range(len(requests)))
            requests, kind = replace(requests, prefixes=Prefixes(names, 2)), CachingReplica
        found = served(requests, limits, costs, copies, kind)
        given_up = requests.cancel_ns < NEVER
        assert set(found.status[~given_up].tolist()) <= {Status.FINISHED, Status.REFUSED}
        assert found.kv_high_water_blocks <= limits.num_blocks
        assert copies.away == {}
        assert copies.kept + copies.full == found.preemptions
        kept += copies.kept
    assert kept > 0


def test_with_host_memory_for_nobody_all_is_as_if_computed_again() -> None:
    for seed in range(60):
        case = random_case(seed)
        found, again = served(*case, HostCopies(0, UNIT)), served(*case, None)
        assert all(
            np.array_equal(getattr(found, name), getattr(again, name)) for name in Outcome.__dataclass_fields__
        )


def test_it_is_asked_in_words() -> None:
    assert conditions_of(preempt="cheapest").swap_bytes is None
    assert conditions_of(preempt="latest:swap").swap_bytes == 4 * 2**30
    found = conditions_of(preempt="cheapest:swap:8GiB")
    assert (found.preempt, found.swap_bytes) == ("cheapest", 8 * 2**30)
    for word in ("swap", "latest:8GiB", "latest:swap:", "latest:swap:8", ":swap", "latest:swap:1GiB:1GiB"):
        with pytest.raises(InputError):
            conditions_of(preempt=word)


def test_a_replay_moves_blocks_over_the_link() -> None:
    asked: dict[str, Any] = {"duration": "60s", "aiconfigurator": False}
    again = cotenant.simulate(FLEET, **asked)
    found = cotenant.simulate(FLEET, **asked, conditions=conditions_of(preempt="latest:swap"))
    assert sum(one.preemptions for one in again.replicas) > 0
    assert [one.finished for one in found.models] == [one.finished for one in again.models]
    assert found.models != again.models
