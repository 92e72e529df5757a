"""One decision, one rule: who makes room in the simulator is who makes room in the gateway."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.eviction import RECENT, WORTH
from cotenant.serving.effects import Stop
from cotenant.serving.router import Router
from cotenant.serving.settings import Hosted, Served, Settings
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Limits, Requests
from cotenant.simulation.replica import Replica
from cotenant.simulation.residency import Residency, Resident, State
from cotenant.simulation.turns import SWAPS

UNIT = 1_000_000
LIMITS = Limits(4, 16, 4, 64, 64)
EVEN = StepCosts.plane(10 * UNIT, 0, 0, 10 * UNIT, 0, 0)  # every step takes 10 ns: an answer of two tokens 20
Member = tuple[int, int, int]  # ns at which it is asked, ns to load it, its priority


def simulated(members: list[Member], room: int, rule: int) -> list[int]:
    """Who is asleep once the last one has been answered; each takes 10 bytes of `room`."""
    loads = [Requests.of([asked], [4], [2]) for asked, _, _ in members]
    hosts = [Host(Replica(load, LIMITS, EVEN), ("card",)) for load in loads]
    residents = [
        Resident(host.replica, host.cards, 10, 0, load * UNIT, UNIT, priority=priority)
        for host, (_, load, priority) in zip(hosts, members, strict=True)
    ]
    streams = [Stream(load, (place,)) for place, load in enumerate(loads)]
    run(hosts, streams, residency=Residency(residents, {"card": room}, 0, 0, rule))
    return [place for place, one in enumerate(residents) if one.state is State.ASLEEP]


def routed(members: list[Member], room: int) -> list[int]:
    """Whom the gateway stops, the same requests coming and being answered at the same moments."""
    hosts = [
        Hosted(f"r{place}", f"m{place}", (0,), 10, 4, load_ns=load) for place, (_, load, _) in enumerate(members)
    ]
    models = [Served(f"m{place}", priority) for place, (_, _, priority) in enumerate(members)]
    router = Router(hosts, models, (room,), Settings(patience_ns=0, residency_ns=0))
    gone: list[int] = []
    for place, (asked, load, _) in enumerate(members):
        router.arrived(asked, place, f"m{place}")
        stops = [one.replica for one in router.take() if isinstance(one, Stop)]
        for victim in stops:
            router.down(asked + 1, victim, router.floor.replicas[victim].generation)
        gone += stops
        now = asked + len(stops[:1]) + load
        router.up(now, place, router.floor.replicas[place].generation)
        router.finished(now + 20, place)
        router.take()
    return sorted(gone)


def test_the_cheapest_to_bring_back_goes_and_under_lru_the_longest_idle() -> None:
    """Asked at 1000: the first, idle for 880 ns, loads in 100; the second, idle for 470, in 10."""
    members = [(0, 100, 0), (500, 10, 0), (1000, 50, 0)]
    assert simulated(members, 20, WORTH) == routed(members, 20) == [1]
    assert simulated(members, 20, RECENT) == [0]


def test_the_lowest_priority_goes_first() -> None:
    members = [(0, 100, 0), (500, 10, 1), (1000, 50, 1)]
    assert simulated(members, 20, WORTH) == routed(members, 20) == [0]


@pytest.mark.parametrize("seed", range(60))
def test_the_simulator_sends_away_whom_the_gateway_sends_away(seed: int) -> None:
    draw = np.random.default_rng(seed)
    count = int(draw.integers(3, 6))
    members = [
        (1000 * place, int(draw.integers(1, 400)), int(draw.integers(0, 2))) for place in range(count - 1)
    ]  # fmt: skip
    members.append((1000 * count, int(draw.integers(1, 400)), 1))  # it may send away anybody
    room = 10 * (count - 1)
    assert simulated(members, room, WORTH) == routed(members, room)


def test_nobody_goes_where_it_would_not_be_enough() -> None:
    """Of three that the last one would have to displace, one runs at a higher priority: the other two stay too."""
    loads = [Requests.of([0], [4], [2]), Requests.of([0], [4], [2]), Requests.of([0], [4], [60])]
    loads.append(Requests.of([200], [4], [2]))
    hosts = [Host(Replica(load, LIMITS, EVEN), ("card",)) for load in loads]
    residents = [
        Resident(host.replica, host.cards, size, 0, UNIT, UNIT, priority=priority)
        for host, size, priority in zip(hosts, (10, 10, 10, 30), (0, 0, 1, 0), strict=True)
    ]
    residency = Residency(residents, {"card": 30}, 0)
    streams = [Stream(load, (place,)) for place, load in enumerate(loads)]
    run(hosts, streams, residency=residency, until_ns=300)
    assert [one.state for one in residents] == [State.AWAKE] * 3 + [State.ASLEEP]


def test_without_patience_a_busy_model_makes_room_at_once() -> None:
    """As in the gateway, at the very moment of the request, not with the step in progress."""
    loads = [Requests.of([0], [4], [60]), Requests.of([205], [4], [2])]
    hosts = [Host(Replica(load, LIMITS, EVEN), ("card",)) for load in loads]
    residents = [Resident(host.replica, host.cards, 10, 0, UNIT, UNIT) for host in hosts]
    streams = [Stream(load, (place,)) for place, load in enumerate(loads)]
    run(hosts, streams, residency=Residency(residents, {"card": 10}, 0), until_ns=205)
    assert residents[0].state is State.DRAINING
    router = Router(
        [Hosted(f"r{place}", f"m{place}", (0,), 10, 4, load_ns=1) for place in (0, 1)],
        [Served("m0"), Served("m1")], (10,), Settings(patience_ns=0, residency_ns=0),
    )  # fmt: skip
    router.arrived(0, 0, "m0")
    router.up(1, 0, 1)
    router.arrived(205, 1, "m1")
    assert router.floor.replicas[0].state.name == "DRAINING"


@pytest.mark.parametrize("hold", [0, 1, 40, 700])
def test_an_idle_model_is_held_as_long_as_in_the_gateway(hold: int) -> None:
    """Asked for its room at 205, it goes at 205 and the hold: neither before nor later."""
    loads = [Requests.of([0], [4], [2]), Requests.of([205], [4], [2])]
    hosts = [Host(Replica(load, LIMITS, EVEN), ("card",)) for load in loads]
    residents = [Resident(host.replica, host.cards, 10, 0, UNIT, UNIT) for host in hosts]
    streams = [Stream(load, (place,)) for place, load in enumerate(loads)]
    run(hosts, streams, residency=Residency(residents, {"card": 10}, 0, hold_fs=hold * UNIT))
    assert residents[0].spells_fs[0][-1] == (205 + hold + 1) * UNIT  # to fall asleep takes 1
    router = Router(
        [Hosted(f"r{place}", f"m{place}", (0,), 10, 4, load_ns=1) for place in (0, 1)],
        [Served("m0"), Served("m1")], (10,), Settings(patience_ns=0, residency_ns=0, hold_ns=hold),
    )  # fmt: skip
    router.arrived(0, 0, "m0")
    router.up(1, 0, 1)
    router.finished(21, 0)
    router.arrived(205, 1, "m1")
    if hold:
        router.tick(205 + hold - 1)
        assert not any(isinstance(one, Stop) for one in router.take())
        assert router.next_ns() == 205 + hold
        router.tick(205 + hold)
    assert [one.replica for one in router.take() if isinstance(one, Stop)] == [0]


def test_policies_say_who_makes_room() -> None:
    assert {policy for policy, (_, rule) in SWAPS.items() if rule == RECENT} == {"swap-lru", "restart-lru"}
    assert {mode for mode, _ in SWAPS.values()} == {"sleep-1", "sleep-2", "restart"}
