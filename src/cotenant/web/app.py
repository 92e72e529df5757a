"""The HTTP face: each path beside the function of the house that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.types import ASGIApp

from cotenant._version import __version__
from cotenant.edge.loopback import LOOPBACK
from cotenant.web import bodies
from cotenant.web.assets import packed_answer
from cotenant.web.documents import written
from cotenant.web.guard import Guard, Rules
from cotenant.web.memo import question_key
from cotenant.web.names import checked_words
from cotenant.web.questions import answered, questions
from cotenant.web.running import running
from cotenant.web.shelf import UPLOAD_BYTES
from cotenant.web.state import Options, State
from cotenant.web.strict import StrictRoute, answer_errors, refusal

_NOW = {"cache-control": "no-store"}
_MIB = 2**20
_BODY_BYTES = {
    "": 8 * _MIB, "/api/estimate": _MIB, "/api/explain": 32 * _MIB, "/api/models": 4 * UPLOAD_BYTES // 3 + _MIB,
}  # fmt: skip


def application(options: Options) -> tuple[ASGIApp, State]:
    """The guarded application and its state, which ends with it."""
    state = State(options)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warming = None
        if options.warm:
            await state.ready()
            warming = asyncio.create_task(state.warm())
        yield
        if warming is not None:
            warming.cancel()
        await state.close()

    app = FastAPI(
        title="Cotenant", version=__version__, openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,
        lifespan=lifespan, summary="What the page of `cotenant ui` asks; the same answers as the command line.",
        responses=bodies.refusals(*bodies.EVERYWHERE),
    )  # fmt: skip
    app.router.route_class = StrictRoute
    answer_errors(app)
    app.include_router(_page(state))
    app.include_router(_facts(state))
    app.include_router(questions(state))
    app.include_router(running(state))
    local = options.host in LOOPBACK
    names = frozenset(name.lower() for name in (*options.names, *(() if local else (options.host,))))
    return Guard(app, Rules(local=local, names=names, body_bytes=_BODY_BYTES)), state


def _page(state: State) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page(request: Request) -> Response:
        found = state.assets.answer("index.html", request)
        return found or refusal(404, "the page is not in this installation", "install cotenant anew")

    @router.get("/static/{name:path}")
    async def asset(name: str, request: Request) -> Response:
        return state.assets.answer(name, request) or refusal(404, "nothing stands at this address")

    @router.get("/favicon.ico")
    async def icon(request: Request) -> Response:
        return state.assets.answer("icon.svg", request) or refusal(404, "nothing stands at this address")

    return router


def _facts(state: State) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)

    @router.get("/catalogue", response_model=dict[str, Any])
    async def catalogue(request: Request) -> Response:
        """Models, cards, precisions, engines, targets, policies and examples."""
        return packed_answer(request, await state.catalogue(), "no-cache")

    @router.get("/opens", response_model=dict[str, Any])
    async def opens() -> Response:
        """The file of `cotenant ui FLEET|PLAN`: `{name, fleet}` or `{name, plan}`, or nothing."""
        return Response(written(state.options.opens or {}), media_type="application/json", headers=_NOW)

    @router.post("/estimate", response_model=dict[str, Any])
    async def estimate(body: bodies.EstimateBody, request: Request) -> Response:
        """What one replica takes of a card: the bytes of `cotenant estimate --json`."""
        words = body.model_dump(exclude_none=True)
        checked_words(words)
        known = await state.known(words["model"])
        key = question_key("estimate", words)
        return await answered(state.quick, request, "estimate", words, known, key)

    @router.get("/live", response_model=dict[str, Any], responses=bodies.refusals(401, 502))
    async def live(request: Request) -> Response:
        """What the gateway of `--gateway` says of itself; `{"gateway": null}` where none was named, 401 where it
        wants a key. That is given as `X-Gateway-Key`, goes to the gateway and is kept nowhere."""
        if state.gateway is None:
            return Response(written({"gateway": None}), media_type="application/json", headers=_NOW)
        key = request.headers.get("x-gateway-key") or None
        told = await state.outside(partial(state.gateway.document, key))
        return Response(written(told), media_type="application/json", headers=_NOW)

    return router
