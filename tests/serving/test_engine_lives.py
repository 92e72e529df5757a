"""Engines that sleep, are taken over, drained, or are not ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.errors import CheckError
from cotenant.serving.effects import Probe, Refuse, Send, Sleep, Start, Stop, Wake
from cotenant.serving.replica import State
from cotenant.serving.settings import Hosted
from tests.serving.routers import S, host, router, two, up


def test_a_sleeper_is_woken_and_its_bytes_are_kept_in_the_books():
    one = router(
        host("a", "A", asleep_bytes=100, host_bytes=600, can_sleep=True), host("b", "B"), residency_ns=0,
    )  # fmt: skip
    one.arrived(0, 1, "A")
    up(one, S)
    one.finished(2 * S, 1)
    one.take()
    one.arrived(2 * S, 2, "B")
    assert one.take() == [Sleep(0, 1)]
    one.slept(3 * S, 0, 1)
    assert one.take() == [Start(1, 1)]
    assert one.floor.ledger.held == [700, 600]
    up(one, 4 * S, 1)
    one.finished(5 * S, 2)
    one.take()
    one.arrived(5 * S, 3, "A")
    assert one.take() == [Stop(1, 1, kill=False)]
    one.down(6 * S, 1, 1)
    assert one.take() == [Wake(0, 1)]
    up(one, 7 * S)
    assert one.take() == [Send(3, 0, 1)]
    assert one.floor.ledger.held == [600, 0]


def test_a_drain_takes_nothing_new_and_stops_what_is_ours():
    external = Hosted("x", "X", (), 0, 4, load_ns=0, ours=False)
    one = router(host("a", "A"), external, drain_ns=10 * S)
    one.arrived(0, 1, "A")
    one.arrived(0, 2, "X")
    up(one, S)
    one.take()
    one.drain(2 * S)
    one.arrived(2 * S, 3, "A")
    assert [(e.request, e.status) for e in one.take() if isinstance(e, Refuse)] == [(3, 503)]
    one.finished(3 * S, 1)
    one.tick(12 * S)
    effects = one.take()
    assert Refuse(2, 503, "shutting_down", "the gateway is shutting down", 5) in effects  # with Retry-After
    assert Stop(0, 1, kill=False) in effects
    assert not one.drained
    one.down(13 * S, 0, 1)
    assert one.drained


def test_engines_that_are_not_ours_are_only_routed_to():
    one = router(Hosted("x", "X", (), 0, 1, load_ns=0, ours=False))
    one.arrived(0, 1, "X")
    assert one.take() == [Send(1, 0, 0)]
    one.broke(S, 1, "connection refused")
    assert one.take() == [Probe(0, 0)]
    one.failed(2 * S, 0, 0, "health is silent")
    assert not [effect for effect in one.take() if isinstance(effect, Stop)]
    one.tick(20 * S)
    assert Probe(0, 0) in one.take()
    one.up(21 * S, 0, 0)
    assert one.take() == [Send(1, 0, 0)]


def test_adoption_counts_bytes_and_refuses_what_does_not_fit():
    one = two()
    assert one.adopted(0, 0) == 1
    assert one.floor.ledger.held[0] == 600
    with pytest.raises(CheckError, match="overrun"):
        one.adopted(0, 1)
    one.arrived(0, 1, "A")
    assert one.take() == [Send(1, 0, 1)]


def test_sleepers_and_those_that_load_are_taken_over_with_their_bytes():
    sleeper = host("a", "A", asleep_bytes=50, host_bytes=400, can_sleep=True, wake_ns=S)
    loader = host("b", "B", load_peak_bytes=700)
    one = router(sleeper, loader, host_bytes=500)
    assert one.adopted(0, 0, State.ASLEEP) == 1
    assert (one.floor.ledger.held[0], one.floor.ledger.held[one.floor.host_memory]) == (50, 400)
    assert one.adopted(0, 1, State.STARTING) == 1
    assert one.floor.ledger.held[0] == 750
    assert one.take() == []
    assert one.next_ns() == 30 * S  # as long as a start of now
    one.arrived(0, 1, "B")
    one.up(5 * S, 1, 1)
    assert one.take() == [Send(1, 1, 1)]
    assert one.floor.ledger.held[0] == 650
    one.finished(6 * S, 1)
    one.arrived(20 * S, 2, "A")
    one.down(30 * S, 1, 1)
    assert Wake(0, 1) in one.take()
    two_sleep = router(sleeper, replace(sleeper, id="c"), host_bytes=500)
    two_sleep.adopted(0, 0, State.ASLEEP)
    with pytest.raises(CheckError, match="more host memory"):
        two_sleep.adopted(0, 1, State.ASLEEP)
    assert two_sleep.floor.ledger.held[0] == 50
