"""What the server knows between requests, and how it was told to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from cotenant.domain.loaded import LoadedModel
from cotenant.web.assets import Assets
from cotenant.web.jobs import Board, Bounds
from cotenant.web.live import Gateway
from cotenant.web.shelf import Shelf

T = TypeVar("T")
_SHORT_S = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """How the page is served. Port 0: any that is free. `names`: what else this server is called."""

    host: str = "127.0.0.1"
    port: int = 8090
    gateway: str | None = None
    names: tuple[str, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)


class State:
    """One server's shelf, jobs and threads."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.shelf, self.assets = Shelf(), Assets()
        self.board = Board(options.bounds)
        self.short = Board(
            Bounds(
                workers=1, job_bytes=options.bounds.job_bytes, job_s=_SHORT_S, waiting=16, per_client=4, kept_s=1.0
            )
        )
        self.gateway = None if options.gateway is None else Gateway(options.gateway)
        self._quick = ThreadPoolExecutor(2, thread_name_prefix="answer")
        self._hub = ThreadPoolExecutor(4, thread_name_prefix="hub")

    async def model(self, source: object) -> LoadedModel:
        """What a request calls a model; the loop never waits for the hub. Raises UnknownModelError and its kin."""
        found = self.shelf.known(source)
        if found is None:
            name = str(source).strip()
            found = await asyncio.get_running_loop().run_in_executor(self._hub, self.shelf.open, name)
        if isinstance(source, str):
            self.shelf.keep(source.strip(), found)
        return found

    async def quick(self, function: Callable[[], T]) -> T:
        """What takes milliseconds, beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, function)

    async def close(self) -> None:
        """End every process and thread."""
        await self.board.close()
        await self.short.close()
        self._quick.shutdown(wait=False, cancel_futures=True)
        self._hub.shutdown(wait=False, cancel_futures=True)
