"""One replica's engine as the gateway has it: its process, its address, its key."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cotenant.domain.running import EngineProcess, Launch
from cotenant.edge.engines import find_driver
from cotenant.edge.engines.driver import Driver
from cotenant.errors import EngineError

NO_KEYS: Mapping[str, str] = {}


class Engine:
    """One replica's process, if it has one, and how to talk to it. `keys`: of engines that are not ours, by their
    replica or model."""

    __slots__ = (
        "adapters",
        "driver",
        "generation",
        "key",
        "launch",
        "level",
        "process",
        "reference",
        "silent",
        "task",
        "url",
    )

    def __init__(self, launch: Launch, level: int, keys: Mapping[str, str] = NO_KEYS) -> None:
        self.driver: Driver = find_driver(launch.engine)
        self.level = level
        self.process: EngineProcess | None = None
        self.adapters = launch.adapters  # what it has, where it runs
        self.generation = self.silent = 0
        self.reference = ""
        self.task: asyncio.Task[None] | None = None
        self.at(launch)
        theirs = keys.get(launch.id, keys.get(launch.model, ""))
        self.key = theirs if launch.url else secrets.token_urlsafe(24)

    def at(self, launch: Launch) -> None:
        """Its launch, and so its address: its port may be another than the plan's where that one is taken."""
        self.launch = launch
        self.url = launch.url or f"http://127.0.0.1:{launch.port}"


def on_a_free_port(engine: Engine, all_of_them: Iterable[Engine]) -> Launch:
    """Its launch; on another port where one of ours, which it is to follow, still has the plan's. Raises
    EngineError where a stranger has it."""
    port = engine.launch.port
    if _is_free(port):
        return engine.launch
    if port not in {one.launch.port for one in all_of_them if one is not engine and one.process is not None}:
        raise EngineError(f"port {port} is taken by another program")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return replace(engine.launch, port=int(one.getsockname()[1]))


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
