"""What the server knows between requests, and how it was told to run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from cotenant.domain.loaded import LoadedModel
from cotenant.web.assets import Asset, Assets, asset_of
from cotenant.web.catalogue import catalogue_bytes, first_example
from cotenant.web.jobs import Board, Bounds, FullError
from cotenant.web.live import Gateway
from cotenant.web.memo import question_key
from cotenant.web.names import opener
from cotenant.web.shelf import Shelf, opened
from cotenant.web.stamp import Stamp, own_stamp

T = TypeVar("T")
_SHORT_S, _QUICK = 60.0, 2  # seconds for what is long but no job; processes for estimates and checks


@dataclass(frozen=True, slots=True)
class Options:
    """How the page is served. Port 0: any that is free. `names`: what else this server is called. `quick_s`: how
    long an estimate or a check may take."""

    host: str = "127.0.0.1"
    port: int = 8090
    gateway: str | None = None
    names: tuple[str, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)
    quick_s: float = 10.0
    opens: Mapping[str, Any] | None = None  # what the page begins with, as `opened_file` says
    warm: bool = False  # whether the page's first questions are answered before anybody asks


class State:
    """One server's shelf, jobs and threads. Everything here is for the event loop; threads see only what they are
    handed."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.shelf, self.assets = Shelf(), Assets()
        self.followers = 0
        self.board = Board(options.bounds)
        self.short = Board(
            Bounds(
                workers=1, job_bytes=options.bounds.job_bytes, job_s=_SHORT_S, waiting=16, per_client=4,
                kept_s=1.0, nice=5,
            )
        )  # fmt: skip
        self.quick = Board(
            Bounds(
                workers=_QUICK, running_per_client=_QUICK - 1, job_bytes=options.bounds.job_bytes,
                job_s=options.quick_s, waiting=512, per_client=128, kept_s=1.0, memo_bytes=8 * 2**20,
                worker_jobs=None, nice=0, finishes=True,
            )
        )  # fmt: skip
        self.gateway = None if options.gateway is None else Gateway(options.gateway)
        self._catalogue: tuple[Stamp, Asset] | None = None
        self._reading = asyncio.Lock()
        self._beside = ThreadPoolExecutor(4, thread_name_prefix="beside")
        self._outside = ThreadPoolExecutor(4, thread_name_prefix="outside")

    async def ready(self) -> None:
        """Until estimates are answered as fast as ever: their processes have read what they need."""
        await self.quick.ready("ready")

    async def warm(self) -> None:
        """Answer what every page asks first: what there is to choose from, and the plan that it opens with."""
        opens = self.options.opens or {"fleet": first_example()}
        if "fleet" not in opens:
            await self.catalogue()
            return
        asked = {"fleet": opens["fleet"], "seed": 0, "replay": False, "why": False}
        self.board.submit("the page's own", "plan", asked, {}, question_key("plan", asked))
        await self.catalogue()

    async def catalogue(self) -> Asset:
        """What there is to choose from, packed once as long as the user's own folders stay as they are. A worker
        opens the models: it can be stopped with the server, and holds up no answer meanwhile."""
        async with self._reading:
            stamp = own_stamp()
            if self._catalogue is None or self._catalogue[0] != stamp:
                told = await self._told_catalogue()
                packed = await self.beside(partial(asset_of, told, "application/json"))
                self._catalogue = stamp, packed
            return self._catalogue[1]

    async def _told_catalogue(self) -> bytes:
        try:
            job = await self.short.answer("the page's own", "catalogue", {}, {})
        except FullError:
            return await self.beside(catalogue_bytes)
        if job.state == "cancelled":
            raise asyncio.CancelledError  # the server ends
        return job.result or await self.beside(catalogue_bytes)

    async def known(self, source: object) -> dict[str, LoadedModel]:
        """What a worker is handed with a question about that model: nothing where it opens it by itself. The loop
        never waits for the hub. Raises UnknownModelError and its kin."""
        if not isinstance(source, str):
            return {}
        name, stamp = source.strip(), own_stamp()
        is_known, found = self.shelf.find(name, stamp)
        if not is_known:
            found = await self.outside(partial(opened, name))
            self.shelf.keep(name, stamp, found)
        return {} if found is None else {name: found}

    async def model(self, source: str) -> LoadedModel:
        """The model itself. Raises UnknownModelError and its kin."""
        known = await self.known(source)
        return await self.beside(partial(opener(known), source))

    def named_in(self, asked: object) -> dict[str, LoadedModel]:
        """What is known of the models that a question names: a worker need not ask for them again."""
        return self.shelf.named_in(json.dumps(asked), own_stamp())

    async def beside(self, function: Callable[[], T]) -> T:
        """What takes milliseconds, and nothing that changes meanwhile, beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._beside, function)

    async def outside(self, function: Callable[[], T]) -> T:
        """What waits for somebody else: the hub, a gateway."""
        return await asyncio.get_running_loop().run_in_executor(self._outside, function)

    async def close(self) -> None:
        """End every process and thread."""
        for board in (self.board, self.short, self.quick):
            await board.close()
        for pool in (self._beside, self._outside):
            pool.shutdown(wait=False, cancel_futures=True)
