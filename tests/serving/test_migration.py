"""From one plan to the next: what starts and stops in which order, and that nobody's request is lost."""

from __future__ import annotations

import random
from heapq import heappop, heappush

from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.serving.effects import Cancel, Probe, Refuse, Send, Sleep, Start, Stop, Wake
from cotenant.serving.replica import State
from cotenant.serving.router import Router
from cotenant.serving.settings import SECOND, Hosted, Served, Settings

QUICK = Settings(residency_ns=0)


def host(name: str, model: str, size: int, device: int = 0, **more) -> Hosted:
    return Hosted(name, model, (device,), size, 2, load_ns=SECOND, **more)


def running(hosts: list[Hosted], capacity: int = 100) -> Router:
    """A router whose replicas are all up."""
    router = Router(hosts, [Served(one.model) for one in hosts], [capacity], QUICK)
    for one in hosts:
        router.expect(0, one.model)
    for effect in router.take():
        assert isinstance(effect, Start)
        router.up(1, effect.replica, effect.generation)
    assert all(one.state is State.READY for one in router.floor.replicas)
    return router


def states(router: Router) -> list[str]:
    return [one.state.name for one in router.floor.replicas]


def test_where_both_fit_the_new_engine_is_warm_before_the_old_one_goes():
    router = running([host("a", "m", 40)])
    assert router.replan(2, [host("a", "m", 50)], [Served("m")], {0: 100}, [None]) == [1]
    assert router.take() == [Start(1, 1)]
    router.arrived(3, 1, "m")
    assert router.take() == [Send(1, 0, 1)]  # the old one serves on
    router.up(4, 1, 1)
    assert router.take() == []  # it has a request still
    router.arrived(5, 2, "m")
    assert router.take() == [Send(2, 1, 1)]
    router.finished(6, 1)
    assert router.take() == [Stop(0, 1, False)]
    router.down(7, 0, 1)
    assert states(router) == ["STOPPED", "READY"]
    assert router.migration.retiring == router.migration.due == []
    assert router.floor.ledger.held[0] == 50


def test_where_they_do_not_the_old_one_makes_room_and_requests_wait():
    router = running([host("a", "m", 60)])
    router.arrived(2, 1, "m")
    router.take()
    router.replan(3, [host("a", "m", 70)], [Served("m")], {0: 100}, [None])
    assert router.take() == []
    router.arrived(4, 2, "m")
    assert router.take() == []
    router.finished(5, 1)
    assert router.take() == [Stop(0, 1, False)]
    router.down(6, 0, 1)
    assert router.take() == [Start(1, 1)]
    router.up(7, 1, 1)
    assert router.take() == [Send(2, 1, 1)]


def test_what_stays_the_same_is_not_touched():
    router = running([host("a", "m", 40), host("b", "n", 40)])
    found = router.replan(
        2, [host("b", "n", 45), host("a", "m", 20)], [Served("n", 3), Served("m")], {0: 100}, [1, None]
    )
    assert found == [1, 2]
    assert router.floor.by_name["n"].priority == 3
    assert router.floor.ledger.holds(1) == 45
    assert router.take() == [Stop(0, 1, False)]  # 40 + 45 + 20 do not fit


def test_a_model_that_leaves_serves_those_who_wait_and_nobody_new():
    router = running([host("a", "m", 40), host("b", "n", 40)])
    for number in (1, 2, 3):
        router.arrived(2, number, "m")
    assert len(router.take()) == 2  # two slots
    router.replan(3, [host("b", "n", 40)], [Served("n")], {0: 100}, [1])
    assert router.take() == []
    router.arrived(4, 9, "m")
    (refused,) = router.take()
    assert (refused.status, refused.code) == (404, "model_not_found")
    router.finished(5, 1)
    assert router.take() == [Send(3, 0, 1)]
    router.finished(6, 2)
    router.finished(6, 3)
    assert router.take() == [Stop(0, 1, False)]
    router.down(7, 0, 1)
    assert router.migration.retiring == []


def test_a_new_engine_that_does_not_start_leaves_the_old_one_at_work():
    router = running([host("a", "m", 40)])
    router.replan(2, [host("a", "m", 50)], [Served("m")], {0: 100}, [None])
    for attempt in range(1, 6):
        assert router.take() == [Start(1, attempt)]
        router.down(router.floor.now_ns + 1, 1, attempt, "no such flag")
        router.arrived(router.floor.now_ns + 1, attempt, "m")
        assert router.take() == [Send(attempt, 0, 1)]
        router.finished(router.floor.now_ns + 1, attempt)
        router.tick(router.floor.now_ns + 120 * SECOND)


def test_back_to_the_plan_before_while_the_new_one_loads():
    router = running([host("a", "m", 40)])
    router.replan(2, [host("a", "m", 50)], [Served("m")], {0: 100}, [None])
    router.take()
    router.replan(3, [host("a", "m", 40)], [Served("m")], {0: 100}, [0])
    assert router.take() == [Stop(1, 1, False)]
    router.down(4, 1, 1)
    assert states(router) == ["READY", "STOPPED"]
    assert router.migration.retiring == router.migration.due == []


def test_a_new_device_and_one_that_grows():
    router = running([host("a", "m", 60)])
    hosts = [host("a", "m", 60), host("b", "n", 70, device=2)]
    router.replan(2, hosts, [Served("m"), Served("n")], {0: 120, 2: 80}, [0, None])
    router.expect(3, "n")
    assert router.take() == [Start(1, 1)]
    assert router.floor.ledger.free(2) == 10
    assert router.floor.ledger.free(0) == 60
    router.floor.ledger.check()


def test_an_address_that_changes_gets_no_new_requests():
    router = Router([Hosted("a", "m", (), 0, 2, load_ns=0, ours=False)], [Served("m")], [100], QUICK)
    router.arrived(1, 1, "m")
    assert router.take() == [Send(1, 0, 0)]
    router.replan(2, [Hosted("a", "m", (), 0, 2, load_ns=0, ours=False)], [Served("m")], {}, [None])
    router.arrived(3, 2, "m")
    assert router.take() == [Send(2, 1, 0)]
    router.finished(4, 1)
    assert router.migration.retiring == []


# --- any plans, one after the other ---

SIZES = st.integers(10, 60)
PLANS = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(SIZES, st.booleans()), min_size=1, max_size=4),
    min_size=2, max_size=5,
)  # fmt: skip


class World:
    """Engines that take their time and do what they are told; what processes really hold is counted apart."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now, self.count, self.events = 0, 0, []
        self.alive: dict[tuple[int, int], int] = {}  # (replica, generation) -> bytes
        self.ends: dict[int, str] = {}
        self.router: Router | None = None

    def later(self, *event: object) -> None:
        self.count += 1
        heappush(self.events, (self.now + self.random.randint(1, 3 * SECOND), self.count, event))

    def carry_out(self) -> None:
        while effects := self.router.take():
            for one in effects:
                key = (getattr(one, "replica", -1), getattr(one, "generation", -1))
                if isinstance(one, Start):
                    self.alive[key] = self.router.floor.replicas[one.replica].host.start_bytes
                    self.later("up", *key)
                elif isinstance(one, Stop):
                    self.later("down", *key)
                elif isinstance(one, Sleep | Wake | Probe):
                    if isinstance(one, Wake):
                        self.alive[key] = self.router.floor.replicas[one.replica].host.awake_bytes
                    self.later("slept" if isinstance(one, Sleep) else "up", *key)
                elif isinstance(one, Send):
                    assert key in self.alive
                    self.later("finished", one.request)
                elif isinstance(one, Refuse):
                    assert one.request not in self.ends
                    self.ends[one.request] = one.code
                else:
                    assert isinstance(one, Cancel)
        assert sum(self.alive.values()) <= 100
        self.router.floor.ledger.check()

    def run(self, until: int | None = None) -> None:
        while self.events or (until is None and self.router.next_ns() is not None):
            due = self.router.next_ns()
            moment = self.events[0][0] if self.events else due
            if due is not None and due < moment:
                moment = due
            if until is not None and moment > until:
                break
            self.now = max(self.now, moment)
            if self.events and self.events[0][0] <= self.now:
                _, _, (what, *told) = heappop(self.events)
                if what == "down":
                    self.alive.pop(tuple(told), None)
                if what == "slept" and tuple(told) in self.alive:
                    self.alive[told[0], told[1]] = 2
                if what == "finished":
                    assert told[0] not in self.ends
                    self.ends[told[0]] = "answered"
                getattr(self.router, what)(self.now, *told)
            else:
                self.router.tick(self.now)
            self.carry_out()
        self.now = max(self.now, until or 0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(PLANS, st.integers(0, 2**32))
def test_no_plan_loses_a_request_or_overruns_a_device(plans, seed):
    world, number = World(seed), 0
    now: dict[str, tuple[int, tuple[int, bool]]] = {}  # model -> (replica, what it is)
    for plan in plans:
        hosts = [host(name, name, size, can_sleep=sleeps, asleep_bytes=2) for name, (size, sleeps) in plan.items()]
        served = [Served(name) for name in plan]
        if world.router is None:
            world.router, places = Router(hosts, served, [100], QUICK), list(range(len(hosts)))
        else:
            kept = [now[name][0] if name in now and now[name][1] == what else None for name, what in plan.items()]
            places = world.router.replan(world.now, hosts, served, {0: 100}, kept)
        now = {name: (place, what) for place, (name, what) in zip(places, plan.items(), strict=True)}
        world.carry_out()
        for _ in range(12):
            number += 1
            world.router.arrived(world.now, number, world.random.choice(list(plan)))
            world.carry_out()
            world.run(world.now + world.random.randint(0, 2 * SECOND))
    world.run()
    assert len(world.ends) == number
    assert set(world.ends.values()) == {"answered"}
    assert world.router.migration.retiring == world.router.migration.due == []
    wanted = {place for place, _ in now.values()}
    assert {one.index for one in world.router.floor.replicas if one.state is not State.STOPPED} <= wanted
