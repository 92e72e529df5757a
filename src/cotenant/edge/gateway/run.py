"""The gateway from its start to the end of its drain."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiohttp import web

from cotenant.domain.running import Health
from cotenant.edge.engines import processes
from cotenant.edge.engines.calls import address
from cotenant.edge.engines.llama_router import RoutedLlama, router_command
from cotenant.edge.engines.strays import strays
from cotenant.edge.gateway.core import Core
from cotenant.edge.gateway.foresight import check_clocks, foresee
from cotenant.edge.gateway.guard import GuardedServer, most_connections
from cotenant.edge.gateway.hands import EngineHands
from cotenant.edge.gateway.hardware import check_engines, check_hardware
from cotenant.edge.gateway.journal import Entry, Journal, Stage
from cotenant.edge.gateway.keys import Keys
from cotenant.edge.gateway.log import Log, http_logger
from cotenant.edge.gateway.relay import Relay
from cotenant.edge.gateway.routed import ROUTER, RouterHost
from cotenant.edge.gateway.routes import Limits, Routes
from cotenant.edge.gateway.watch import Watch
from cotenant.edge.loopback import LOOPBACK
from cotenant.errors import CotenantError, InputError
from cotenant.serving.from_plan import Fleet
from cotenant.serving.replica import State
from cotenant.serving.settings import Settings


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
    again: Callable[[], Fleet] | None = None  # reads the plan anew; raises where it is unsound
    llama_router: bool = False  # one llama-server in router mode for all of llama.cpp's models
    keys_again: Callable[[], Keys | None] = lambda: None


def run(fleet: Fleet, options: Options, *, ready: Callable[[str], None] = lambda url: None) -> int:
    """Serve until SIGTERM or SIGINT, then drain. `ready` is told the address. The status is 0 after a drain.

    Raises InputError where it cannot begin: the port is taken, the state folder in use, a key is missing.
    """
    local = options.host in LOOPBACK
    if not local and options.keys is None and not options.anonymous:
        raise InputError(
            f"{options.host} can be reached by others, and no keys are given",
            hint="--api-keys FILE, or --allow-anonymous where the network itself is closed",
        )
    _check(fleet, options)
    log = Log(quiet=options.quiet)
    check_hardware(fleet, log)
    check_engines(fleet, log)
    journal = Journal(options.state, lambda reason: log.event("journal_not_written", reason=reason))
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(fleet, options, journal, log, ready, local))
    finally:
        journal.close()
    return 0


def _check(fleet: Fleet, options: Options) -> None:
    """Raises InputError for a plan that cannot be served here, whatever the machine."""
    check_clocks(fleet.hours)
    mine = [one.id for one in fleet.launches if not one.url and one.port == options.port]
    if mine and options.port:
        raise InputError(f"the plan gives port {options.port} to {mine[0]}", hint="--port N")
    if options.llama_router and any(RouterHost.holds(one) for one in fleet.launches):
        router_command(options.state, 0)


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
) -> None:
    """Until the end."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=16, thread_name_prefix="engine"))
    core = Core(fleet, options.settings, log)
    hands = EngineHands(core, journal, options.engine_keys, routed=options.llama_router)
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
    end = End(core)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, end.stop)
    reload = Reload(core, hands, routes, options)
    loop.add_signal_handler(signal.SIGHUP, reload.begin)
    foresight = loop.create_task(foresee(core))
    gc.collect()
    gc.freeze()
    if options.prestart:
        core.expect(one.name for one in fleet.models)
    port = listening.sockets[0].getsockname()[1]
    log.event("serving", host=options.host, port=port, models=[one.name for one in fleet.models])
    ready(f"http://{options.host}:{port}")
    await end.came.wait()
    log.event("draining", requests=len(core.tickets))
    core.router.drain(core.now_ns)
    core.pump()
    while not core.router.drained:
        await asyncio.sleep(0.02)
    foresight.cancel()
    listening.close()
    await watch.close()
    await hands.close()
    if hands.router is not None:
        await hands.router.close()
    server.pre_shutdown()
    with suppress(TimeoutError):
        async with asyncio.timeout(2):
            await server.shutdown(1.0)
    await relay.close()
    log.event("stopped")


class End:
    """How the gateway comes to its end."""

    def __init__(self, core: Core) -> None:
        self.came = asyncio.Event()
        self._core = core

    def stop(self) -> None:
        """SIGTERM: the first one drains; a second one does not wait for requests any longer."""
        core = self._core
        if self.came.is_set():
            core.router.floor.draining_ns = core.now_ns
            core.router.tick(core.now_ns)
            core.pump()
        self.came.set()


class Reload:
    """SIGHUP: the plan, the fleet and the keys as they stand now. If they cannot be served, all stays as it is."""

    def __init__(self, core: Core, hands: EngineHands, routes: Routes, options: Options) -> None:
        self._core, self._hands, self._routes, self._options = core, hands, routes, options
        self._task: asyncio.Task[None] | None = None
        self._asked = False

    def begin(self) -> None:
        """One at a time. Asked for meanwhile, it is done once more: files may be other ones by then."""
        self._asked = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._until_read())

    async def _until_read(self) -> None:
        while self._asked:
            self._asked = False
            await self._reload()

    async def _reload(self) -> None:
        log = self._core.log
        try:
            fleet, keys = await asyncio.to_thread(self._read)
        except CotenantError as error:
            log.event("reload_refused", reason=error.faults()[0].message, hint=error.faults()[0].hint or None)
        except Exception as error:
            log.fault("the plan could not be read anew", error)
        else:
            self._routes.keys = keys
            log.event("reloaded", **self._hands.replan(fleet))
            if self._options.prestart:
                self._core.expect(one.name for one in fleet.models)

    def _read(self) -> tuple[Fleet, Keys | None]:
        if self._options.again is None:
            raise InputError("there is nothing to read anew")
        fleet = self._options.again()
        _check(fleet, self._options)
        check_hardware(fleet, self._core.log)
        check_engines(fleet, self._core.log)
        return fleet, self._options.keys_again() if self._options.keys is not None else None


async def _listen(server: GuardedServer, options: Options) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    return await loop.create_server(server, options.host, options.port, backlog=1024)


def _with_limit(server: GuardedServer, most: int) -> Callable[..., web.BaseRequest]:
    def make(message, payload, protocol, writer, task):  # type: ignore[no-untyped-def]
        return web.BaseRequest(
            message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=most
        )

    return make


def adopt(core: Core, hands: EngineHands, journal: Journal) -> None:
    """Take over engines of an earlier run that are what the plan wants; stop those that are not, and nothing else.

    An engine is ours where pid, start time and command are those of the journal. The plan wants it where its
    command is the one that would be built now. One that was on its way to sleep or back is stopped.
    """
    wanted = {launch.id: place for place, launch in enumerate(core.fleet.launches) if not launch.url}
    for entry in journal.entries():
        process = entry.process
        if not processes.alive(process) or not processes.same_command(process):
            journal.drop(process)
            continue
        place = wanted.get(entry.replica)
        if hands.router is not None and entry.replica == ROUTER and hands.router.adopt(entry):
            continue
        try:
            state = None if place is None else _taken_over_as(core, hands, place, entry)
            if place is not None and state is not None:
                hands.adopt(place, entry, core.router.adopted(core.now_ns, place, state))
                continue
        except CotenantError as error:
            core.log.event("engine_not_adopted", replica=entry.replica, reason=error.message)
        core.log.event("orphan_stopped", replica=entry.replica, pid=process.pid)
        processes.stop(process)
        journal.drop(process)
    for process in strays(journal.folder / "logs", {entry.process.pid for entry in journal.entries()}):
        core.log.event("orphan_stopped", replica="", pid=process.pid)
        processes.stop(process)


def _taken_over_as(core: Core, hands: EngineHands, place: int, entry: Entry) -> State | None:
    """In which state an engine can be taken over: it runs as the plan would start it, its port apart, and is as
    the journal says. None where it cannot."""
    if core.router.floor.replicas[place].state is not State.STOPPED:
        return None
    driver, url = hands.engines[place].driver, entry.process.url
    launch = replace(core.fleet.launches[place], port=address(url).port)
    if isinstance(driver, RoutedLlama):
        if hands.router is None or hands.router.url != url or driver.section not in entry.process.argv:
            return None
    elif driver.command(launch, key=entry.key).argv != entry.process.argv:
        return None
    if entry.stage is Stage.LOADING:
        return State.STARTING
    health = driver.health(url, key=entry.key)
    if entry.stage is Stage.ASLEEP:
        known = entry.reference and entry.level == core.fleet.sleep_levels[place]
        return State.ASLEEP if known and health is Health.ASLEEP else None
    return State.READY if entry.stage is Stage.AWAKE and health is Health.READY else None
