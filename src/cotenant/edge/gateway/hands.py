"""Engines started, put to sleep, woken and stopped, as the router wants it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from cotenant.domain.engine import is_as_planned
from cotenant.domain.running import Health, Launch
from cotenant.edge.engines import processes
from cotenant.edge.engines.checkup import checkup
from cotenant.edge.engines.installed import check_program
from cotenant.edge.engines.llama_router import RoutedLlama
from cotenant.edge.gateway.bodies import body_for
from cotenant.edge.gateway.core import Core, Doing, Ticket
from cotenant.edge.gateway.engine import NO_KEYS, Engine, on_a_free_port
from cotenant.edge.gateway.journal import Entry, Journal, Stage
from cotenant.edge.gateway.routed import RouterHost
from cotenant.engines.hosting import changes_adapters
from cotenant.errors import CotenantError, EngineError, InputError
from cotenant.serving.effects import Probe, Sleep, Start, Stop, Wake
from cotenant.serving.from_plan import Fleet
from cotenant.serving.replica import LEAVING, State

_GOING = (*LEAVING, State.STOPPED)


class EngineHands:
    """Carries out effects. Engines go by the numbers of their replicas."""

    def __init__(
        self, core: Core, journal: Journal, keys: Mapping[str, str] = NO_KEYS, *, routed: bool = False
    ) -> None:
        """`routed`: llama-servers are started by one of their kind, in router mode."""
        self.core, self.journal, self.keys = core, journal, keys
        self.engines: list[Engine] = []
        self.router = RouterHost(self._launches, journal, core.log) if routed else None
        self.tasks: set[asyncio.Task[None]] = set()
        self.stops = asyncio.Event()  # an engine was asked to stop
        self.add(zip(core.fleet.launches, core.fleet.sleep_levels, strict=True))

    def _launches(self) -> list[Launch]:
        return [one.launch for one in self.engines]

    def add(self, launches: Any) -> None:
        """Further replicas, as (launch, sleep level)."""
        found = [Engine(launch, level, self.keys) for launch, level in launches]
        for one in found:
            if self.router is not None and self.router.holds(one.launch):
                one.driver = self.router.driver(one.launch)
        self.engines += found

    def kept(self, fleet: Fleet) -> list[int | None]:
        """For each replica of another plan the one of now that goes on as it is: the same command on the same
        devices, its port apart. One that was to go may stay."""
        free, found = list(range(len(self.engines))), list[int | None]()
        for launch, level, host in zip(fleet.launches, fleet.sleep_levels, fleet.hosts, strict=True):
            devices = [fleet.devices.names[one] for one in host.devices]
            place = next((one for one in free if self._is_as(one, launch, level, devices)), None)
            if place is not None:
                free.remove(place)
            found.append(place)
        return found

    def _is_as(self, place: int, launch: Launch, level: int, devices: list[str]) -> bool:
        """Whether a replica of now is what another plan wants."""
        engine, replica = self.engines[place], self.core.router.floor.replicas[place]
        if replica.retires and replica.state in _GOING:
            return False
        now = replace(engine.launch, port=launch.port)
        if now.adapters and changes_adapters(engine.launch.engine):
            now = replace(now, adapters=launch.adapters)
        return (
            engine.level == level
            and now == launch
            and [self.core.devices[one] for one in replica.host.devices] == devices
        )

    def replan(self, fleet: Fleet) -> dict[str, list[str]]:
        """Another plan takes the place of this one. Which replicas stay, start and retire."""
        kept = self.kept(fleet)
        before = {place for place, one in enumerate(self.core.router.floor.replicas) if not one.retires}
        fresh = [place is None for place in kept]
        launches = zip(fleet.launches, fleet.sleep_levels, strict=True)
        self.add(one for one, new in zip(launches, fresh, strict=True) if new)
        self.core.replan(fleet, kept)
        for place, launch in zip(kept, fleet.launches, strict=True):
            if place is not None and self.engines[place].launch.adapters != launch.adapters:
                self.engines[place].launch = replace(self.engines[place].launch, adapters=launch.adapters)
                self.core.router.check(self.core.now_ns, place)
        self.core.pump()
        ids = [one.id for one in fleet.launches]
        return {
            "stay": [name for name, new in zip(ids, fresh, strict=True) if not new],
            "start": [name for name, new in zip(ids, fresh, strict=True) if new],
            "retire": [self.engines[place].launch.id for place in sorted(before - set(kept))],
        }

    def url(self, replica: int) -> tuple[str, str]:
        """(address, key) of a replica's engine."""
        engine = self.engines[replica]
        return engine.url, engine.key

    def is_routed(self, replica: int) -> bool:
        """Whether a llama-server in router mode answers for it, also where its own process is gone."""
        return isinstance(self.engines[replica].driver, RoutedLlama)

    def body(self, ticket: Ticket, replica: int) -> bytes:
        """What the engine is sent for it."""
        engine, request = self.engines[replica], self.core.router.floor.requests.get(ticket.id)
        return body_for(ticket, engine.driver, engine.launch, 0 if request is None else request.priority)

    def do(self, effect: Doing) -> None:
        """Begin it."""
        engine, figures = self.engines[effect.replica], self.core.figures
        name = engine.launch.id
        if isinstance(effect, Stop):
            self._stop(effect, engine)
        elif isinstance(effect, Start):
            figures.starts.labels(name).inc()
            self._spawn(effect, engine, self._start(effect, engine))
        elif isinstance(effect, Sleep):
            self._count_eviction(effect, engine)
            self._spawn(effect, engine, self._sleep(effect, engine))
        elif isinstance(effect, Wake):
            figures.wakes.labels(name).inc()
            self._spawn(effect, engine, self._wake(effect, engine))
        else:
            self._spawn(effect, engine, self._probe(effect, engine))

    async def close(self) -> None:
        """Do nothing more; engines are left as they are, but for the router, whose models have ended."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.router is not None:
            await self.router.close()

    # --- what the router wants ---

    async def _start(self, effect: Start, engine: Engine) -> None:
        began = time.monotonic()
        engine.generation, engine.silent = effect.generation, 0
        engine.adapters = engine.launch.adapters
        check_program(engine.launch.engine)
        if self.router is not None and isinstance(engine.driver, RoutedLlama):
            engine.process = await self.router.start(engine.launch)
            engine.url, engine.key = self.router.url, self.router.key
        else:
            engine.at(on_a_free_port(engine, self.engines))
            command = engine.driver.command(engine.launch, key=engine.key)
            engine.process = processes.launch(command, url=engine.url, log=self.journal.log_of(engine.launch.id))
        self._note(engine, Stage.LOADING)
        self.log("engine_started", engine, pid=engine.process.pid)
        await self._come_up(effect, engine, began)

    async def _come_up(self, effect: Start, engine: Engine, began: float) -> None:
        """From its process to its first request."""
        while await self.health(engine) is not Health.READY:
            await asyncio.sleep(min(0.5, max(0.02, (time.monotonic() - began - 3) / 20)))
        await self._compare_version(engine)
        if engine.driver.can_sleep and engine.level:
            engine.reference = await self._checkup(engine)
        await self._bring_adapters(engine)
        self._note(engine, Stage.AWAKE)
        self.log("engine_ready", engine, seconds=round(time.monotonic() - began, 3))
        self._tell(self.core.router.up, effect)

    def _stop(self, effect: Stop, engine: Engine) -> None:
        if engine.task is not None:
            engine.task.cancel()
        process = engine.process
        routed = self.router is not None and isinstance(engine.driver, RoutedLlama)
        if routed and engine.generation == effect.generation and (process is None or not effect.kill):
            self._spawn(effect, engine, self._unload(effect, engine, unseen=process is None))
            self.stops.set()
            return
        if process is None or engine.generation != effect.generation:
            asyncio.get_running_loop().call_soon(self._tell, self.core.router.down, effect, "it was not running")
            return
        self._count_eviction(effect, engine)
        self.log("engine_stops", engine, kill=effect.kill or None)
        processes.ask_to_stop(process, kill=effect.kill or engine.driver.stops_at_once)
        self.stops.set()

    def _count_eviction(self, effect: Stop | Sleep, engine: Engine) -> None:
        killed = isinstance(effect, Stop) and effect.kill
        if not killed and self.core.router.floor.draining_ns is None:
            self.core.figures.evictions.labels(engine.launch.id).inc()

    async def _unload(self, effect: Stop, engine: Engine, *, unseen: bool) -> None:
        """Out of its router. Where its process was not seen yet, nobody else will say that it is gone."""
        self.log("engine_stops", engine)
        self._count_eviction(effect, engine)
        if self.router is not None:
            await self.router.stop(engine.launch)
        if unseen:
            self._tell(self.core.router.down, effect, "it was not running")

    async def _sleep(self, effect: Sleep, engine: Engine) -> None:
        if not engine.reference:  # it was taken over: nobody here has asked it when it was new
            engine.reference = await self._checkup(engine)
        self._note(engine, Stage.MOVING)
        await asyncio.to_thread(engine.driver.sleep, engine.url, level=engine.level, key=engine.key)
        self._note(engine, Stage.ASLEEP)
        self.log("engine_sleeps", engine, level=engine.level)
        self._tell(self.core.router.slept, effect)

    async def _wake(self, effect: Wake, engine: Engine) -> None:
        began = time.monotonic()
        self._note(engine, Stage.MOVING)
        await asyncio.to_thread(engine.driver.wake, engine.url, level=engine.level, key=engine.key)
        while await self.health(engine) is not Health.READY:
            await asyncio.sleep(0.05)
        found = await self._checkup(engine)
        if found != engine.reference:
            raise EngineError("after its wake it answers otherwise than before it slept")
        await self._bring_adapters(engine)
        self._note(engine, Stage.AWAKE)
        self.log("engine_woke", engine, seconds=round(time.monotonic() - began, 3))
        self._tell(self.core.router.up, effect)

    async def _probe(self, effect: Probe, engine: Engine) -> None:
        for _ in range(3):
            if await self.health(engine) is Health.READY:
                await self._bring_adapters(engine)
                self._tell(self.core.router.up, effect)
                return
            await asyncio.sleep(0.2)
        raise EngineError("it does not answer a probe")

    # --- helpers ---

    def adopt(self, replica: int, entry: Entry, generation: int) -> None:
        """Take over an engine of an earlier run; one that loads is waited for."""
        engine = self.engines[replica]
        if isinstance(engine.driver, RoutedLlama):
            engine.url = entry.process.url
        else:
            engine.at(replace(engine.launch, port=urlsplit(entry.process.url).port or engine.launch.port))
        engine.process, engine.key, engine.generation = entry.process, entry.key, generation
        engine.adapters = engine.launch.adapters  # its command is the plan's
        engine.reference = entry.reference
        self.log("engine_adopted", engine, pid=entry.process.pid, stage=entry.stage)
        if entry.stage is Stage.LOADING:
            effect = Start(replica, generation)
            self._spawn(effect, engine, self._come_up(effect, engine, time.monotonic()))

    def _note(self, engine: Engine, stage: Stage) -> None:
        """Write down how far it has come."""
        if engine.process is not None:
            self.journal.put(
                Entry(engine.launch.id, engine.process, engine.key, stage, engine.level, engine.reference)
            )

    async def health(self, engine: Engine) -> Health:
        """How it is; silent where its process is gone, whoever answers there."""
        if engine.process is not None and not processes.alive(engine.process):
            return Health.SILENT
        return await asyncio.to_thread(engine.driver.health, engine.url, key=engine.key)

    def log(self, event: str, engine: Engine, **told: object) -> None:
        """An event of one engine."""
        self.core.log.event(event, replica=engine.launch.id, model=engine.launch.model, **told)

    async def _compare_version(self, engine: Engine) -> None:
        """Bytes were planned for one version; another one is said, as it may take more."""
        try:
            told = await asyncio.to_thread(engine.driver.version, engine.url, key=engine.key)
        except CotenantError:
            return
        if is_as_planned(told, engine.launch.version) is False:
            self.log("engine_version_differs", engine, planned=engine.launch.version, runs=told[:40])

    async def _bring_adapters(self, engine: Engine) -> None:
        """Adapters that another plan has instead: those of now dropped, its own loaded, the engine at work."""
        while engine.adapters != engine.launch.adapters:
            has, wanted = engine.adapters, engine.launch.adapters
            for one in has:
                if one not in wanted:
                    await asyncio.to_thread(engine.driver.unload_adapter, engine.url, one.name, key=engine.key)
                    self.log("adapter_unloaded", engine, adapter=one.name)
            for one in wanted:
                if one not in has:
                    source = one.source or one.name
                    await asyncio.to_thread(
                        engine.driver.load_adapter, engine.url, one.name, source, key=engine.key
                    )
                    self.log("adapter_loaded", engine, adapter=one.name)
            engine.adapters = wanted

    async def _checkup(self, engine: Engine) -> str:
        """What it answers to one question, as a digest: no answer is written down."""
        found = await asyncio.to_thread(checkup, engine.url, engine.launch.model, key=engine.key)
        return hashlib.sha256(found.encode("utf-8", "surrogatepass")).hexdigest()

    def _tell(self, event: Callable[..., None], effect: Doing, *told: str) -> None:
        event(self.core.now_ns, effect.replica, effect.generation, *told)
        self.core.pump()

    def _spawn(self, effect: Doing, engine: Engine, work: Coroutine[Any, Any, None]) -> None:
        engine.task = task = asyncio.get_running_loop().create_task(self._carry_out(effect, engine, work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _carry_out(self, effect: Doing, engine: Engine, work: Coroutine[Any, Any, None]) -> None:
        """The work; whatever goes wrong in it is the engine's failure: the router is never left waiting."""
        told, lasting = "", False
        try:
            await work
        except CotenantError as error:
            reason, told, lasting = error.message, error.hint, isinstance(error, InputError)
        except Exception as error:
            self.core.log.fault("a fault of ours at an engine", error)
            reason = f"a fault of ours ({type(error).__name__})"
        else:
            return
        self.log("engine_failed", engine, reason=reason, hint=told or None)
        self.core.figures.failures.labels(engine.launch.id).inc()
        self._tell(partial(self.core.router.failed, lasting=lasting), effect, reason)
