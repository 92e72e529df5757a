"""Short questions over HTTP: uploads, a plan checked with a replica moved, a log explained, a plan as files."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from cotenant.domain.loaded import LoadedModel
from cotenant.errors import InputError
from cotenant.web import bodies
from cotenant.web.documents import written
from cotenant.web.jobs import Board, FullError, Job
from cotenant.web.running import client_of
from cotenant.web.shelf import read_config, read_gguf
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
    async def models(body: bodies.ModelBody) -> Response:
        """A model to be asked about: `{id, name, inspect}`. The id goes where a model's name does."""
        given = [name for name in ("hub", "config", "gguf") if getattr(body, name) is not None]
        if len(given) != 1:
            return refusal(422, "one of hub, config and gguf is needed", path="$")
        if body.hub is not None:
            loaded, name = await state.model(body.hub), body.hub.strip()
        else:
            loaded = await state.beside(partial(_uploaded, body))
            name = state.shelf.add(loaded)
        document = await state.beside(partial(inspected, loaded, name))
        answer = {"id": name, "name": loaded.spec.name, "inspect": document}
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
    board = state.quick if len(await request.body()) <= _QUICK_BYTES else state.short
    return await answered(board, request, kind, asked, state.named_in(asked))


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


def _uploaded(body: bodies.ModelBody) -> LoadedModel:
    if body.gguf is None:
        return read_config("" if body.config is None else body.config, body.name)
    try:
        head = base64.b64decode(body.gguf, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("not base64", path="$.gguf") from None
    return read_gguf(head, body.size_bytes, body.name)


def inspected(loaded: LoadedModel, name: str) -> dict[str, Any]:
    """As `cotenant inspect NAME --json`."""
    from cotenant.catalogue import VERSION
    from cotenant.estimation.anatomy import anatomy
    from cotenant.readers.input_hash import input_hash
    from cotenant.report.catalogue_document import inspect_document

    return inspect_document(anatomy(loaded), catalogue=VERSION, input_hash=input_hash({"model": name}))
