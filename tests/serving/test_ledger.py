"""The ledger beside the driver's figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.serving.ledger import Ledger


def ledger_of(*booked: int) -> Ledger:
    """One device of 100 bytes, and what replicas 0, 1, ... hold of it."""
    found = Ledger([100])
    for replica, size in enumerate(booked):
        found.hold(replica, (0,), size)
    return found


@pytest.mark.parametrize(
    ("free", "ours", "beyond"),
    [
        (40, {0: 60}, 0),  # as planned
        (90, {0: 10}, 0),  # it still loads: its place stays its own
        (60, {0: 10}, 30),  # it loads, and somebody else holds 30
        (30, {0: 70}, 10),  # it takes 10 more than planned
        (20, {0: 70}, 20),  # and somebody else 10
        (40, {0: None}, 0),  # the driver does not tell processes apart
        (25, {}, 15),
        (0, {0: 60}, 40),
    ],
)
def test_what_is_not_ours_to_give(free, ours, beyond):
    assert ledger_of(60).beyond(0, free, ours) == beyond


@given(booked=st.integers(0, 100), actual=st.integers(0, 120), others=st.integers(0, 120))
def test_others_are_found_whatever_ours_hold(booked, actual, others):
    """Free by the driver is what nobody holds; nothing that others hold is ever given."""
    ledger = ledger_of(booked)
    free = max(0, 100 - actual - others)
    ours = {0: actual} if booked else {}
    known = others if booked else others + actual
    found = ledger.beyond(0, free, ours)
    assert found >= min(known, 100 - actual if booked else 100)
    if actual + others <= 100 and booked:
        assert found == others + max(0, actual - booked)


@pytest.mark.parametrize(
    ("free", "before", "others"),
    [
        (100, 0, 0),  # nothing is held yet
        (70, 0, 0),  # what is held may all be its own
        (30, 0, 10),  # more than it was to hold
        (50, 20, 20),  # others held 20 before it began, and go on to
        (90, 20, 10),  # some of that has gone
        (10, 20, 30),  # 90 are held, at most 60 of them its own
    ],
)
def test_one_that_loads_where_the_driver_does_not_know_it_is_not_taken_for_others(free, before, others):
    """A container with pids of its own: what is held may be its load, or somebody else's."""
    ledger = ledger_of(60)
    ledger.others[0] = before
    assert ledger.beyond(0, free, {0: None}, moving={0}) == others


@given(booked=st.integers(0, 100), share=st.floats(0, 1), others=st.integers(0, 100), listed=st.integers(0, 40))
def test_who_held_it_before_is_believed_while_one_loads_unseen(booked, share, others, listed):
    """Others that hold what they held: found to the byte, whatever the loading one has by now."""
    ledger = ledger_of(booked, max(0, min(listed, 100 - booked)))
    beside = ledger.holds(1)
    if booked + beside + others > 100:
        return
    ledger.others[0] = others
    free = 100 - int(share * booked) - beside - others
    assert ledger.beyond(0, free, {0: None, 1: beside}, moving={0}) == others
