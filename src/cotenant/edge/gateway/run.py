"""The gateway from its start to the end of its drain."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from cotenant.domain.running import Health
from cotenant.edge.engines import find_driver, processes
from cotenant.edge.gateway.core import Core
from cotenant.edge.gateway.guard import GuardedServer
from cotenant.edge.gateway.hands import EngineHands
from cotenant.edge.gateway.journal import Journal
from cotenant.edge.gateway.keys import Keys
from cotenant.edge.gateway.log import Log, http_logger
from cotenant.edge.gateway.relay import Relay
from cotenant.edge.gateway.routes import Limits, Routes
from cotenant.errors import CheckError, InputError
from cotenant.serving.from_plan import Fleet
from cotenant.serving.replica import State
from cotenant.serving.settings import Settings

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Options:
    """How the gateway is run. `prestart`: models are started at once as far as they fit together."""

    host: str = "127.0.0.1"
    port: int = 8000
    state: Path = Path()
    keys: Keys | None = None
    anonymous: bool = False
    prestart: bool = True
    quiet: bool = False
    limits: Limits = field(default_factory=Limits)
    settings: Settings = field(default_factory=Settings)


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
    journal = Journal(options.state)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(fleet, options, journal, ready, local))
    finally:
        journal.close()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: the same loop for less processor."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(
    fleet: Fleet, options: Options, journal: Journal, ready: Callable[[str], None], local: bool
) -> int:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=16, thread_name_prefix="engine"))
    log = Log(quiet=options.quiet)
    core = Core(fleet, options.settings, log)
    hands = EngineHands(core, journal)
    core.hands = hands
    relay = Relay(core)
    routes = Routes(core, hands, relay, keys=options.keys, limits=options.limits, local=local)
    server = GuardedServer(
        routes.handle, handler_cancellation=True, access_log=None, keepalive_timeout=75.0, auto_decompress=False,
        logger=http_logger(log),
        max_line_size=8190, max_headers=64, max_field_size=16380,
    )  # fmt: skip
    server.request_factory = _with_limit(server, options.limits.body_bytes)
    adopt(core, hands, journal)
    try:
        listening = await loop.create_server(server, options.host, options.port, backlog=1024)
    except OSError as error:
        await relay.close()
        reason = error.strerror or str(error)
        raise InputError(f"cannot listen on {options.host}:{options.port}: {reason}", hint="--port N") from None
    hands.run()
    stopping = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, _stop, stopping, core, hands)
    gc.collect()
    gc.freeze()
    if options.prestart:
        for model in fleet.models:
            core.router.expect(core.now_ns, model.name)
        core.pump()
    port = listening.sockets[0].getsockname()[1]
    log.event("serving", host=options.host, port=port, models=[one.name for one in fleet.models])
    ready(f"http://{options.host}:{port}")
    await stopping.wait()
    log.event("draining", requests=len(core.tickets))
    core.router.drain(core.now_ns)
    core.pump()
    while not core.router.drained:
        await asyncio.sleep(0.02)
    listening.close()
    await hands.close()
    server.pre_shutdown()
    with suppress(TimeoutError):
        async with asyncio.timeout(2):
            await server.shutdown(1.0)
    await relay.close()
    log.event("stopped")
    return 0


def _stop(stopping: asyncio.Event, core: Core, hands: EngineHands) -> None:
    """The first signal drains; a second one does not wait for requests any longer."""
    if stopping.is_set():
        core.router.floor.draining_ns = core.now_ns
        core.router.tick(core.now_ns)
        core.pump()
    stopping.set()


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
            journal.drop(entry.replica)
            continue
        place = wanted.get(entry.replica)
        if place is not None and _is_wanted(core, place, entry.key, process.argv, process.url):
            try:
                hands.adopt(place, entry, core.router.adopted(core.now_ns, place))
                continue
            except CheckError as error:
                core.log.event("engine_not_adopted", replica=entry.replica, reason=error.message)
        core.log.event("orphan_stopped", replica=entry.replica, pid=process.pid)
        processes.stop(process)
        journal.drop(entry.replica)


def _is_wanted(core: Core, place: int, key: str, argv: tuple[str, ...], url: str) -> bool:
    launch = core.fleet.launches[place]
    driver = find_driver(launch.engine)
    if core.router.floor.replicas[place].state is not State.STOPPED:
        return False
    if driver.command(launch, key=key).argv != argv:
        return False
    return driver.health(url, key=key) is Health.READY
