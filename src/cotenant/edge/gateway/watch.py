"""Engines watched: whether their processes live, how they are, what they really hold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from cotenant.domain.running import Health
from cotenant.edge.engines import processes
from cotenant.edge.gateway import cards
from cotenant.edge.gateway.engine import Engine
from cotenant.edge.gateway.hands import EngineHands
from cotenant.errors import CotenantError
from cotenant.serving.replica import COMING, State

_MOVING = (*COMING, State.FALLING_ASLEEP, State.STOPPING)
WATCH_S, STOPPING_S, HEALTH_S, SILENCES = 0.1, 0.01, 5.0, 3


async def _pause() -> None:
    await asyncio.sleep(HEALTH_S)


class Watch:
    """Tells the router what becomes of engines that nobody asks for anything."""

    def __init__(self, hands: EngineHands) -> None:
        self.hands, self.core = hands, hands.core
        self._driver: Any | None = None
        self._asked = False
        self._tasks: list[asyncio.Task[None]] = []

    def run(self) -> None:
        """Watch from now on."""
        loop = asyncio.get_running_loop()
        rounds = (
            (self._until_a_look, self._look_for_the_dead), (_pause, self._listen), (_pause, self._weigh),
            (_pause, self._trim_logs),
        )  # fmt: skip
        self._tasks = [loop.create_task(self._again_and_again(wait, work)) for wait, work in rounds]

    async def close(self) -> None:
        """Watch no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _until_a_look(self) -> None:
        """Soon after an engine was asked to stop, since somebody waits for its place; else at leisure."""
        stops = self.hands.stops
        if any(one.state is State.STOPPING for one in self.core.router.floor.replicas):
            await asyncio.sleep(STOPPING_S)
            return
        stops.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(WATCH_S):
                await stops.wait()

    async def _again_and_again(
        self, wait: Callable[[], Awaitable[None]], work: Callable[[], Awaitable[None]]
    ) -> None:
        """A round that fails is said, and is not the last: without its watch a gateway cannot even stop."""
        while True:
            await wait()
            try:
                await work()
            except Exception as error:
                self.core.log.fault("a round of the watch failed", error)

    async def _look_for_the_dead(self) -> None:
        """Tell the router when a process is gone."""
        self.hands.journal.catch_up()
        for place, engine in enumerate(self.hands.engines):
            process = engine.process
            if process is None or not processes.gone(process):
                continue
            engine.process = None
            if engine.task is not None:
                engine.task.cancel()
            reason = processes.last_words(process)
            self.hands.journal.drop(process)
            asked = self.core.router.floor.replicas[place].state is State.STOPPING
            self.hands.log("engine_gone", engine, pid=process.pid, reason=None if asked else reason)
            if not asked:
                self.core.figures.failures.labels(engine.launch.id).inc()
            self.core.router.down(self.core.now_ns, place, engine.generation, reason)
            self.core.pump()

    async def _listen(self) -> None:
        """Ask engines that are up how they are; one that is silent again and again has failed."""
        await asyncio.gather(*(self._ask(place, engine) for place, engine in enumerate(self.hands.engines)))

    async def _ask(self, place: int, engine: Engine) -> None:
        replica = self.core.router.floor.replicas[place]
        if replica.state is not State.READY:
            return
        health = await self.hands.health(engine)
        engine.silent = 0 if health is Health.READY else engine.silent + 1
        if engine.silent >= SILENCES and replica.state is State.READY:
            engine.silent = 0
            self.hands.log("engine_failed", engine, reason="its health is silent")
            self.core.router.failed(self.core.now_ns, place, engine.generation, "its health is silent")
            self.core.pump()

    async def _trim_logs(self) -> None:
        await asyncio.to_thread(self.hands.journal.trim_logs)

    # --- what they hold ---

    async def _weigh(self) -> None:
        """What goes beyond an engine's place in the ledger, and what others hold of a card, is not given."""
        beyond = await self._in_host_memory()
        beyond |= await self._on_cards()
        others = self.core.router.floor.ledger.others
        for device, name in enumerate(self.core.devices):
            self.core.figures.foreign.labels(name).set(beyond.get(device, 0))
            if others[device] != beyond.get(device, 0):
                self.core.router.measured(self.core.now_ns, device, beyond.get(device, 0))
                self.core.pump()

    async def _in_host_memory(self) -> dict[int, int]:
        """By device of the ledger: what engines on the processor hold beyond their places."""
        floor, beyond = self.core.router.floor, dict[int, int]()
        for place, engine in enumerate(self.hands.engines):
            if engine.process is None:
                continue
            try:
                memory = await asyncio.to_thread(processes.memory, engine.process)
            except CotenantError:
                continue
            self.core.figures.resident.labels(engine.launch.id).set(memory.resident_bytes)
            host = floor.replicas[place].host
            if engine.launch.devices or not host.devices:
                continue
            excess = memory.resident_bytes - max(floor.ledger.holds(place), host.asleep_bytes)
            if excess > 0:
                device = host.devices[0]
                beyond[device] = beyond.get(device, 0) + excess
                if excess > host.awake_bytes // 50:
                    self.hands.log("engine_takes_more_than_planned", engine, excess_bytes=excess)
        return await self._router_memory(beyond)

    async def _router_memory(self, beyond: dict[int, int]) -> dict[int, int]:
        """A router has no place in the plan: what it holds beside its models is not theirs."""
        router = None if self.hands.router is None else self.hands.router.process
        on_host = [
            replica.host.devices[0]
            for replica, engine in zip(self.core.router.floor.replicas, self.hands.engines, strict=True)
            if replica.host.devices and not engine.launch.devices
        ]
        if router is not None and on_host:
            with suppress(CotenantError):
                memory = await asyncio.to_thread(processes.own_memory, router)
                beyond[on_host[0]] = beyond.get(on_host[0], 0) + memory.resident_bytes
        return beyond

    async def _on_cards(self) -> dict[int, int]:
        """What the driver says that is not ours to give, by device of the ledger."""
        floor = self.core.router.floor
        if not self._asked and any(one.launch.devices for one in self.hands.engines):
            self._asked, (self._driver, _) = True, cards.driver()
        if self._driver is None:
            return {}
        places = {
            device: card
            for engine, replica in zip(self.hands.engines, floor.replicas, strict=True)
            for device, card in zip(replica.host.devices, engine.launch.devices, strict=False)
        }
        told = await asyncio.to_thread(cards.read, self._driver, sorted(set(places.values())))
        pids = {
            place: frozenset((engine.process.pid, *processes.descendants(engine.process.pid)))
            for place, engine in enumerate(self.hands.engines)
            if engine.process is not None
        }
        loading = {place for place, one in enumerate(floor.replicas) if one.state is State.STARTING}
        moving = {place for place, one in enumerate(floor.replicas) if one.state in _MOVING}
        found = {}
        for device, card in places.items():
            if card in told:
                free, held = told[card]
                ours = cards.held_by_each(held, pids, loading)
                found[device] = floor.ledger.beyond(device, free, ours, moving)
        return found
