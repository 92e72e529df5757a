"""Many models on few cards, token by token: the paper's example, laws of a run, and what urgency is for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.errors import InputError
from cotenant.policy.token_level import group_to_join, may_yield, most_urgent, turn_seconds, urgency
from cotenant.simulation.pooled import Pool, PooledRequest, Pooling, in_lines, on_time

MODEL = in_lines((0.02, 1e-4, 0.0), (0.02, 0.0, 0.001), switch_s=1.0, cache_tokens=4000)
POOLING = Pooling(prefills=1, decodes=1)


def load(seed: int, models: int, count: int) -> list[PooledRequest]:
    draw = np.random.default_rng(seed)
    return [
        PooledRequest(one, int(draw.integers(models)), int(draw.integers(0, 60_000)), int(draw.integers(10, 900)),
                      int(draw.integers(1, 200)))
        for one in range(count)
    ]  # fmt: skip


def test_the_papers_example() -> None:
    """Three batches, 25 ms steps, 100 ms between tokens, 3 s of switches: turns of 3 s each."""
    assert turn_seconds([0.025] * 3, 3.0, 0.1, 3.0) == pytest.approx([3.0, 3.0, 3.0])


@given(st.lists(st.floats(0.005, 0.3), min_size=1, max_size=6), st.floats(0.1, 10))
def test_turns_share_what_is_lacking(steps: list[float], switches: float) -> None:
    turns = turn_seconds(steps, switches, 0.1, 4.0)
    whole = sum(turns) + switches
    tokens = [turn / step for turn, step in zip(turns, steps, strict=True)]
    assert tokens == pytest.approx([tokens[0]] * len(tokens))  # all get the same number of tokens in a round
    assert max(turns) <= 4.0 * (1 + 1e-9) or sum(step / 0.1 for step in steps) < 0.5
    assert whole > 0


def test_choices() -> None:
    assert group_to_join([1, 2, 2], [5, 9, 3], 3, 2, 4, 10) == 2
    assert group_to_join([1, 2, 2], [5, 9, 9], 3, 2, 4, 10) == 3
    assert group_to_join([2], [6], 1, 2, 4, 10) == 0  # to the brim
    assert turn_seconds([0.01], 1.0, 0.1, 100.0) == pytest.approx(
        [0.25]
    )  # alpha is a half at least: 1 / (10 x 0.4)
    assert most_urgent([5, 3, 3], 3) == 1
    assert urgency(10, 10, 4) == 10
    assert urgency(9, 10, 4) == 15
    assert may_yield(90, 50, 45, 10, 7, 5)
    assert not may_yield(90, 50, 30, 10, 7, 5)  # it is not due yet
    assert not may_yield(90, 50, 45, 10, 3, 5)  # it has just begun


@pytest.mark.parametrize("urgent", [False, True])
def test_every_token_comes_once_and_in_order(urgent: bool) -> None:
    requests = load(1, 3, 40)
    pool = Pool([MODEL] * 3, replace(POOLING, prefills=2, decodes=2, urgent=urgent, patience_s=1e6))
    pool.run(requests)
    for one in requests:
        assert len(one.tokens) == one.written
        assert one.tokens == sorted(one.tokens)
        assert one.tokens[0] > one.arrival
    assert pool.switches > 3
    assert 0 < on_time(pool, requests) <= 1


def test_the_same_requests_have_the_same_answer() -> None:
    runs = []
    for _ in range(2):
        requests = load(2, 3, 30)
        Pool([MODEL] * 3, POOLING).run(requests)
        runs.append([one.tokens for one in requests])
    assert runs[0] == runs[1]


def test_one_model_alone_never_switches_twice_and_is_on_time() -> None:
    requests = [PooledRequest(0, 0, 0, 100, 50), PooledRequest(1, 0, 500, 100, 50)]
    pool = Pool([MODEL], POOLING)
    pool.run(requests)
    assert pool.switches == 2  # one to read, one to decode
    assert on_time(pool, requests) == 1.0


def test_whoever_waits_too_long_to_be_read_is_given_up_and_misses_all() -> None:
    slow = replace(MODEL, prefill_s=lambda tokens: 20.0)
    requests = [PooledRequest(number, 0, number, 100, 10) for number in range(3)]
    pool = Pool([slow], POOLING)
    pool.run(requests)
    assert [one.given_up for one in requests] == [False, True, True]  # the first was begun
    assert on_time(pool, requests) == 0.0


def test_turns_that_end_where_another_is_due_keep_more_tokens_on_time() -> None:
    shares = []
    for urgent in (False, True):
        requests = load(5, 12, 240)
        pool = Pool([MODEL] * 12, replace(POOLING, prefills=2, decodes=2, urgent=urgent))
        pool.run(requests)
        shares.append(on_time(pool, requests))
    assert shares[1] > shares[0]


def test_a_pool_has_both_kinds_of_card() -> None:
    with pytest.raises(InputError, match="one that decodes"):
        Pooling(prefills=1, decodes=0)


def test_who_came_first_is_handed_over_first_whoever_was_read_first() -> None:
    """As Aegaeon's simulator does it: its list of requests is in order of arrival."""
    pool = Pool([MODEL] * 2, replace(POOLING, decodes=2))
    early, late = PooledRequest(1, 0, 5, 100, 50), PooledRequest(0, 1, 9, 100, 50)
    pool.read = [late, early]
    pool._dispatch()
    assert [card.coming for card in pool.decoders] == [[early], [late]]
