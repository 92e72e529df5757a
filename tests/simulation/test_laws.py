"""Laws that hold for every replay, whatever its requests: work, memory, time, and what scales with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.simulation_cases import Case, random_case
from cotenant.simulation import fast, plain
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import NEVER, Event, Outcome, Requests, Status
from cotenant.simulation.replica import Replica

UNIT = 1_000_000  # fs: one nanosecond
SEEDS = range(150)


def slower(case: Case, times: int) -> Case:
    """All that takes or names a time, so many times as long."""
    requests, limits, costs = case
    leaves = np.where(requests.cancel_ns < NEVER, requests.cancel_ns * times, NEVER)
    later = replace(requests, arrival_ns=requests.arrival_ns * times, cancel_ns=leaves)
    return later, limits, costs.each(lambda cost: cost * times)


def whole(seed: int) -> Case:
    """A random case whose steps take whole nanoseconds, none of them less than one."""
    requests, limits, costs = random_case(seed)
    costs = costs.each(lambda cost: cost % 3 * UNIT)
    later = [
        tuple((until, base + UNIT, each) for until, base, each in row) for row in (costs.reading, *costs.decode)
    ]
    return requests, limits, replace(costs, reading=later[0], decode=tuple(later[1:]))


def jumping(*case: Any) -> Outcome:
    """The fast core, with its log."""
    return fast.simulate(*case, log=True, with_numba=False)


@pytest.mark.parametrize("core", [plain.simulate, jumping])
def test_who_is_served_is_served_within_the_pool_and_the_time(core: Callable[..., Outcome]) -> None:
    for seed in SEEDS:
        requests, limits, costs = random_case(seed)
        found = core(requests, limits, costs)
        ended = found.status == Status.FINISHED
        assert np.isin(found.status, [Status.FINISHED, Status.REFUSED, Status.CANCELLED]).all(), seed
        assert found.has_first[ended].all()
        assert (found.first_token_ns >= requests.arrival_ns)[found.has_first].all()
        assert (found.finish_ns >= found.first_token_ns)[ended].all()  # TTFT within E2E
        assert 0 <= found.kv_high_water_blocks <= limits.num_blocks
        assert found.busy_ns <= found.end_ns
        count = {event: int((found.log[:, 2] == event).sum()) for event in Event}
        assert count[Event.FINISH] == ended.sum()
        assert count[Event.PREEMPT] == found.preemptions
        assert count[Event.FIRST_TOKEN] == found.has_first.sum()
        again = count[Event.ADMIT] - count[Event.PREEMPT]  # each preempted one joined before
        assert ended.sum() <= again <= len(requests) - (found.status == Status.REFUSED).sum()


def test_an_answer_takes_a_step_for_each_token_whatever_happens() -> None:
    """Every step takes one nanosecond: between its first token and its last lie as many as tokens, or more."""
    for seed in SEEDS:
        requests, limits, _ = random_case(seed)
        found = plain.simulate(requests, limits, StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0))
        took = found.finish_ns - found.first_token_ns
        ended = found.status == Status.FINISHED
        assert (took >= requests.output_tokens - 1)[ended].all(), seed
        if not found.preemptions:
            alone = (took == requests.output_tokens - 1)[ended]
            assert alone.all(), seed
        assert found.busy_ns == found.steps


@pytest.mark.parametrize("times", [2, 7, 1000])
def test_where_all_times_are_longer_all_answers_are(times: int) -> None:
    for seed in SEEDS:
        case = whole(seed)
        once, scaled = plain.simulate(*case), plain.simulate(*slower(case, times))
        assert np.array_equal(once.status, scaled.status), seed
        assert np.array_equal(once.first_token_ns * times, scaled.first_token_ns), seed
        assert np.array_equal(once.finish_ns * times, scaled.finish_ns), seed
        assert (once.steps, once.preemptions) == (scaled.steps, scaled.preemptions)
        assert once.busy_ns * times == scaled.busy_ns


def test_beside_a_neighbour_nobody_is_faster_and_every_token_is_written() -> None:
    for seed in SEEDS:
        first, second = whole(seed), whole(seed + 1000)
        hosts = [Host(Replica(*case), ("card",)) for case in (first, second)]
        run(hosts, [Stream(case[0], (place,)) for place, case in enumerate((first, second))])
        for host in hosts:
            assert host.busy_fs >= host.alone_fs, seed
        end = max(host.last_fs for host in hosts)
        assert all(host.busy_fs <= end for host in hosts)
        for host, (requests, limits, _) in zip(hosts, (first, second), strict=True):
            found = host.replica.outcome(host.busy_fs, host.last_fs)
            assert (found.status != Status.UNFINISHED).all(), seed
            assert found.kv_high_water_blocks <= limits.num_blocks
            assert host.replica.free_blocks == limits.num_blocks  # all that was taken was given back
            assert len(found.status) == len(requests)


def test_with_more_cards_nobody_is_answered_later_than_with_one() -> None:
    """Where all steps take alike and nobody is preempted: of a longer queue each one waits for some, not all."""
    for seed in SEEDS:
        draw = np.random.default_rng(seed)
        count = int(draw.integers(2, 20))
        requests = Requests.of(np.sort(draw.integers(0, 40, count)), [4] * count, [3] * count)
        limits = replace(random_case(seed)[1], max_num_seqs=1, max_num_batched_tokens=4, block_size=4)
        limits = replace(limits, num_blocks=99, max_model_len=40)
        costs = StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0)
        ends = []
        for cards in (1, 2, 3):
            hosts = [Host(Replica(requests, limits, costs), (place,)) for place in range(cards)]
            run(hosts, [Stream(requests, tuple(range(cards)))])
            ends.append(sum(host.replica.outcome(0, 0).finish_ns for host in hosts))
        for more in ends[1:]:
            assert (more <= ends[0]).all(), seed
