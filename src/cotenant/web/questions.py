"""Short questions over HTTP: uploads, a plan checked with a replica moved, a log explained, a plan as files."""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from cotenant.errors import InputError
from cotenant.web import bodies
from cotenant.web.documents import written
from cotenant.web.shelf import read_config, read_gguf
from cotenant.web.state import State
from cotenant.web.strict import StrictRoute, refusal


def questions(state: State) -> APIRouter:
    """Paths that are answered at once."""
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _models(state, router)
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
