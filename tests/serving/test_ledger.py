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
