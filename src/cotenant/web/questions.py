"""Short questions over HTTP: uploads, a plan checked with a replica moved, a log explained, a plan as files."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from cotenant.domain.loaded import LoadedModel
from cotenant.web import bodies
from cotenant.web.documents import written
from cotenant.web.jobs import Board, FullError, Job
from cotenant.web.running import client_of
from cotenant.web.shelf import described, upload_id
from cotenant.web.state import State
from cotenant.web.strict import StrictRoute, faults, refusal

_QUICK_BYTES = 64 * 2**10  # of a plan and its fleet: some twenty replicas
_LEFT = 499  # what servers call it; nobody reads it


def questions(state: State) -> APIRouter:
    """Paths that are answered while one waits."""
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _models(state, router)
    _plans(state, router)
    return router


def _models(state: State, router: APIRouter) -> None:
    @router.post("/models", response_model=dict[str, Any], status_code=201)
    async def models(body: bodies.ModelBody, request: Request) -> Response:
        """A model to be asked about: `{id, name, inspect}`. The id goes where a model's name does."""
        given = [name for name in ("hub", "config", "gguf") if getattr(body, name) is not None]
        if len(given) != 1:
            return refusal(422, "one of hub, config and gguf is needed", path="$")
        if body.hub is None:
            return await uploaded(state, request, body.model_dump(exclude_none=True))
        loaded, name = await state.model(body.hub), body.hub.strip()
        answer = await state.beside(partial(described, loaded, name))
        return Response(written(answer), 201, media_type="application/json")


def _plans(state: State, router: APIRouter) -> None:
    @router.post("/check", response_model=dict[str, Any])
    async def check(body: bodies.CheckBody, request: Request) -> Response:
        """A plan as it stands, or with a replica moved: `{ok, breaks, gpus, replicas, plan}`."""
        return await by_size(state, request, "check", body.model_dump(exclude_none=True))

    @router.post("/deploy", response_model=dict[str, Any])
    async def deploy(body: bodies.DeployBody, request: Request) -> Response:
        """A plan as files for a target: the bytes of `cotenant deploy --json`. Nothing is written."""
        return await by_size(state, request, "deploy", body.model_dump(exclude_none=True))

    @router.post("/explain", response_model=dict[str, Any])
    async def explain(body: bodies.ExplainBody, request: Request) -> Response:
        """Where every byte went, from an engine's own log: the bytes of `cotenant explain --json`."""
        asked = body.model_dump(exclude_none=True)
        known = {} if body.model is None else await state.known(body.model)
        return await answered(state.short, request, "explain", asked, known)


async def by_size(state: State, request: Request, kind: str, asked: dict[str, Any]) -> Response:
    """A little is answered with the estimates; what is long has a worker of its own, which may take a minute."""
    return await answered(await _board(state, request), request, kind, asked, state.named_in(asked))


async def _board(state: State, request: Request) -> Board:
    return state.quick if len(await request.body()) <= _QUICK_BYTES else state.short


async def uploaded(state: State, request: Request, asked: dict[str, Any]) -> Response:
    """A stranger's file, read by a worker: whatever is in it, this process has its structure alone."""
    name = upload_id()
    answer = await answered(await _board(state, request), request, "upload", {"id": name, **asked}, {})
    if answer.status_code != 200:
        return answer
    told = json.loads(bytes(answer.body))
    state.shelf.add(name, base64.b64decode(told["model"]))
    return Response(written(told["answer"]), 201, media_type="application/json")


async def answered(
    board: Board, request: Request, kind: str, asked: Mapping[str, Any], known: Mapping[str, LoadedModel],
    key: str | None = None,
) -> Response:  # fmt: skip
    """The answer of a worker, for as long as whoever asked is there."""
    answer = asyncio.ensure_future(board.answer(client_of(request), kind, asked, known, key))
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            return refusal(_LEFT, "whoever asked has left")
        return _response(answer.result())
    except FullError as full:
        return refusal(429, full.reason, "wait a little", retry_after="2")
    finally:
        leaving.cancel()
        answer.cancel()
        await asyncio.wait((answer, leaving))


async def _left(request: Request) -> None:
    """Until the connection is gone. The body has been read: nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(job: Job) -> Response:
    if job.state == "cancelled":
        return refusal(503, "the server ends", "start it again: cotenant ui")
    return faults(job.status, job.errors) if job.errors else Response(job.result, media_type="application/json")
