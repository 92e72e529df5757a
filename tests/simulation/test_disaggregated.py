"""Prefill and decode on replicas of their own, as a policy of a plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cotenant
from cotenant.domain.conditions import Conditions
from cotenant.domain.replay import Replay
from cotenant.errors import UnsupportedError
from cotenant.simulation.conditions import conditions_of
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.disaggregated import readers_of, serve
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import NEVER, Limits, Requests, Status
from cotenant.simulation.replica import Replica

UNIT = 1_000_000
MODEL = {"weights": "4GB", "kv_per_token": "64KiB"}
TRAFFIC = {
    "requests_per_second": 6,
    "input_tokens": {"p50": 900, "p95": 3000},
    "output_tokens": {"p50": 90, "p95": 300},
}


def fleet(replicas: int = 4, **more: Any) -> dict[str, Any]:
    one = {"name": "chat", "model": MODEL, "traffic": TRAFFIC, "replicas": {"min": replicas, "max": replicas}}
    return {
        "engine": "vllm",
        "gpus": [{"type": "L4", "count": 8}],
        "models": [{**one, "sharing": ["alone"], "slo": {"ttft": "2s", "tpot": "60ms"}, **more}],
    }


def replayed(policy: str, **more: Any) -> Replay:
    how = {"duration": "40s", "aiconfigurator": False, **more}
    return cotenant.simulate(how.pop("fleet", None) or fleet(), policy=policy, **how)


def test_how_many_read() -> None:
    assert [readers_of(count) for count in (1, 2, 3, 4, 8, 16)] == [0, 1, 1, 2, 3, 6]


def test_a_writer_takes_over_what_was_read() -> None:
    """A prompt of 5 whose first token is there: three further ones in three steps of 1 + its context."""
    requests = Requests.of([7], [5], [4])
    replica = Replica(requests, Limits(2, 8, 4, 8, 64), StepCosts.plane(UNIT, 0, UNIT, 99 * UNIT, 0, 0))
    replica.expect_caches()
    host = Host(replica, (0,))
    run([host], [Stream(requests, (0,))])
    found = replica.outcome(host.busy_fs, host.last_fs)
    assert found.finish_ns.tolist() == [7 + (1 + 6) + (1 + 7) + (1 + 8)]
    assert found.kv_high_water_blocks == 2


def test_a_writer_whose_blocks_run_out_computes_again() -> None:
    requests = Requests.of([0, 0], [2, 2], [7, 7])
    replica = Replica(requests, Limits(4, 8, 2, 5, 16), StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0))
    replica.expect_caches()
    run([Host(replica, (0,))], [Stream(requests, (0,))])
    found = replica.outcome(0, 0)
    assert found.status.tolist() == [Status.FINISHED, Status.FINISHED]
    assert found.preemptions == 1


def test_answers_do_not_wait_for_prompts() -> None:
    """By hand: a prompt of 5 is read by 15, its cache takes 2 ns a token, and three steps follow, though its
    reader reads one of 90 from 15 to 115. A request that is too long is refused, one of a token is done."""
    requests = Requests.of([0, 3, 4], [5, 90, 200], [4, 1, 1])
    limits, costs = Limits(2, 128, 4, 32, 128), StepCosts.plane(UNIT, 0, UNIT, 10 * UNIT, UNIT, 0)
    hostings: list[Any] = [
        SimpleNamespace(
            limits=limits, costs=costs, cards=((0, place),), kv_cache_bytes=128, link_rate=0.5e9,
            prefix_caching=False,
        )
        for place in range(2)
    ]  # fmt: skip
    model: Any = SimpleNamespace(work=SimpleNamespace(requests=requests), hosts=(0, 1))
    hosts: list[Any] = [None, None]
    found = serve(model, hosts, hostings, NEVER, Conditions())
    reader, writer = found[0][0], found[1][0]
    assert reader.first_token_ns.tolist() == [15, 115, 0]
    assert reader.finish_ns.tolist() == [0, 115, 0]
    assert reader.status.tolist() == [Status.UNFINISHED, Status.FINISHED, Status.REFUSED]
    assert writer.status.tolist() == [Status.FINISHED, 0, 0]
    assert writer.finish_ns.tolist() == [15 + 10 + (1 + 6) + (1 + 7) + (1 + 8), 0, 0]
    assert [host.replica.taken for host in hosts] == [2, 1]


def test_readers_read_and_writers_write() -> None:
    found = replayed("disaggregated")
    requests = found.models[0].requests
    taken = [one.requests for one in found.replicas]
    assert sum(taken[:2]) == requests
    assert sum(taken[2:]) <= requests  # but for answers of a token
    assert sum(taken[2:]) > 0.9 * requests
    (series,) = found.timeline.models
    assert sum(series.arrivals) * found.timeline.part_s == pytest.approx(requests, rel=1e-4)
    means = np.array([one for one in series.ttft_s if one is not None])
    assert means.min() > 0


def test_the_same_seed_has_the_same_answer_and_clients_may_leave() -> None:
    assert replayed("disaggregated") == replayed("disaggregated")
    found = replayed("disaggregated", conditions=conditions_of(timeout="2s")).models[0]
    assert found.cancelled > 0
    assert found.finished + found.cancelled == found.requests


def test_what_it_cannot_split_is_refused() -> None:
    closed = {"traffic": {"concurrent": 4, "context_tokens": {"p95": 900}}}
    for more, says in (
        ({"fleet": fleet(1)}, "at least two replicas"),
        ({"fleet": fleet(2, **closed)}, "need requests a second"),
        ({"conditions": conditions_of(dispatch="best-fit")}, "know no turns"),
        ({"conditions": conditions_of(fail=["chat-0@1s+1s"])}, "know no turns"),
        ({"conditions": conditions_of(preempt="latest:swap")}, "know no turns"),
    ):
        with pytest.raises(UnsupportedError, match=says):
            replayed("disaggregated", **more)
