"""KV cache that replicas lend each other: nobody takes more than there is, and everybody gets to the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.policy.elastic import free_blocks, spare_bytes
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Limits, Requests, Status
from cotenant.simulation.pool import Borrower, Pool
from cotenant.simulation.replica import Replica

UNIT = 1_000_000
EVEN = StepCosts.plane(10 * UNIT, 0, 0, 10 * UNIT, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5), st.integers(1, 9))
def test_what_is_promised_is_there_whoever_takes_what_is_spare(pairs: list[tuple[int, int]], block: int) -> None:
    held, floors = [one for one, _ in pairs], [one for _, one in pairs]
    capacity = sum(max(pair) for pair in pairs) + 30
    spare = spare_bytes(capacity, held, floors, len(pairs))
    assert spare == 30
    for place in range(len(pairs)):
        blocks = free_blocks(held[place], floors[place], spare, block)
        taken = [*held]
        taken[place] += blocks * block
        assert spare_bytes(capacity, taken, floors, len(pairs)) >= 0
        taken[place] += block
        assert spare_bytes(capacity, taken, floors, len(pairs)) < 0


def served(loads: list[Requests], capacity: int, *, floor: int, pooled: bool) -> tuple[list[Any], Pool]:
    """Outcomes of models on one card with `capacity` blocks, lent or in equal parts."""
    pool = Pool({"card": capacity}, [Borrower(("card",), 1, floor) for _ in loads])
    most = capacity if pooled else capacity // len(loads)
    limits = Limits(8, 32, 1, most, 2 * floor)
    hosts = [
        Host(Replica(load, limits, EVEN, **({"pool": pool, "share": share} if pooled else {})), ("card",))
        for load, share in zip(loads, pool.borrowers, strict=True)
    ]
    run(hosts, [Stream(load, (place,)) for place, load in enumerate(loads)])
    return [host.replica.outcome(host.busy_fs, host.last_fs) for host in hosts], pool


@pytest.mark.parametrize("seed", range(30))
def test_memory_is_never_exceeded_and_everybody_ends(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(seed)
    loads = [
        Requests.of(np.sort(draw.integers(0, 90, 12)), draw.integers(1, 8, 12), draw.integers(1, 9, 12))
        for _ in range(3)
    ]
    taken: list[int] = []
    take = Replica._take

    def noted(self: Replica, blocks: int) -> None:
        take(self, blocks)
        assert self._pool is not None
        taken.append(sum(one.held_bytes for one in self._pool.borrowers))

    monkeypatch.setattr(Replica, "_take", noted)
    outcomes, _ = served(loads, 54, floor=16, pooled=True)
    assert max(taken) <= 54
    assert taken[-1] == 0
    assert all((one.status == Status.FINISHED).all() for one in outcomes)


def test_a_burst_takes_what_the_others_do_not_need() -> None:
    burst = Requests.of([0] * 8, [6] * 8, [6] * 8)
    quiet = Requests.of([5000], [6], [6])
    apart, _ = served([burst, quiet], 80, floor=12, pooled=False)
    lent, _ = served([burst, quiet], 80, floor=12, pooled=True)
    assert apart[0].preemptions > 0
    assert lent[0].preemptions < apart[0].preemptions
    assert lent[0].finish_ns.max() < apart[0].finish_ns.max()
    assert lent[1].finish_ns.tolist() == apart[1].finish_ns.tolist()


def test_a_pool_that_lent_too_much_still_keeps_what_it_promised() -> None:
    """Ten bytes more are held than there are: nothing is spare, and the rest of a floor is what it was."""
    assert free_blocks(20, 50, -10, 10) == 3
    assert free_blocks(60, 50, -10, 10) == 0
