"""Engines started, watched, put to sleep, woken and stopped, as the router wants it."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cotenant.domain.running import EngineProcess, Health
from cotenant.edge.engines import find_driver, processes
from cotenant.edge.engines.checkup import checkup
from cotenant.edge.engines.driver import Driver
from cotenant.edge.engines.vllm import Vllm
from cotenant.edge.gateway import cards
from cotenant.edge.gateway.core import Core, Doing, Ticket
from cotenant.edge.gateway.journal import Entry, Journal
from cotenant.errors import CotenantError, EngineError
from cotenant.serving.effects import Probe, Sleep, Start, Stop, Wake
from cotenant.serving.replica import State

WATCH_S, HEALTH_S, SILENCES = 0.1, 5.0, 3


class Engine:
    """One replica's process, if it has one, and how to talk to it."""

    __slots__ = ("driver", "generation", "key", "launch", "level", "process", "reference", "silent", "task", "url")

    def __init__(self, launch: Any, level: int) -> None:
        self.launch, self.level = launch, level
        self.driver: Driver = find_driver(launch.engine)
        self.url = launch.url or f"http://127.0.0.1:{launch.port}"
        self.key = "" if launch.url else secrets.token_urlsafe(24)
        self.process: EngineProcess | None = None
        self.generation = self.silent = 0
        self.reference = ""
        self.task: asyncio.Task[None] | None = None


class EngineHands:
    """Carries out effects; a process is watched from its start to its end."""

    def __init__(self, core: Core, journal: Journal) -> None:
        self.core, self.journal = core, journal
        self.engines = [
            Engine(launch, level)
            for launch, level in zip(core.fleet.launches, core.fleet.sleep_levels, strict=True)
        ]
        self._tasks: set[asyncio.Task[None]] = set()
        self._driver = cards.driver() if any(launch.devices for launch in core.fleet.launches) else None

    def url(self, replica: int) -> tuple[str, str]:
        """(address, key) of a replica's engine."""
        engine = self.engines[replica]
        return engine.url, engine.key

    def body(self, ticket: Ticket, replica: int) -> bytes:
        """What the engine is sent: the client's own bytes, with the request's priority where the engine follows it
        (whatever the client wrote there: a key's limit holds)."""
        engine = self.engines[replica]
        if engine.launch.url or not isinstance(engine.driver, Vllm):
            return ticket.body
        if not engine.driver.follows_priorities(engine.launch):
            return ticket.body
        request = self.core.router.floor.requests.get(ticket.id)
        given = json.loads(ticket.body) | {"priority": 0 if request is None else -request.priority}
        return json.dumps(given).encode()

    def do(self, effect: Doing) -> None:
        """Begin it."""
        engine = self.engines[effect.replica]
        name = engine.launch.id
        if isinstance(effect, Start):
            self.core.figures.starts.labels(name).inc()
            self._spawn(engine, self._start(effect, engine))
        elif isinstance(effect, Stop):
            self._stop(effect, engine)
        elif isinstance(effect, Sleep):
            self.core.figures.evictions.labels(name).inc()
            self._spawn(engine, self._sleep(effect, engine))
        elif isinstance(effect, Wake):
            self.core.figures.wakes.labels(name).inc()
            self._spawn(engine, self._wake(effect, engine))
        else:
            self._spawn(engine, self._probe(effect, engine))

    def run(self) -> None:
        """Watch processes and health from now on."""
        for work in (self._watch(), self._listen()):
            task = asyncio.get_running_loop().create_task(work)
            self._tasks.add(task)

    async def close(self) -> None:
        """Watch no more; engines are left as they are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- what the router wants ---

    async def _start(self, effect: Start, engine: Engine) -> None:
        began = time.monotonic()
        engine.generation, engine.silent = effect.generation, 0
        try:
            if not _port_is_free(engine.url):
                raise EngineError(f"port {urlsplit(engine.url).port} is taken by another program")
            command = engine.driver.command(engine.launch, key=engine.key)
            log = self.journal.folder / "logs" / f"{_file_name(engine.launch.id)}.log"
            engine.process = processes.launch(command, url=engine.url, log=log)
        except CotenantError as error:
            self._log("engine_not_started", engine, reason=error.message)
            self.core.figures.failures.labels(engine.launch.id).inc()
            self._tell(self.core.router.down, effect, error.message)
            return
        self.journal.put(Entry(engine.launch.id, engine.process, engine.key))
        self._log("engine_started", engine, pid=engine.process.pid)
        while await self._health(engine) is not Health.READY:
            await asyncio.sleep(min(0.5, 0.02 + (time.monotonic() - began) / 20))
        if engine.driver.can_sleep and engine.level:
            engine.reference = await self._checkup(engine)
        self._log("engine_ready", engine, seconds=round(time.monotonic() - began, 3))
        self._tell(self.core.router.up, effect)

    def _stop(self, effect: Stop, engine: Engine) -> None:
        if engine.task is not None:
            engine.task.cancel()
        process = engine.process
        if process is None or engine.generation != effect.generation:
            asyncio.get_running_loop().call_soon(self._tell, self.core.router.down, effect, "it was not running")
            return
        if not effect.kill:
            self.core.figures.evictions.labels(engine.launch.id).inc()
        self._log("engine_stops", engine, kill=effect.kill or None)
        processes.ask_to_stop(process, kill=effect.kill)

    async def _sleep(self, effect: Sleep, engine: Engine) -> None:
        try:
            await asyncio.to_thread(engine.driver.sleep, engine.url, level=engine.level, key=engine.key)
        except CotenantError as error:
            self._fail(effect, engine, error.message)
            return
        self._log("engine_sleeps", engine, level=engine.level)
        self._tell(self.core.router.slept, effect)

    async def _wake(self, effect: Wake, engine: Engine) -> None:
        began = time.monotonic()
        try:
            await asyncio.to_thread(engine.driver.wake, engine.url, level=engine.level, key=engine.key)
            while await self._health(engine) is not Health.READY:
                await asyncio.sleep(0.05)
            found = await self._checkup(engine)
        except CotenantError as error:
            self._fail(effect, engine, error.message)
            return
        if not found or (engine.reference and found != engine.reference):
            self._fail(effect, engine, "after its wake it answers otherwise than before it slept")
            return
        self._log("engine_woke", engine, seconds=round(time.monotonic() - began, 3))
        self._tell(self.core.router.up, effect)

    async def _probe(self, effect: Probe, engine: Engine) -> None:
        for _ in range(3):
            if await self._health(engine) is Health.READY:
                self._tell(self.core.router.up, effect)
                return
            await asyncio.sleep(0.2)
        self._fail(effect, engine, "it does not answer a probe")

    # --- watching ---

    async def _watch(self) -> None:
        """Tell the router when a process is gone."""
        while True:
            await asyncio.sleep(WATCH_S)
            for place, engine in enumerate(self.engines):
                process = engine.process
                if process is None or not processes.gone(process):
                    continue
                engine.process = None
                if engine.task is not None:
                    engine.task.cancel()
                reason = _last_words(process)
                self.journal.drop(engine.launch.id)
                asked = self.core.router.floor.replicas[place].state is State.STOPPING
                self._log("engine_gone", engine, pid=process.pid, reason=None if asked else reason)
                if not asked:
                    self.core.figures.failures.labels(engine.launch.id).inc()
                self.core.router.down(self.core.now_ns, place, engine.generation, reason)
                self.core.pump()

    async def _listen(self) -> None:
        """Ask engines that are up how they are; one that is silent again and again has failed."""
        while True:
            await asyncio.sleep(HEALTH_S)
            for place, engine in enumerate(self.engines):
                replica = self.core.router.floor.replicas[place]
                if replica.state is not State.READY:
                    continue
                health = await self._health(engine)
                engine.silent = 0 if health is Health.READY else engine.silent + 1
                if engine.silent >= SILENCES and replica.state is State.READY:
                    engine.silent = 0
                    self._log("engine_failed", engine, reason="its health is silent")
                    self.core.router.failed(self.core.now_ns, place, engine.generation, "its health is silent")
                    self.core.pump()
            await self._weigh()

    async def _weigh(self) -> None:
        """What engines in host memory really hold; what goes beyond their place in the ledger is not given."""
        beyond: dict[int, int] = {}
        for place, engine in enumerate(self.engines):
            if engine.process is None:
                continue
            try:
                memory = await asyncio.to_thread(processes.memory, engine.process)
            except CotenantError:
                continue
            self.core.figures.resident.labels(engine.launch.id).set(memory.resident_bytes)
            host = self.core.fleet.hosts[place]
            if engine.launch.devices or not host.devices:
                continue
            excess = memory.resident_bytes - max(self.core.router.floor.ledger.holds(place), host.asleep_bytes)
            if excess > 0:
                device = host.devices[0]
                beyond[device] = beyond.get(device, 0) + excess
                if excess > host.awake_bytes // 50:
                    self._log("engine_takes_more_than_planned", engine, excess_bytes=excess)
        beyond |= await self._on_cards()
        others = self.core.router.floor.ledger.others
        for device, name in enumerate(self.core.fleet.devices.names):
            self.core.figures.foreign.labels(name).set(beyond.get(device, 0))
            if others[device] != beyond.get(device, 0):
                self.core.router.measured(self.core.now_ns, device, beyond.get(device, 0))
                self.core.pump()

    async def _on_cards(self) -> dict[int, int]:
        """What the driver says that is not ours to give, by device of the ledger."""
        fleet, ledger = self.core.fleet, self.core.router.floor.ledger
        if self._driver is None:
            return {}
        places = {
            device: card
            for launch, host in zip(fleet.launches, fleet.hosts, strict=True)
            for device, card in zip(host.devices, launch.devices, strict=False)
        }
        told = await asyncio.to_thread(cards.read, self._driver, sorted(set(places.values())))
        pids = {
            place: frozenset((engine.process.pid, *processes.descendants(engine.process.pid)))
            for place, engine in enumerate(self.engines)
            if engine.process is not None
        }
        found = {}
        for device, card in places.items():
            if card in told:
                free, held = told[card]
                ours = {place: cards.held_by(held, mine) for place, mine in pids.items()}
                found[device] = ledger.beyond(device, free, ours)
        return found

    # --- helpers ---

    def adopt(self, replica: int, entry: Entry, generation: int) -> None:
        """Take over an engine of an earlier run."""
        engine = self.engines[replica]
        engine.process, engine.key, engine.generation = entry.process, entry.key, generation
        self.journal.put(entry)
        self._log("engine_adopted", engine, pid=entry.process.pid)

    async def _health(self, engine: Engine) -> Health:
        return await asyncio.to_thread(engine.driver.health, engine.url, key=engine.key)

    async def _checkup(self, engine: Engine) -> str:
        return await asyncio.to_thread(checkup, engine.url, engine.launch.model, key=engine.key)

    def _fail(self, effect: Doing, engine: Engine, reason: str) -> None:
        self._log("engine_failed", engine, reason=reason)
        self.core.figures.failures.labels(engine.launch.id).inc()
        self._tell(self.core.router.failed, effect, reason)

    def _tell(self, event: Callable[..., None], effect: Doing, *told: str) -> None:
        event(self.core.now_ns, effect.replica, effect.generation, *told)
        self.core.pump()

    def _spawn(self, engine: Engine, work: Coroutine[Any, Any, None]) -> None:
        engine.task = task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _log(self, event: str, engine: Engine, **told: object) -> None:
        self.core.log.event(event, replica=engine.launch.id, model=engine.launch.model, **told)


def _last_words(process: EngineProcess) -> str:
    """How it ended, and the last line of its log."""
    status = processes.exit_status(process)
    ended = "it is gone" if status is None else f"signal {-status}" if status < 0 else f"exit status {status}"
    try:
        with Path(process.log).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4096))
            lines = deque(file.read().decode("utf-8", "replace").split("\n"), maxlen=8)
    except OSError:
        return ended
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{ended}: {last[:200]}" if last else ended


def _port_is_free(url: str) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", urlsplit(url).port or 0))
        except OSError:
            return False
    return True


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)[:80].lstrip(".") or "engine"
