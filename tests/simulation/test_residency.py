"""Models that take turns in a card's memory, by hand."""

from __future__ import annotations

from cotenant.simulation.costs import StepCosts
from cotenant.simulation.kernel import Host, Stream, run
from cotenant.simulation.load import Limits, Requests, Status
from cotenant.simulation.replica import Replica
from cotenant.simulation.residency import Residency, Resident, State

UNIT = 1_000_000
LIMITS = Limits(4, 16, 4, 64, 64)
EVEN = StepCosts.plane(10 * UNIT, 0, 0, 10 * UNIT, 0, 0)  # every step takes 10 ns


def swapped(
    loads: list[Requests], *, room: int, patience_ns: int, wake_ns: int = 100, sleep_ns: int = 20
) -> tuple[list[list[int]], list[int], Residency]:
    """Finish times of each model's requests and how often it woke; a model takes 10 bytes awake, 1 asleep."""
    hosts = [Host(Replica(load, LIMITS, EVEN), ("card",)) for load in loads]
    residents = [
        Resident(host.replica, host.cards, 10, 1, wake_ns * UNIT, sleep_ns * UNIT) for host in hosts
    ]  # fmt: skip
    residency = Residency(residents, {"card": room}, patience_ns * UNIT)
    run(hosts, [Stream(load, (place,)) for place, load in enumerate(loads)], residency=residency)
    outcomes = [host.replica.outcome(host.busy_fs, host.last_fs) for host in hosts]
    assert all((outcome.status == Status.FINISHED).all() for outcome in outcomes)
    return [outcome.finish_ns.tolist() for outcome in outcomes], [one.wakes for one in residents], residency


def requests(*arrivals: int, tokens: int = 2) -> Requests:
    return Requests.of(list(arrivals), [4] * len(arrivals), [tokens] * len(arrivals))


def test_a_model_wakes_for_its_first_request() -> None:
    times, wakes, _ = swapped([requests(5)], room=10, patience_ns=0)
    assert times == [[5 + 100 + 20]]
    assert wakes == [1]


def test_idle_models_make_room_and_come_back() -> None:
    """Wake 100, work 20; the other: sleep 20, wake 100, work 20; and back again."""
    times, wakes, residency = swapped([requests(0, 200), requests(130)], room=12, patience_ns=10**6)
    assert times == [[120, 130 + 140 + 140], [130 + 140]]
    assert wakes == [2, 1]
    assert [one.state for one in residency.residents] == [State.AWAKE, State.ASLEEP]


def test_with_room_for_both_nobody_sleeps() -> None:
    times, wakes, _ = swapped([requests(0, 200), requests(130)], room=20, patience_ns=0)
    assert times == [[120, 220], [130 + 120]]
    assert wakes == [1, 1]


def test_patience_lets_the_busy_one_finish_its_queue() -> None:
    """Four requests of the first model in turn; without patience the second one cuts in after what runs."""
    busy = Requests.of([0, 90, 110, 130, 150], [4] * 5, [5] * 5)
    hasty, many, _ = swapped([busy, requests(100)], room=12, patience_ns=0)
    patient, few, _ = swapped([busy, requests(100)], room=12, patience_ns=10**6)
    assert (many, few) == ([2, 1], [1, 1])
    assert hasty[1] < patient[1]
    assert max(hasty[0]) > max(patient[0])


def test_the_longest_unused_goes_first() -> None:
    _, wakes, residency = swapped([requests(0, 900), requests(300), requests(600)], room=21, patience_ns=10**6)
    # 600: the first model, unused since 120, goes and not the second; 900: then the second goes
    assert wakes == [2, 1, 1]
    assert [one.state for one in residency.residents] == [State.AWAKE, State.ASLEEP, State.AWAKE]


def test_the_oldest_request_wakes_first_and_is_not_overtaken() -> None:
    times, _, _ = swapped([requests(0, tokens=30), requests(50), requests(40)], room=12, patience_ns=10**6)
    assert times[2] < times[1]


def test_models_asked_by_turns_stay_for_a_while() -> None:
    """A B A B, 40 ns apart: loaded by turns, or served in batches once each may stay for 400 ns."""
    loads = [requests(*range(0, 800, 80)), requests(*range(40, 840, 80))]
    results = []
    for minimum in (0, 400):
        hosts = [Host(Replica(load, LIMITS, EVEN), ("card",)) for load in loads]
        residents = [Resident(host.replica, host.cards, 10, 1, 100 * UNIT, 20 * UNIT) for host in hosts]
        run(
            hosts,
            [Stream(load, (place,)) for place, load in enumerate(loads)],
            residency=Residency(residents, {"card": 12}, 0, minimum * UNIT),
        )
        results.append([one.wakes for one in residents])
        assert all((host.replica.outcome(0, 0).status == Status.FINISHED).all() for host in hosts)
    thrashing, staying = results
    assert sum(staying) < sum(thrashing) / 1.5


def held(
    loads: list[Requests], hold_ns: int, priorities: tuple[int, ...] = (0, 0)
) -> tuple[list[list[int]], list[int]]:
    """When each answer is whole and how often each model woke; there is room for one."""
    hosts = [Host(Replica(load, LIMITS, EVEN), ("card",)) for load in loads]
    residents = [
        Resident(host.replica, host.cards, 10, 1, 100 * UNIT, 20 * UNIT, priority=priority)
        for host, priority in zip(hosts, priorities, strict=True)
    ]
    streams = [Stream(load, (place,)) for place, load in enumerate(loads)]
    run(hosts, streams, residency=Residency(residents, {"card": 12}, 0, hold_fs=hold_ns * UNIT))
    ends = [host.replica.outcome(0, 0).finish_ns.tolist() for host in hosts]
    return ends, [one.wakes for one in residents]


def test_an_idle_model_goes_once_a_request_has_waited_for_the_hold() -> None:
    """Idle since 120, asked for room at 130: it leaves at once, or at 130 + 300; then 20, 100 and 20."""
    assert held([requests(0), requests(130)], 0)[0] == [[120], [130 + 140]]
    assert held([requests(0), requests(130)], 300)[0] == [[120], [130 + 300 + 140]]


def test_what_is_asked_of_a_held_model_needs_no_swap_of_its_own() -> None:
    """The first model is asked again at 200, while the other's request waits: answered at once, a wake fewer."""
    loads = [requests(0, 200), requests(130)]
    assert held(loads, 0) == ([[120, 270 + 140], [270]], [2, 1])
    assert held(loads, 300) == ([[120, 220], [570]], [1, 1])


def test_a_hold_is_a_busy_models_patience_too_and_a_higher_priority_waits_for_none() -> None:
    """Patience is 0; the first model writes until 450: its turn ends at the hold, between two steps."""
    loads = [requests(0, 150, tokens=30), requests(130)]
    assert held(loads, 0)[0][1][0] < held(loads, 200)[0][1][0]
    assert held([requests(0), requests(130)], 300, (0, 1))[0] == [[120], [130 + 140]]


def test_a_higher_priority_waits_for_no_residency() -> None:
    ends = []
    for priority in (0, 1):
        hosts = [Host(Replica(load, LIMITS, EVEN), ("card",)) for load in (requests(0), requests(130))]
        residents = [
            Resident(host.replica, host.cards, 10, 1, 100 * UNIT, 20 * UNIT, priority=priority * place)
            for place, host in enumerate(hosts)
        ]
        run(
            hosts,
            [Stream(host.replica.requests, (place,)) for place, host in enumerate(hosts)],
            residency=Residency(residents, {"card": 12}, 0, 1000 * UNIT),
        )
        ends.append(int(hosts[1].replica.outcome(0, 0).finish_ns[0]))
    assert ends == [100 + 1000 + 20 + 100 + 20, 130 + 20 + 100 + 20]


def test_a_sleeper_whose_client_has_left_is_not_woken() -> None:
    asked = Requests.of([0, 50], [4, 4], [30, 2], 0, [10**9, 90])
    hosts = [Host(Replica(asked.take([place]), LIMITS, EVEN), ("card",)) for place in (0, 1)]
    residents = [Resident(host.replica, host.cards, 10, 1, 100 * UNIT, 20 * UNIT) for host in hosts]
    run(
        hosts,
        [Stream(host.replica.requests, (place,)) for place, host in enumerate(hosts)],
        residency=Residency(residents, {"card": 12}, 10**18),
    )
    assert [one.wakes for one in residents] == [1, 0]
    assert hosts[1].replica.outcome(0, 0).status.tolist() == [Status.CANCELLED]


def test_the_oldest_request_is_asked_for_its_time_whoever_is_served_first() -> None:
    """The second came later and is served first: what waits longest is still the first."""
    one = Replica(Requests.of([3, 5], [4, 4], [2, 2], [0, 9]), LIMITS, EVEN)
    one.arrive(0)
    one.arrive(1)
    assert one.waiting[0][1] == 1
    assert one.oldest_ns == 3
