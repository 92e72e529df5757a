"""Decisions against what they are said to decide, by brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cotenant.policy.admission import can_serve, may_join
from cotenant.policy.dispatch import least_loaded, round_robin
from cotenant.policy.eviction import RECENT, WORTH, least_recent, make_room, may_swap
from cotenant.policy.ledger import blocks_of, opened_at, opened_within, opens_block, phase_of, steps_within
from cotenant.policy.order import ranks
from cotenant.policy.preemption import victim

SIZES = st.integers(1, 9)
HELD = st.lists(st.integers(1, 60), min_size=1, max_size=12)


def counts_of(held: list[int], step: int, size: int) -> list[int]:
    counts = [0] * size
    for tokens in held:
        counts[phase_of(tokens, step, size)] += 1
    return counts


@given(HELD, st.integers(0, 50), SIZES, st.integers(0, 40))
def test_phases_count_the_blocks_that_sequences_open(held: list[int], step: int, size: int, steps: int) -> None:
    """Against the definition: one token more a step, a block where the held ones are full."""
    counts = counts_of(held, step, size)
    opened = [sum(opens_block(tokens + ahead, size) for tokens in held) for ahead in range(steps + 1)]
    assert [opened_at(counts, step + ahead, size) for ahead in range(steps + 1)] == opened
    assert opened_within(counts, step, steps, len(held), size) == sum(opened[:steps])
    grown = sum(blocks_of(tokens + steps, size) - blocks_of(tokens, size) for tokens in held)
    assert opened_within(counts, step, steps, len(held), size) == grown


@given(HELD, st.integers(0, 50), SIZES, st.integers(1, 60), st.integers(0, 80))
def test_steps_within_is_the_most_that_fit(held: list[int], step: int, size: int, wanted: int, free: int) -> None:
    counts = counts_of(held, step, size)
    found = steps_within(counts, step, wanted, len(held), free, size)
    assert 0 <= found <= wanted
    assert opened_within(counts, step, found, len(held), size) <= free
    if found < wanted:
        assert opened_within(counts, step, found + 1, len(held), size) > free


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_choices_take_the_extreme_and_of_equals_the_first(values: list[int]) -> None:
    assert victim(values, len(values)) == values.index(max(values))
    assert least_loaded(values, len(values)) == values.index(min(values))
    assert least_recent(values, [1] * len(values), len(values)) == values.index(max(values))
    assert least_recent(values, [0] * len(values), len(values)) == len(values)
    assert [round_robin(turn, len(values)) for turn in range(len(values) + 1)] == [*range(len(values)), 0]


rooms = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 99), st.integers(0, 99), st.integers(0, 9), st.booleans()),
    max_size=6,
)


@given(rooms, st.integers(0, 30), st.sampled_from([WORTH, RECENT]))
def test_who_makes_room_is_allowed_to_is_enough_and_no_more_than_the_rule_says(rows, wanted, rule) -> None:
    priorities, idle, reload, frees, may = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 5
    )
    goes = [0] * len(rows)
    evictable = [int(one) for one in may]
    room = make_room(rule, 0, wanted, priorities, idle, reload, frees, evictable, goes, len(rows))
    assert room == sum(free for free, gone in zip(frees, goes, strict=True) if gone)
    assert all(may[place] for place, gone in enumerate(goes) if gone)
    assert room >= wanted or goes == evictable  # not enough only where everybody would have gone
    stayed = [place for place, gone in enumerate(goes) if may[place] and not gone]
    for left in (place for place, gone in enumerate(goes) if gone):
        if rule == RECENT:
            assert all(idle[left] >= idle[place] for place in stayed)
        else:
            assert all(priorities[left] <= priorities[place] for place in stayed)


def test_ranks_follow_priority_then_arrival_then_order() -> None:
    assert ranks([0, 5, 0, 5], [1, 9, 1, 3]) == [2, 1, 3, 0]


def test_joining_needs_everything_at_once() -> None:
    assert may_join(3, 4, 1, 2, 2, 0)
    assert not may_join(4, 4, 1, 2, 2, 0)
    assert not may_join(3, 4, 0, 2, 2, 0)
    assert not may_join(3, 4, 1, 3, 2, 0)
    assert not may_join(3, 4, 1, 2, 2, 1)


def test_the_last_token_needs_no_room() -> None:
    assert can_serve(15, 2, 17, 16, 1)
    assert not can_serve(15, 3, 18, 16, 1)
    assert not can_serve(15, 2, 16, 16, 9)


def test_a_swap_waits_for_idleness_or_patience() -> None:
    assert may_swap(0, 0, True, 10)
    assert not may_swap(9, 0, False, 10)
    assert may_swap(10, 0, False, 10)
    assert not may_swap(10, 10, False, 10)
    assert [may_swap(wait, -1, True, 10, hold=5) for wait in (4, 5)] == [False, True]
    assert [may_swap(wait, 0, False, 10, hold=20) for wait in (19, 20)] == [False, True]
