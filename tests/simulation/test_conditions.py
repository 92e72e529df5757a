"""Clients that leave, replicas that fail, who takes a request and who gives way: by hand, and as written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.simulation_cases import random_case
from cotenant.domain.conditions import Conditions
from cotenant.domain.workload import Slo
from cotenant.errors import InputError
from cotenant.policy.best_fit import fits, fullest, fullness, slack
from cotenant.policy.preemption import cheapest
from cotenant.simulation import plain
from cotenant.simulation.best_fit import Targets
from cotenant.simulation.conditions import conditions_of, outages
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Event, Limits, Outcome, Requests, Status
from cotenant.simulation.metrics import model_replay
from cotenant.simulation.outages import Away, Outages
from cotenant.simulation.replica import Replica

UNIT = 1_000_000
LIMITS = Limits(4, 16, 4, 64, 64)
EVEN = StepCosts.plane(10 * UNIT, 0, 0, 10 * UNIT, 0, 0)  # every step takes 10 ns


def served(
    requests: Requests, *, hosts: int = 2, away: Sequence[Away] = (), limits: Limits = LIMITS, **how: object
) -> tuple[list[Host], Outages, list[int]]:
    """Hosts of one model, what befell them, and the status of each request."""
    found = [Host(Replica(requests, limits, EVEN), (place,)) for place in range(hosts)]
    failing = Outages(away)
    run(found, [Stream(requests, tuple(range(hosts)), **how)], outages=failing)  # type: ignore[arg-type]
    outcomes = [one.replica.outcome(one.busy_fs, one.last_fs) for one in found]
    return found, failing, sum(one.status for one in outcomes).tolist()  # type: ignore[union-attr]


def test_what_is_being_answered_is_lost_and_what_waits_begins_anew() -> None:
    """Two replicas of one slot; at 25 the first has written two tokens of request 0; request 2 waits behind."""
    requests = Requests.of([0, 1, 2], [4] * 3, [5] * 3)
    slot = replace(LIMITS, max_num_seqs=1)
    hosts, failing, status = served(requests, away=[Away(0, 25 * UNIT, 1000 * UNIT)], limits=slot)
    assert status == [Status.LOST, Status.FINISHED, Status.FINISHED]
    assert (failing.retried, failing.failures) == ({0: 1}, {0: 1})
    assert [one.replica.taken for one in hosts] == [1, 2]
    assert hosts[0].busy_fs == 25 * UNIT  # the step that was cut short counts as far as it went
    log = hosts[0].replica.outcome(0, 0).log.tolist()
    assert log[-1][2:] == [Event.LOSE, 0]
    assert hosts[1].replica.outcome(0, 0).finish_ns[2] == 51 + 50


def test_a_step_that_breaks_off_counts_alike_by_both_clocks() -> None:
    """Alone, busy time is what it would be alone; of two on one card steps take twice as long, parts too."""
    requests = Requests.of([0], [4], [5])
    hosts, _, _ = served(requests, hosts=1, away=[Away(0, 25 * UNIT, 1000 * UNIT)])
    assert hosts[0].busy_fs == hosts[0].alone_fs == 25 * UNIT
    both = [Host(Replica(requests, LIMITS, EVEN), ("card",)) for _ in range(2)]
    run(
        both, [Stream(requests, (0,)), Stream(requests, (1,))],
        outages=Outages([Away(0, 50 * UNIT, 1000 * UNIT)]),
    )  # fmt: skip
    assert (both[0].busy_fs, both[0].alone_fs) == (50 * UNIT, 25 * UNIT)


def test_where_nobody_is_up_requests_wait_for_one() -> None:
    requests = Requests.of([0, 30], [4, 4], [1, 2])
    hosts, _, status = served(requests, hosts=1, away=[Away(0, 20 * UNIT, 100 * UNIT)])
    assert status == [Status.FINISHED] * 2
    assert hosts[0].replica.outcome(0, 0).finish_ns.tolist() == [10, 120]


def test_users_of_a_closed_loop_survive_an_outage() -> None:
    requests = Requests.of([0] * 50, [4] * 50, [5] * 50)
    one = Host(Replica(requests, LIMITS, EVEN), (0,))
    stream = Stream(requests, (0,), users=2, until_ns=400)
    run([one], [stream], outages=Outages([Away(0, 70 * UNIT, 200 * UNIT)]))
    found = one.replica.outcome(0, 0).status[: len(stream.came_ns)].tolist()
    assert found.count(Status.LOST) == 2
    assert stream.came_ns[:8] == [0, 0, 50, 50, 70, 70, 250, 250]
    assert Status.UNFINISHED not in found


@pytest.mark.parametrize("chunk", range(3))
def test_every_request_is_answered_lost_or_given_up_once(chunk: int) -> None:
    lost = again = 0
    for seed in range(chunk * 60, (chunk + 1) * 60):
        requests, limits, costs = random_case(seed)
        draw = np.random.default_rng(seed)
        hosts = [Host(Replica(requests, limits, costs), (place,)) for place in range(2)]
        starts = np.cumsum(draw.integers(1, 40, 6)).tolist()
        away = [Away(int(draw.integers(0, 2)), start * UNIT, (start + 1) * UNIT) for start in starts]
        failing = Outages(away)
        run(hosts, [Stream(requests, (0, 1))], outages=failing)
        status = sum(one.replica.outcome(0, 0).status for one in hosts)
        assert Status.UNFINISHED not in status, seed  # type: ignore[operator]
        assert max(status) <= Status.LOST, seed  # type: ignore[arg-type]
        assert all(one.replica.free_blocks == limits.num_blocks for one in hosts)
        lost += int((status == Status.LOST).sum())  # type: ignore[union-attr]
        again += sum(failing.retried.values())
    assert lost > 5
    assert again > 5


def test_a_client_that_left_has_waited_for_ever() -> None:
    """Nineteen quick answers and one that nobody waited for: p90 holds, p99 does not."""
    requests = Requests.of([100 * one for one in range(20)], [4] * 20, [2] * 19 + [9], 0, [10**9] * 19 + [1920])
    outcome = plain.simulate(requests, LIMITS, EVEN)
    assert int((outcome.status == Status.CANCELLED).sum()) == 1
    for percentile, held in ((90.0, True), (99.0, False)):
        slo = Slo(ttft_s=1.0, percentile=percentile)
        found = model_replay("m", requests, outcome, slo=slo, first_token_s=0.0, duration_s=1.0)
        assert (found.slo_held, found.cancelled, found.attainment) == (held, 1, 0.95)


def test_who_left_kept_neither_target_and_who_wrote_one_token_kept_its_pace() -> None:
    """Two of three answers are of one token, which is no pace to miss; the third left."""
    requests = Requests.of([0, 100, 200], [4] * 3, [1, 1, 50], 0, [10**9, 10**9, 250])
    outcome = plain.simulate(requests, LIMITS, EVEN)
    assert outcome.status.tolist() == [Status.FINISHED, Status.FINISHED, Status.CANCELLED]

    def held(slo: Slo, load: Requests = requests) -> bool | None:
        return model_replay("m", load, outcome, slo=slo, first_token_s=0.0, duration_s=1.0).slo_held

    for ttft_s, tpot_s in ((1.0, None), (None, 1.0), (1.0, 1.0)):
        assert held(Slo(ttft_s, tpot_s, percentile=66.0))
        assert not held(Slo(ttft_s, tpot_s, percentile=67.0))


def test_an_slo_is_held_by_the_share_that_kept_both_targets() -> None:
    """One of ten is late to begin, another slow to write: nine keep each target, eight keep both."""
    requests = Requests.of([0] * 10, [4] * 10, [3] * 10)
    first, finish = [10] * 9 + [90], [30] * 8 + [80, 110]
    outcome = Outcome(
        status=np.full(10, int(Status.FINISHED)), first_token_ns=np.array(first) * 10**6,
        has_first=np.ones(10, np.bool_), finish_ns=np.array(finish) * 10**6, preemptions=0, steps=0, busy_ns=0,
        end_ns=0, kv_high_water_blocks=0, log=np.zeros((0, 4), np.int64),
    )  # fmt: skip

    def found(ttft_s: float | None, tpot_s: float | None, percentile: float) -> tuple[bool | None, float]:
        slo = Slo(ttft_s, tpot_s, percentile)
        one = model_replay("m", requests, outcome, slo=slo, first_token_s=0.0, duration_s=1.0)
        return one.slo_held, one.attainment

    assert found(0.05, None, 90.0) == (True, 0.9)
    assert found(None, 0.02, 90.0) == (True, 0.9)
    assert found(0.05, 0.02, 90.0) == (False, 0.8)
    assert found(0.05, 0.02, 80.0) == (True, 0.8)


def test_the_cheapest_to_compute_again_gives_way_within_the_lowest_priority() -> None:
    ranks, frees = [0, 1, 2, 3], [4, 4, 1, 4]
    assert cheapest([0, 0, 0, 0], ranks, [9, 5, 4, 8], frees, 1, 4) == 2  # one block is enough
    assert cheapest([0, 0, 0, 0], ranks, [9, 5, 4, 8], frees, 4, 4) == 1  # four wanted: 5/4 against 4
    assert cheapest([0, 0, 0, -1], ranks, [9, 5, 4, 80], frees, 1, 4) == 3  # priority first
    assert cheapest([0, 0], [1, 0], [1, 1], [1, 1], 1, 2) == 0  # the first of all stays
    assert cheapest([0], [5], [1], [1], 1, 1) == 0
    assert cheapest([0, 0, 0], [0, 1, 2], [1, 3, 3], [1, 1, 1], 1, 3) == 2  # a tie: the latest


def test_with_the_cheapest_giving_way_everybody_is_answered() -> None:
    preempted = differs = 0
    for seed in range(400):
        requests, limits, costs = random_case(seed)
        replica = Replica(requests, limits, costs)
        replica.preempts_cheapest = True
        host = Host(replica, (0,))
        run([host], [Stream(requests, (0,))])
        found, usual = replica.outcome(host.busy_fs, host.last_fs), plain.simulate(requests, limits, costs)
        assert Status.UNFINISHED not in found.status, seed
        assert replica.free_blocks == limits.num_blocks
        preempted += found.preemptions
        differs += not np.array_equal(found.log, usual.log)
    assert preempted > 50
    assert differs > 10


def test_best_fit_fills_one_replica_before_the_next() -> None:
    requests = Requests.of([0, 1, 2, 3], [4] * 4, [5] * 4)
    shared, _, _ = served(requests)
    filled, _, status = served(requests, dispatch="best_fit", targets=Targets(output_tokens=5))
    assert [one.replica.taken for one in shared] == [2, 2]
    assert [one.replica.taken for one in filled] == [4, 0]
    assert status == [Status.FINISHED] * 4


def test_best_fit_opens_the_next_one_where_times_would_break() -> None:
    """A prompt takes a step of 10 ns: two that queue behind another cannot be read in 25."""
    requests = Requests.of([0, 0, 0, 0], [4] * 4, [5] * 4)
    filled, _, _ = served(requests, dispatch="best_fit", targets=Targets(ttft_fs=25 * UNIT, output_tokens=5))
    assert [one.replica.taken for one in filled] == [2, 2]
    tight = replace(LIMITS, num_blocks=5)  # two of nine tokens do not fit
    filled, _, _ = served(requests, dispatch="best_fit", limits=tight, targets=Targets(output_tokens=5))
    assert [one.replica.taken for one in filled] == [2, 2]


def test_a_request_fits_by_all_four_rules() -> None:
    good = (5, 10, 3, 4, 7, 8, 9, 9)
    assert fits(*good)
    for place, worse in ((0, 11), (2, 5), (4, 9), (6, 10)):
        assert not fits(*(worse if index == place else value for index, value in enumerate(good)))
    assert slack(3, 10, 25) == 5
    assert fullest([0, 1, 1], [9, 3, 5], 3) == 2
    assert fullest([0, 0], [1, 1], 2) == 2


def test_conditions_as_they_are_written() -> None:
    found = conditions_of(timeout="30s", fail=["chat-0@120s+60s", "mtbf:2h+90s"], dispatch="best-fit")
    away = outages(found, ["chat-0", "chat-1"], seed=1, until_s=50_000)
    assert Away(0, 120 * 10**15, 180 * 10**15) in away
    assert away == outages(found, ["chat-0", "chat-1"], seed=1, until_s=50_000)
    assert 8 <= len(away) <= 25  # two replicas, seven spells of two hours each
    assert all(one.from_fs < one.until_fs for one in away)
    assert conditions_of() == Conditions()
    assert conditions_of(residency="2s", hold="1500ms") == Conditions(residency_s=2.0, hold_s=1.5)


def test_outages_of_one_replica_that_overlap_are_one() -> None:
    found = outages(conditions_of(fail=["a@5s+10s", "a@10s+20s"]), ["a"], seed=0, until_s=100)
    assert found == [Away(0, 5 * 10**15, 30 * 10**15)]


@pytest.mark.parametrize(
    "words",
    [
        {"fail": ["chat-0"]}, {"fail": ["chat-0@5s"]}, {"fail": ["@5s+5s"]}, {"fail": ["a@-5s+5s"]},
        {"fail": ["mtbf:0s+5s"]}, {"fail": ["mtbf:2h"]}, {"fail": ["a@5s+0s"]}, {"timeout": "0s"},
        {"residency": "-1s"}, {"hold": "-1s"}, {"hold": "soon"}, {"dispatch": "random"}, {"preempt": "first"},
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused(words: dict[str, object]) -> None:
    with pytest.raises(InputError):
        conditions_of(**words)  # type: ignore[arg-type]


def test_an_unknown_replica_cannot_fail() -> None:
    with pytest.raises(InputError, match="no replica 'b' to fail"):
        outages(conditions_of(fail=["b@1s+1s"]), ["a"], seed=0, until_s=9)


def test_outages_within_and_after_each_other_are_one() -> None:
    """One that lies within another ends with it; one that begins as another ends goes on with it."""
    asked = conditions_of(fail=["a@1s+5s", "a@2s+1s", "a@6s+1s", "a@8s+1s", "b@2s+1s"])
    second = 10**9 * UNIT
    assert outages(asked, ["a", "b"], seed=0, until_s=10.0) == [
        Away(0, 1 * second, 7 * second),
        Away(1, 2 * second, 3 * second),
        Away(0, 8 * second, 9 * second),
    ]


def test_users_whose_request_waits_for_a_host_do_not_ask_another() -> None:
    """Two users, one host, away from 20 to 200: the two that came at 20 wait, and nobody asks beside them."""
    requests = Requests.of([0] * 50, [4] * 50, [2] * 50)
    one = Host(Replica(requests, LIMITS, EVEN), (0,))
    other = Host(Replica(Requests.of([50], [4], [9]), LIMITS, EVEN), (1,))
    stream = Stream(requests, (0,), users=2, until_ns=230)
    busy = Stream(other.replica.requests, (1,))  # so that there are moments meanwhile
    run([one, other], [stream, busy], outages=Outages([Away(0, 20 * UNIT, 200 * UNIT)]))
    assert stream.came_ns == [0, 0, 20, 20, 220, 220]


def test_fullness_is_of_both_together() -> None:
    """Of 3 and 4 tenths the squares: one that is full in one thing is fuller than one half full in both."""
    assert fullness(3, 10, 4, 10) == 300**2 + 400**2
    assert fullness(9, 10, 0, 10) > fullness(5, 10, 5, 10)
