"""One llama-server in router mode for all of the plan's llama.cpp models: begun with the first, ended with the
gateway. What it starts are processes like any other: weighed, watched, journalled, and killed where they hang."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from cotenant.domain.running import EngineProcess, Health, Launch
from cotenant.edge.engines import processes
from cotenant.edge.engines.calls import address, call_json
from cotenant.edge.engines.llama_cpp import LlamaServer
from cotenant.edge.engines.llama_router import RoutedLlama, preset, router_command, section_of
from cotenant.edge.gateway.journal import Entry, Journal
from cotenant.edge.gateway.log import Log
from cotenant.edge.store import write_atomic
from cotenant.errors import EngineError

ROUTER = "llama-server router"
_FILE = "router.ini"
_COMES_UP_S = 30.0
_LEAVES_S = 10.0  # as long as the router itself waits (DEFAULT_STOP_TIMEOUT)


class RouterHost:
    """The router. `launches` gives all that may be asked for now: its preset file follows them."""

    def __init__(self, launches: Callable[[], Iterable[Launch]], journal: Journal, log: Log) -> None:
        self._launches, self._journal, self._log = launches, journal, log
        self._file = journal.folder / _FILE
        self._written = ""  # what the router has read
        self._lock = asyncio.Lock()
        self._loads: dict[str, asyncio.Future[None]] = {}
        self.key = secrets.token_urlsafe(24)
        self.process: EngineProcess | None = None

    @staticmethod
    def holds(launch: Launch) -> bool:
        """Whether the router runs it."""
        return launch.engine == "llama.cpp" and not launch.url

    @staticmethod
    def driver(launch: Launch) -> RoutedLlama:
        """How to talk to it there."""
        return RoutedLlama(section_of(launch))

    @property
    def url(self) -> str:
        """Where it listens; "" while it does not run."""
        return "" if self.process is None else self.process.url

    async def start(self, launch: Launch) -> EngineProcess:
        """Have a model started, the router before it where it does not run. Its process. Raises CotenantError."""
        async with self._lock:
            router = await self._up()
        driver = self.driver(launch)
        load = asyncio.ensure_future(asyncio.to_thread(driver.load, router.url, key=self.key))
        self._loads[driver.section] = load
        await asyncio.shield(load)  # whoever gives up must know whether it was begun
        end = time.monotonic() + _COMES_UP_S
        while time.monotonic() < end:
            found = await asyncio.to_thread(driver.process, router)
            if found is not None:
                return found
            if await asyncio.to_thread(driver.health, router.url, key=self.key) is Health.UNWELL:
                break
            await asyncio.sleep(0.02)
        raise EngineError("the router started no process for it")

    async def stop(self, launch: Launch) -> None:
        """Have it ended, whether its process was seen or not; until it is."""
        driver = self.driver(launch)
        load = self._loads.pop(driver.section, None)
        if load is not None:
            await asyncio.gather(load, return_exceptions=True)
        router, end = self.process, time.monotonic() + _LEAVES_S
        if router is None:
            return
        with suppress(EngineError):  # it does not run, or the router does not answer
            await asyncio.to_thread(driver.unload, router.url, timeout_s=_LEAVES_S, key=self.key)
        while (found := await asyncio.to_thread(driver.process, router)) is not None:
            if time.monotonic() > end:
                processes.ask_to_stop(found, kill=True)
            await asyncio.sleep(0.02)

    async def _up(self) -> EngineProcess:
        """The router, with a preset file that has all there is."""
        wanted = preset([one for one in self._launches() if self.holds(one)])
        if self.process is None or not processes.alive(self.process):
            write_atomic(self._file, wanted.encode(), private=True)
            self.process = self._launched()
            await self._answers()
        elif wanted != self._written:
            write_atomic(self._file, wanted.encode(), private=True)
            await asyncio.to_thread(call_json, self.url, "/models?reload=1", timeout_s=30.0, key=self.key)
        self._written = wanted
        return self.process

    def _launched(self) -> EngineProcess:
        if self.process is not None:
            self._journal.drop(self.process)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
        command = router_command(self._file, port, key=self.key)
        log = self._journal.log_of("llama-router")
        found = processes.launch(command, url=f"http://127.0.0.1:{port}", log=log)
        self._journal.put(Entry(ROUTER, found, self.key))
        self._log.event("router_started", pid=found.pid)
        return found

    async def _answers(self) -> None:
        end = time.monotonic() + _COMES_UP_S
        while await asyncio.to_thread(LlamaServer().health, self.url, key=self.key) is not Health.READY:
            if self.process is None or not processes.alive(self.process) or time.monotonic() > end:
                raise EngineError("llama-server does not come up in router mode", hint="see its log")
            await asyncio.sleep(0.05)

    def adopt(self, entry: Entry) -> bool:
        """Take over the router of an earlier run, where it is the one that would be started now."""
        port = address(entry.process.url).port
        command = router_command(self._file, port, key=entry.key)
        has = processes.environment_of(entry.process.pid)
        if command.argv != entry.process.argv or not command.environment.items() <= has.items():
            return False
        if LlamaServer().health(entry.process.url) is not Health.READY:
            return False
        self.process, self.key, self._written = entry.process, entry.key, ""
        self._log.event("router_adopted", pid=entry.process.pid)
        return True

    async def close(self) -> None:
        """End it, once its models have ended."""
        if self.process is not None:
            await asyncio.to_thread(processes.stop, self.process)
            self._journal.drop(self.process)
            self.process = None
