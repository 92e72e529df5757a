"""Whose turn it is: laws that hold for any numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cotenant.policy.eviction import may_go
from cotenant.policy.refusal import backoff_ns, expected_wait, must_refuse, retry_after_s
from cotenant.policy.turns import fairest, first_to_wake, least_worth

rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 10**12), st.integers(0, 10**12), st.booleans()), max_size=8
)


@given(rows)
def test_who_makes_room_has_the_lowest_priority_and_is_worth_least(rows):
    priorities, idle, reload, may = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 4
    found = least_worth(priorities, idle, reload, [int(one) for one in may], len(rows))
    allowed = [place for place, one in enumerate(may) if one]
    if not allowed:
        assert found == len(rows)
        return
    assert may[found]
    assert priorities[found] == min(priorities[place] for place in allowed)
    same = [place for place in allowed if priorities[place] == priorities[found]]
    assert all((idle[found] + 1) * (reload[one] + 1) >= (idle[one] + 1) * (reload[found] + 1) for one in same)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), min_size=1))
def test_who_wakes_first(rows):
    priorities, oldest = [one[0] for one in rows], [one[1] for one in rows]
    found = first_to_wake(priorities, oldest, len(rows))
    assert (-priorities[found], oldest[found]) == min((-p, o) for p, o in rows)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), min_size=1))
def test_who_was_served_least_is_next(rows):
    found = fairest([one[0] for one in rows], [one[1] for one in rows], len(rows))
    assert rows[found] == min(rows)


@given(st.integers(0, 10**6), st.integers(1, 64), st.integers(1, 10**11), st.integers(0, 10**12))
def test_who_comes_again_when_told_is_let_in(ahead, slots, service, limit):
    wait = expected_wait(ahead, slots, service)
    if must_refuse(0, 1, wait, limit):
        later = wait - retry_after_s(wait, limit) * 10**9
        assert not must_refuse(0, 1, later, limit)


def test_rests_double_up_to_the_longest():
    assert [backoff_ns(count, 1, 5) for count in range(5)] == [0, 1, 2, 4, 5]
    assert backoff_ns(10**6, 1, 5) == 5


def test_a_queue_is_full_at_its_limit_and_a_wait_too_long_beyond_its_own() -> None:
    assert [must_refuse(ahead, 3, 0, 0) for ahead in (2, 3, 4)] == [False, True, True]
    assert [must_refuse(0, 3, wait, 10) for wait in (10, 11)] == [False, True]


def test_of_models_that_were_idle_for_no_time_the_one_sooner_back_makes_room() -> None:
    assert least_worth([0, 0], [0, 0], [5, 0], [1, 1], 2) == 1
    assert least_worth([0, 0], [0, 0], [5, 5], [1, 1], 2) == 0
    assert first_to_wake([1, 1], [5, 5], 2) == fairest([1, 1], [5, 5], 2) == 0


def test_a_higher_priority_waits_neither_for_patience_nor_behind_a_models_own_requests() -> None:
    """Busy, awake for 1 of 5, its own oldest waits for 9, the other's for 2, patience 10."""
    asked = {"busy": True, "own_priority": 1, "resident": 1, "minimum": 5, "own_wait": 9, "patience": 10}
    assert [may_go(priority=one, wait=2, **asked) for one in (0, 1, 2)] == [False, False, True]
    asked["resident"] = 5
    assert [may_go(priority=1, wait=wait, **asked) for wait in (9, 10)] == [False, True]
    assert not may_go(priority=0, wait=99, **asked)
    assert may_go(priority=0, wait=0, **{**asked, "busy": False})
    asked |= {"busy": False, "hold": 3}
    assert [may_go(priority=1, wait=wait, **asked) for wait in (2, 3)] == [False, True]
    assert may_go(priority=2, wait=0, **asked)  # a higher priority is not held up
