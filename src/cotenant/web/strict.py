"""The framework bent to the house: JSON read strictly, and every refusal in one shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException as StarletteHTTPException

from cotenant.errors import CotenantError, FormatError
from cotenant.web.documents import written
from cotenant.web.outcomes import broken, refused

_AT_ONCE_BYTES = 64 * 2**10  # of a body that is read between two other answers


class StrictRequest(Request):
    """A request whose JSON has no duplicate keys, no NaN, no lone surrogates and no depths."""

    async def json(self) -> Any:
        """The body's value. Raises HTTPException with what is wrong with it."""
        body = await self.body()
        try:
            if len(body) <= _AT_ONCE_BYTES:
                return _read(body)
            return await asyncio.to_thread(_read, body)  # seconds, for others to be answered in
        except FormatError as error:
            raise HTTPException(400, error) from None


class StrictRoute(APIRoute):
    """A route that reads its body so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler behind a strict request."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def _read(body: bytes) -> Any:
    from cotenant.readers.json_text import parse_json

    value = parse_json(body, what="the body")
    _whole_text(value)
    return value


def _whole_text(value: object) -> None:
    """Refuse text that is no Unicode: half of a surrogate pair, which nothing can write down."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            if not one.isascii() and any("\ud800" <= letter <= "\udfff" for letter in one):
                raise FormatError("the body holds half of a surrogate pair")
        elif isinstance(one, dict):
            pending += one.keys()
            pending += one.values()
        elif isinstance(one, list):
            pending += one


def refusal(status: int, error: str, hint: str = "", path: str = "", **headers: str) -> Response:
    """One fault as the answer."""
    return faults(status, [{"error": error, "hint": hint, "path": path}], **headers)


def faults(status: int, found: Iterable[dict[str, str]], **headers: str) -> Response:
    """Faults as the answer; `headers` with underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = written({"errors": list(found)})
    return Response(body, status, media_type="application/json", headers={"cache-control": "no-store", **named})


def answer_of(outcome: Mapping[str, Any]) -> Response:
    """An outcome (`outcomes`) as the answer."""
    return faults(outcome["status"], outcome["errors"])


def answer_errors(app: FastAPI) -> None:
    """Every way to fail ends in `{errors: [{error, hint, path}]}`."""
    app.add_exception_handler(CotenantError, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(StarletteHTTPException, _http)
    app.add_exception_handler(Exception, _fault)


async def _refused(_: Request, error: Exception) -> Response:
    return answer_of(refused(error if isinstance(error, CotenantError) else CotenantError(str(error))))


async def _malformed(_: Request, error: Exception) -> Response:
    told = error.errors() if isinstance(error, RequestValidationError) else ()
    found = [
        {
            "error": str(one["msg"]),
            "hint": "/api/openapi.json says what may stand there",
            "path": _path(one["loc"]),
        }
        for one in list(told)[:100]
    ]
    return faults(422, found)


def _path(place: Iterable[object]) -> str:
    steps = [step for step in place if step not in ("body", "query", "path")]
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{str(step)[:80]}" for step in steps)


async def _http(_: Request, error: Exception) -> Response:
    if not isinstance(error, StarletteHTTPException):
        return refusal(500, "a fault of ours")
    told = error.detail
    if isinstance(told, CotenantError):
        return faults(error.status_code, [{"error": told.message, "hint": told.hint, "path": told.path}])
    known = {404: "nothing stands at this address", 405: "this is asked in another way"}
    return refusal(error.status_code, known.get(error.status_code, str(told)))


async def _fault(_: Request, error: Exception) -> Response:
    return answer_of(broken(error))
