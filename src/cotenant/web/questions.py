"""Short questions over HTTP: uploads, a plan checked with a replica moved, a log explained, a plan as files."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from cotenant.domain.loaded import LoadedModel
from cotenant.errors import InputError
from cotenant.web import bodies
from cotenant.web.checks import checked_document, deployed
from cotenant.web.documents import written
from cotenant.web.jobs import FullError
from cotenant.web.running import client_of
from cotenant.web.shelf import read_config, read_gguf
from cotenant.web.state import State
from cotenant.web.strict import StrictRoute, faults, refusal

_QUICK_BYTES = 64 * 2**10  # of a plan and its fleet: some twenty replicas


def questions(state: State) -> APIRouter:
    """Paths that are answered at once."""
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
            loaded = await state.quick(partial(_uploaded, body))
            name = state.shelf.add(loaded)
        document = await state.quick(partial(inspected, loaded, name))
        answer = {"id": name, "name": loaded.spec.name, "inspect": document}
        return Response(written(answer), 201, media_type="application/json")


def _plans(state: State, router: APIRouter) -> None:
    @router.post("/check", response_model=dict[str, Any])
    async def check(body: bodies.CheckBody, request: Request) -> Response:
        """A plan as it stands, or with a replica moved: `{ok, breaks, gpus, replicas, plan}`."""
        asked = body.model_dump(exclude_none=True)

        def answer() -> bytes:
            plan, fleet = state.plan(asked)
            return written(checked_document(plan, fleet, asked.get("move"), asked=asked))

        return await answered(state, request, "check", asked, answer)

    @router.post("/deploy", response_model=dict[str, Any])
    async def deploy(body: bodies.DeployBody, request: Request) -> Response:
        """A plan as files for a target: the bytes of `cotenant deploy --json`. Nothing is written."""
        asked = body.model_dump(exclude_none=True)
        return await answered(state, request, "deploy", asked, partial(deployed, body.plan, body.target))

    @router.post("/explain", response_model=dict[str, Any])
    async def explain(body: bodies.ExplainBody, request: Request) -> Response:
        """Where every byte went, from an engine's own log: the bytes of `cotenant explain --json`."""
        asked = body.model_dump(exclude_none=True)
        if body.model is not None:
            await state.model(body.model)
        return await apart(state, request, "explain", asked, state.named_in(body.model))


async def answered(
    state: State, request: Request, kind: str, asked: dict[str, Any], quick: Callable[[], bytes]
) -> Response:
    """Beside the loop where little was asked; what is long goes to a process that can be stopped."""
    if len(await request.body()) <= _QUICK_BYTES:
        return Response(await state.quick(quick), media_type="application/json")
    return await apart(state, request, kind, asked, state.named_in(asked))


async def apart(
    state: State, request: Request, kind: str, asked: Mapping[str, Any], known: Mapping[str, LoadedModel]
) -> Response:
    """The answer of a worker, which has a minute for it."""
    try:
        job = await state.short.answer(client_of(request), kind, asked, known)
    except FullError as full:
        return refusal(429, full.reason, "wait a little", retry_after="2")
    return faults(422, job.errors) if job.errors else Response(job.result, media_type="application/json")


def _uploaded(body: bodies.ModelBody) -> Any:
    if body.gguf is None:
        return read_config(body.config if body.config is not None else "", body.name)
    try:
        head = base64.b64decode(body.gguf, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("not base64", path="$.gguf") from None
    return read_gguf(head, body.size_bytes, body.name)


def inspected(loaded: Any, name: str) -> dict[str, Any]:
    """As `cotenant inspect NAME --json`."""
    from cotenant.catalogue import VERSION
    from cotenant.estimation.anatomy import anatomy
    from cotenant.readers.input_hash import input_hash
    from cotenant.report.catalogue_document import inspect_document

    return inspect_document(anatomy(loaded), catalogue=VERSION, input_hash=input_hash({"model": name}))
