"""A replay over time against sums by hand and against the cores' own clocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cotenant
from cotenant.simulation.load import Outcome, Requests, Status
from cotenant.simulation.timeline import Lived, _mean, _ramp, _union, timeline

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NS = 10**9
spans = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=12)


def lived(name: str, arrival: list[int], first: list[int], end: list[int], **changes: object) -> Lived:
    count = len(arrival)
    outcome = Outcome(
        status=np.full(count, int(Status.FINISHED)), first_token_ns=np.array(first) * NS,
        has_first=np.ones(count, np.bool_), finish_ns=np.array(end) * NS, preemptions=0, steps=0, busy_ns=0,
        end_ns=0, kv_high_water_blocks=0, log=np.zeros((0, 4), np.int64),
    )  # fmt: skip
    requests = Requests.of(np.array(arrival) * NS, [100] * count, [100] * count)
    values = {"claimed_bytes": 1000, "asleep_bytes": 10, "kv_bytes": 400, "pool_tokens": 400} | changes
    return Lived(name, name, ("card",), requests, outcome, **values)  # type: ignore[arg-type]


def test_one_request_by_hand() -> None:
    """It comes at 0, writes from 2 to 4, and holds 100 tokens that grow to 200."""
    found = timeline([lived("a", [0], [2], [4])], end_s=8, capacity_bytes={"card": 2000}, parts=4)
    (model,), (memory,) = found.models, found.memory
    assert model.arrivals == (0.5, 0, 0, 0)
    assert model.waiting == (1, 0, 0, 0)
    assert model.running == (0, 1, 0, 0)
    assert model.busy == (1, 1, 0, 0)
    assert model.ttft_s == (None, 2, None, None)
    assert model.tpot_s == (None, None, pytest.approx(2 / 99, rel=1e-5), None)
    assert memory.kv_bytes == (0, 150, 0, 0)
    assert memory.fixed_bytes == (600,) * 4
    assert [(one.by, one.seconds) for one in found.starved] == [("a", 2.0)]


def test_who_was_handed_over_is_paced_from_the_first_token_of_all() -> None:
    """A reader gave the first of 100 tokens at 1; a writer had the cache at 2, its own first at 3, ended at 4."""
    found = timeline([lived("a", [2], [3], [4], begun_ns=np.array([NS]))], end_s=8, capacity_bytes={"card": 2000})
    paces = [pace for pace in found.models[0].tpot_s if pace is not None]
    assert paces == [pytest.approx(3 / 99, rel=1e-5)]


def test_who_waits_to_the_end_has_come_and_waits() -> None:
    """Two come at 0; one is answered from 1 to 2, nobody gets to the other. Both replicas know of both."""
    one, other = (lived("a", [0, 0], [1, 1], [2, 2]) for _ in range(2))
    nobody = np.zeros(2, np.bool_)
    rest = replace(one.outcome, status=np.array([int(Status.FINISHED), int(Status.UNFINISHED)]),
                   has_first=np.array([True, False]))  # fmt: skip
    idle = replace(other.outcome, status=np.full(2, int(Status.UNFINISHED)), has_first=nobody)
    lives = [replace(one, outcome=rest), replace(other, outcome=idle)]
    (model,) = timeline(lives, end_s=4, capacity_bytes={"card": 2000}, parts=4).models
    assert model.arrivals == (2, 0, 0, 0)
    assert model.waiting == (2, 1, 1, 1)
    assert model.running == (0, 1, 0, 0)


def test_a_sleeper_starves_while_another_works() -> None:
    """b waits for 4 s: 3 s while a works, 1 s while it is loaded itself; then it works."""
    a = lived("a", [0], [0], [3], spells_s=((0.0, 0.0, 3.0),))
    b = lived("b", [0], [4], [6], spells_s=((3.0, 4.0, 8.0),))
    found = timeline([a, b], end_s=8, capacity_bytes={"card": 2000}, parts=8)
    starved = {(one.model, one.by): one.seconds for one in found.starved}
    assert starved == pytest.approx({("b", "a"): 3.0, ("b", ""): 1.0})
    assert found.memory[1].fixed_bytes == (10, 10, 10, 600, 600, 600, 600, 600)
    assert found.models[1].busy == (0, 0, 0, 0, 1, 1, 0, 0)


@given(spans)
def test_a_union_covers_what_its_parts_cover(given_spans: list[tuple[float, float]]) -> None:
    starts = np.array([start for start, _ in given_spans])
    ends = np.array([start + length for start, length in given_spans])
    low, high = _union(starts, ends)
    assert np.all(low[1:] > high[:-1])
    for moment in np.linspace(0, 151, 303) + 0.123:
        assert bool(((starts <= moment) & (moment < ends)).any()) == bool(
            ((low <= moment) & (moment < high)).any()
        )


@given(spans)
def test_means_add_up_to_the_whole(given_spans: list[tuple[float, float]]) -> None:
    starts = np.array([start for start, _ in given_spans])
    ends = np.array([start + length for start, length in given_spans])
    edges = np.linspace(0, 200, 41)
    assert (_mean(starts, ends, edges) * 5).sum() == pytest.approx((ends - starts).sum(), abs=1e-6)
    ramps = _ramp(starts, ends, np.full(len(starts), 7.0), edges)
    assert (ramps * 5).sum() == pytest.approx(3.5 * (ends - starts).sum(), rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("policy", ["static", "swap"])
def test_work_over_time_is_the_work_that_the_cores_counted(policy: str) -> None:
    replay = cotenant.simulate(EXAMPLES / "raw-figures.yaml", duration="30s", policy=policy)
    assert replay.timeline is not None
    for replica, series in zip(replay.replicas, replay.timeline.models, strict=True):
        assert np.mean(series.busy) == pytest.approx(replica.busy, abs=2e-3)
        assert max(series.busy) <= 1 + 1e-9
    for memory in replay.timeline.memory:
        for held, reserved in zip(memory.kv_bytes, memory.reserved_bytes, strict=True):
            assert 0 <= held <= reserved * (1 + 1e-6)
