"""The gateway from its start to the end of its drain."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from aiohttp import web

from cotenant.domain.running import Health
from cotenant.edge.engines import find_driver, processes
from cotenant.edge.engines.calls import address
from cotenant.edge.engines.strays import strays
from cotenant.edge.gateway.core import Core
from cotenant.edge.gateway.guard import GuardedServer, most_connections
from cotenant.edge.gateway.hands import EngineHands
from cotenant.edge.gateway.hardware import check_hardware
from cotenant.edge.gateway.journal import Entry, Journal
from cotenant.edge.gateway.keys import Keys
from cotenant.edge.gateway.log import Log, http_logger
from cotenant.edge.gateway.relay import Relay
from cotenant.edge.gateway.routes import Limits, Routes
from cotenant.edge.gateway.watch import Watch
from cotenant.errors import CotenantError, InputError
from cotenant.policy.turns import is_expected
from cotenant.serving.from_plan import Fleet
from cotenant.serving.replica import State
from cotenant.serving.settings import Settings

_KEPT = "COTENANT_LISTENS_ON"  # the socket's number, from a gateway to the one that follows it in its process
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Options:
    """How the gateway is run. `prestart`: models are started at once as far as they fit together."""

    host: str = "127.0.0.1"
    port: int = 8000
    state: Path = Path()
    keys: Keys | None = None
    engine_keys: Mapping[str, str] = field(default_factory=dict)
    anonymous: bool = False
    prestart: bool = True
    quiet: bool = False
    limits: Limits = field(default_factory=Limits)
    settings: Settings = field(default_factory=Settings)
    check: Callable[[], object] = lambda: None  # reads the plan anew before a reload; raises where it is unsound


def run(fleet: Fleet, options: Options, *, ready: Callable[[str], None] = lambda url: None) -> int:
    """Serve until SIGTERM or SIGINT, then drain. `ready` is told the address. The status is 0 after a drain.

    Raises InputError where it cannot begin: the port is taken, the state folder in use, a key is missing.
    """
    local = options.host in _LOOPBACK
    if not local and options.keys is None and not options.anonymous:
        raise InputError(
            f"{options.host} can be reached by others, and no keys are given",
            hint="--api-keys FILE, or --allow-anonymous where the network itself is closed",
        )
    mine = [one.id for one in fleet.launches if not one.url and one.port == options.port]
    if mine and options.port:
        raise InputError(f"the plan gives port {options.port} to {mine[0]}", hint="--port N")
    log = Log(quiet=options.quiet)
    check_hardware(fleet, log)
    journal = Journal(options.state, lambda reason: log.event("journal_not_written", reason=reason))
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            kept = runner.run(_serve(fleet, options, journal, log, ready, local))
    finally:
        journal.close()
    if kept is not None:
        os.environ[_KEPT] = str(kept)
        os.execv(sys.executable, [sys.executable, "-m", "cotenant", *sys.argv[1:]])
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: the same loop for less processor."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(
    fleet: Fleet, options: Options, journal: Journal, log: Log, ready: Callable[[str], None], local: bool
) -> int | None:
    """Until the end; the listening socket where it is a reload."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=16, thread_name_prefix="engine"))
    core = Core(fleet, options.settings, log)
    hands = EngineHands(core, journal, options.engine_keys)
    watch = Watch(hands)
    core.hands = hands
    relay = Relay(core)
    routes = Routes(core, hands, relay, keys=options.keys, limits=options.limits, local=local)
    server = GuardedServer(
        routes.handle, handler_cancellation=True, access_log=None, keepalive_timeout=75.0, auto_decompress=False,
        logger=http_logger(log), most=most_connections(),
        max_line_size=8190, max_headers=64, max_field_size=16380,
    )  # fmt: skip
    server.request_factory = _with_limit(server, options.limits.body_bytes)
    adopt(core, hands, journal)
    try:
        listening = await _listen(server, options)
    except OSError as error:
        await relay.close()
        reason = error.strerror or str(error)
        raise InputError(f"cannot listen on {options.host}:{options.port}: {reason}", hint="--port N") from None
    watch.run()
    end = End(core, options.check)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, end.stop)
    loop.add_signal_handler(signal.SIGHUP, end.reload)
    foresight = loop.create_task(_expect(core))
    gc.collect()
    gc.freeze()
    if options.prestart:
        for model in fleet.models:
            core.router.expect(core.now_ns, model.name)
        core.pump()
    port = listening.sockets[0].getsockname()[1]
    log.event("serving", host=options.host, port=port, models=[one.name for one in fleet.models])
    ready(f"http://{options.host}:{port}")
    await end.came.wait()
    kept = os.dup(listening.sockets[0].fileno()) if end.reloads else None
    if kept is not None:
        os.set_inheritable(kept, True)
        listening.close()  # who comes now waits in the socket's queue for the next gateway
    log.event("draining", requests=len(core.tickets), reload=end.reloads or None)
    core.router.drain(core.now_ns, stop_engines=not end.reloads)
    core.pump()
    while not core.router.drained:
        await asyncio.sleep(0.02)
    foresight.cancel()
    listening.close()
    await watch.close()
    await hands.close()
    server.pre_shutdown()
    with suppress(TimeoutError):
        async with asyncio.timeout(2):
            await server.shutdown(1.0)
    await relay.close()
    log.event("stopped")
    return kept


class End:
    """How the gateway comes to its end: by a drain, or by a reload that keeps the engines."""

    def __init__(self, core: Core, check: Callable[[], object]) -> None:
        self.came, self.reloads = asyncio.Event(), False
        self._core, self._check = core, check
        self._task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """SIGTERM: the first one drains; a second one does not wait for requests any longer."""
        core = self._core
        if self.came.is_set():
            core.router.floor.draining_ns = core.now_ns
            core.router.tick(core.now_ns)
            core.pump()
        self.came.set()

    def reload(self) -> None:
        """SIGHUP: if the plan as it stands now can be served, let requests end and begin anew with it."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        try:
            await asyncio.to_thread(self._check)
        except CotenantError as error:
            self._core.log.event("reload_refused", reason=error.message, hint=error.hint or None)
            return
        if not self.came.is_set():
            self.reloads = True
            self.came.set()


async def _listen(server: GuardedServer, options: Options) -> asyncio.Server:
    """On the socket of the gateway before a reload, or on one of our own."""
    loop = asyncio.get_running_loop()
    kept = os.environ.pop(_KEPT, "")
    if kept.isdigit():
        return await loop.create_server(server, sock=socket.socket(fileno=int(kept)), backlog=1024)
    return await loop.create_server(server, options.host, options.port, backlog=1024)


async def _expect(core: Core) -> None:
    """Wake models ahead of the hours in which their traffic is above its mean, where there is room."""
    while core.fleet.hours:
        await asyncio.sleep(60)
        for one in core.fleet.hours:
            soon = datetime.now(ZoneInfo(one.timezone)) + timedelta(minutes=5)
            if is_expected(one.weights, soon.hour):
                core.router.expect(core.now_ns, one.model)
        core.pump()


def _with_limit(server: GuardedServer, most: int) -> Callable[..., web.BaseRequest]:
    def make(message, payload, protocol, writer, task):  # type: ignore[no-untyped-def]
        return web.BaseRequest(
            message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=most
        )

    return make


def adopt(core: Core, hands: EngineHands, journal: Journal) -> None:
    """Take over engines of an earlier run that are what the plan wants; stop those that are not, and nothing else.

    An engine is ours where pid, start time and command are those of the journal. The plan wants it where its
    command is the one that would be built now.
    """
    wanted = {launch.id: place for place, launch in enumerate(core.fleet.launches) if not launch.url}
    for entry in journal.entries():
        process = entry.process
        if not processes.alive(process) or not processes.same_command(process):
            journal.drop(process)
            continue
        place = wanted.get(entry.replica)
        try:
            if place is not None and _is_wanted(core, place, entry):
                hands.adopt(place, entry, core.router.adopted(core.now_ns, place))
                continue
        except CotenantError as error:
            core.log.event("engine_not_adopted", replica=entry.replica, reason=error.message)
        core.log.event("orphan_stopped", replica=entry.replica, pid=process.pid)
        processes.stop(process)
        journal.drop(process)
    for process in strays(journal.folder / "logs", {entry.process.pid for entry in journal.entries()}):
        core.log.event("orphan_stopped", replica="", pid=process.pid)
        processes.stop(process)


def _is_wanted(core: Core, place: int, entry: Entry) -> bool:
    """Whether it runs as the plan would start it, its port apart, and answers."""
    if core.router.floor.replicas[place].state is not State.STOPPED:
        return False
    port = address(entry.process.url).port
    launch = replace(core.fleet.launches[place], port=port)
    driver, url = find_driver(launch.engine), f"http://127.0.0.1:{port}"
    if driver.command(launch, key=entry.key).argv != entry.process.argv:
        return False
    return driver.health(url, key=entry.key) is Health.READY
