"""The gateway from its start to the end of its drain."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from cotenant.edge.engines.llama_router import router_command
from cotenant.edge.gateway.adoption import adopt
from cotenant.edge.gateway.core import Core
from cotenant.edge.gateway.foresight import check_clocks, foresee
from cotenant.edge.gateway.guard import GuardedServer, most_connections
from cotenant.edge.gateway.hands import EngineHands
from cotenant.edge.gateway.hardware import check_engines, check_hardware
from cotenant.edge.gateway.journal import Journal
from cotenant.edge.gateway.keys import Keys
from cotenant.edge.gateway.log import Log, http_logger
from cotenant.edge.gateway.relay import Relay
from cotenant.edge.gateway.routed import RouterHost
from cotenant.edge.gateway.routes import Limits, Routes
from cotenant.edge.gateway.watch import Watch
from cotenant.edge.loopback import LOOPBACK
from cotenant.errors import CotenantError, InputError
from cotenant.serving.from_plan import Fleet
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
    """Until the end. The port is ours before any engine is touched."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=16, thread_name_prefix="engine"))
    core = Core(fleet, options.settings, log)
    core.hands = hands = EngineHands(core, journal, options.engine_keys, routed=options.llama_router)
    async with aclosing(Relay(core)) as relay:
        routes = Routes(core, hands, relay, keys=options.keys, limits=options.limits, local=local)
        server = _server(routes, options, log)
        with _at_its_port(options):
            listening = await loop.create_server(
                server, options.host, options.port, backlog=1024, start_serving=False
            )
        adopt(core, hands, journal)
        end, reload = End(core), Reload(core, hands, routes, options)
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, end.stop)
        loop.add_signal_handler(signal.SIGHUP, reload.begin)
        with _at_its_port(options):
            await listening.start_serving()
        port = listening.sockets[0].getsockname()[1]
        log.event("serving", host=options.host, port=port, models=[one.name for one in fleet.models])
        await _until_drained(core, hands, end, options, lambda: ready(f"http://{options.host}:{port}"))
        listening.close()
        server.pre_shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                await server.shutdown(1.0)
    log.event("stopped")


async def _until_drained(
    core: Core, hands: EngineHands, end: End, options: Options, ready: Callable[[], None]
) -> None:
    """Requests are taken and engines watched, from the first start to the last stop."""
    watch = Watch(hands)
    watch.run()
    foresight = asyncio.create_task(foresee(core))
    gc.collect()
    gc.freeze()
    if options.prestart:
        core.expect(one.name for one in core.fleet.models)
    ready()
    await end.drained()
    foresight.cancel()
    await watch.close()
    await hands.close()


@contextmanager
def _at_its_port(options: Options) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        known = None if isinstance(error, socket.gaierror) else error.errno  # asyncio says it all twice
        reason = os.strerror(known) if known else error.strerror or str(error)
        raise InputError(f"cannot listen on {options.host}:{options.port}: {reason}", hint="--port N") from None


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

    async def drained(self) -> None:
        """Until a signal has come, all requests have ended since, and all engines of ours are stopped."""
        await self.came.wait()
        core = self._core
        core.log.event("draining", requests=len(core.tickets))
        core.router.drain(core.now_ns)
        core.pump()
        while not core.router.drained:
            await asyncio.sleep(0.02)


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


def _server(routes: Routes, options: Options, log: Log) -> GuardedServer:
    found = GuardedServer(
        routes.handle, handler_cancellation=True, access_log=None, keepalive_timeout=75.0, auto_decompress=False,
        logger=http_logger(log), most=most_connections(),
        max_line_size=8190, max_headers=64, max_field_size=16380,
    )  # fmt: skip
    found.request_factory = _with_limit(options.limits.body_bytes)
    return found


def _with_limit(most: int) -> Callable[..., web.BaseRequest]:
    def make(message, payload, protocol, writer, task):  # type: ignore[no-untyped-def]
        return web.BaseRequest(
            message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=most
        )

    return make
