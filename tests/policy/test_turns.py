"""Whose turn it is: laws that hold for any numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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
