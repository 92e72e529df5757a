"""What the server knows between requests, and how it was told to run."""

from __future__ import annotations

import asyncio
import json
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from cotenant.domain.loaded import LoadedModel
from cotenant.errors import InputError
from cotenant.web.assets import Asset, Assets, asset_of
from cotenant.web.catalogue import catalogue_bytes, first_example
from cotenant.web.jobs import Board, Bounds, FullError
from cotenant.web.live import Gateway
from cotenant.web.memo import Memo, question_key
from cotenant.web.shelf import Shelf
from cotenant.web.work import open_fleet, plan_of

if TYPE_CHECKING:
    from cotenant.domain.fleet import Fleet
    from cotenant.domain.plan import Plan

T = TypeVar("T")
_SHORT_S, _FLEETS = 60.0, 32


@dataclass(frozen=True, slots=True)
class Options:
    """How the page is served. Port 0: any that is free. `names`: what else this server is called."""

    host: str = "127.0.0.1"
    port: int = 8090
    gateway: str | None = None
    names: tuple[str, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)
    warm: bool = False  # whether the page's first questions are answered before anybody asks


class State:
    """One server's shelf, jobs and threads."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.shelf, self.assets = Shelf(), Assets()
        self.followers = 0
        self.estimates = Memo(8 * 2**20)
        self.board = Board(options.bounds)
        self.short = Board(
            Bounds(
                workers=1, job_bytes=options.bounds.job_bytes, job_s=_SHORT_S, waiting=16, per_client=4, kept_s=1.0
            )
        )
        self.gateway = None if options.gateway is None else Gateway(options.gateway)
        self._catalogue: Asset | None = None
        self._reading = asyncio.Lock()
        self._fleets: OrderedDict[str, Fleet] = OrderedDict()
        self._quick = ThreadPoolExecutor(4, thread_name_prefix="answer")
        self._hub = ThreadPoolExecutor(4, thread_name_prefix="hub")

    async def warm(self) -> None:
        """Answer what every page asks first: what there is to choose from, and the plan that it opens with."""
        asked = {"fleet": first_example(), "seed": 0, "replay": False, "why": False}
        self.board.submit("the page's own", "plan", asked, {}, question_key("plan", asked))
        await self.catalogue()
        await self.quick(partial(import_module, "numpy"))  # estimates under traffic are sooner with it

    async def catalogue(self) -> Asset:
        """What there is to choose from, packed once. A worker opens the models: it can be stopped with the server,
        and holds up no answer meanwhile."""
        async with self._reading:
            if self._catalogue is None:
                told = await self._told_catalogue()
                self._catalogue = await self.quick(partial(asset_of, told, "application/json"))
        return self._catalogue

    async def _told_catalogue(self) -> bytes:
        try:
            job = await self.short.answer("the page's own", "catalogue", {}, {})
        except FullError:
            return await self.quick(catalogue_bytes)
        if job.state == "cancelled":
            raise asyncio.CancelledError  # the server ends
        return job.result or await self.quick(catalogue_bytes)

    async def model(self, source: object) -> LoadedModel:
        """What a request calls a model; the loop never waits for the hub. Raises UnknownModelError and its kin."""
        found = self.shelf.known(source)
        if found is None:
            name = str(source).strip()
            found = await asyncio.get_running_loop().run_in_executor(self._hub, self.shelf.open, name)
        if isinstance(source, str):
            self.shelf.keep(source.strip(), found)
        return found

    def named_in(self, asked: object) -> dict[str, LoadedModel]:
        """What is known of the models that a question names: a worker need not ask for them again."""
        text = json.dumps(asked)
        known = ChainMap(self.shelf.uploads, self.shelf.opened)
        return {name: found for name, found in known.items() if json.dumps(name) in text}

    def fleet(self, source: Mapping[str, Any] | str) -> Fleet:
        """A fleet, read once however often it is asked about. Raises InputErrors with every fault."""
        key = sha256(json.dumps(source).encode()).hexdigest()
        if key not in self._fleets:
            self._fleets[key] = open_fleet(source, self.named_in(source))
            while len(self._fleets) > _FLEETS:
                self._fleets.popitem(last=False)
        return self._fleets[key]

    def plan(self, asked: Mapping[str, Any]) -> tuple[Plan, Fleet]:
        """A plan's document with its fleet, or with the one that is given beside it. Raises InputErrors."""
        source = asked.get("fleet") or asked["plan"].get("fleet")
        if not isinstance(source, (Mapping, str)):
            raise InputError("the plan does not hold the fleet that it was made for", path="$.plan.fleet")
        fleet = self.fleet(source)
        return plan_of(asked["plan"], fleet), fleet

    async def quick(self, function: Callable[[], T]) -> T:
        """What takes milliseconds, beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, function)

    async def close(self) -> None:
        """End every process and thread."""
        await self.board.close()
        await self.short.close()
        self._quick.shutdown(wait=False, cancel_futures=True)
        self._hub.shutdown(wait=False, cancel_futures=True)
