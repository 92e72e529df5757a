"""The HTTP face: OpenAI's paths, health, metrics, a status page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError

from cotenant.edge.gateway.answers import error_event, models_body
from cotenant.edge.gateway.asked import deadline_of, parsed, priority_of
from cotenant.edge.gateway.core import Core, Ticket
from cotenant.edge.gateway.hands import EngineHands
from cotenant.edge.gateway.keys import Client, Keys
from cotenant.edge.gateway.openapi import BY_PATH, LONGEST_S, Operation, document, fault_of
from cotenant.edge.gateway.refused import RefusedError, refused
from cotenant.edge.gateway.relay import BrokenError, Relay
from cotenant.edge.gateway.status import status_document, status_page
from cotenant.edge.loopback import LOOPBACK
from cotenant.serving.effects import Refuse, Send

_CLOSES = (501, 505)  # what follows on the connection may be read in two ways


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may take: bytes of its body, seconds to send it, seconds to be answered at most; and bytes of
    all bodies together (`held_bytes`)."""

    body_bytes: int = 32 * 2**20
    held_bytes: int = 2**30
    body_s: float = 60.0
    longest_s: float = LONGEST_S


class Routes:
    """Handlers over one core."""

    def __init__(
        self, core: Core, hands: EngineHands, relay: Relay, *, keys: Keys | None, limits: Limits, local: bool
    ) -> None:
        self.core, self.hands, self.relay, self.keys, self.limits, self.local = (
            core,
            hands,
            relay,
            keys,
            limits,
            local,
        )
        self._created = int(time.time())
        self._held_bytes = 0
        self._others: dict[str, Callable[[str], web.Response]] = {
            "models": self._models,
            "model": self._model,
            "health": self._health,
            "metrics": self._metrics,
            "status": self._status,
            "status_json": self._status_json,
            "openapi": self._openapi,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Any request; nothing that a client sends ends in anything but an answer."""
        disarm = getattr(request.protocol, "disarm", None)
        if disarm is not None:
            disarm()
        try:
            return await self._route(request)
        except RefusedError as error:
            return refused(
                error.status, error.code, str(error), error.param, error.retry,
                allow=error.allow, close=error.status in _CLOSES,
            )  # fmt: skip
        except (HttpProcessingError, web.RequestPayloadError):
            return refused(400, "bad_request", "the body is no sound HTTP", close=True)

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        _check_framing(request)
        operation, argument = self._operation(request)
        if not operation.open:
            self._check_origin(request)
            client = self._client(request)
            if operation.name == "generate":
                return await self._generate(request, operation, client)
        return self._others[operation.name](argument)

    def _operation(self, request: web.BaseRequest) -> tuple[Operation, str]:
        """What is asked for, by the table, and the model in the path. Who may not ask learns nothing of it."""
        path, argument = request.path, ""
        if path.startswith("/v1/models/"):
            path, argument = "/v1/models/{model}", path.removeprefix("/v1/models/")
        methods = BY_PATH.get(path, {})
        found = methods.get("GET" if request.method == "HEAD" else request.method)
        if found is not None:
            return found, argument
        self._check_origin(request)
        self._client(request)
        if methods:
            words = f"{request.path[:100]} takes {' or '.join(methods)}"
            raise RefusedError(405, "method_not_allowed", words, allow=methods)
        raise RefusedError(404, "not_found", f"no {request.method} {request.path[:100]} here")

    # --- generation ---

    async def _generate(
        self, request: web.BaseRequest, operation: Operation, client: Client
    ) -> web.StreamResponse:
        body = await self._body(request)
        self._held_bytes += len(body)
        ticket: Ticket | None = None
        status = 499
        try:
            ticket = self._ticket(request, operation, body, client)
            self.core.ask(ticket)
            answer = await self._serve(ticket, request)
            status = answer.status if ticket.out is None or not ticket.recalled else 502
            return answer
        finally:
            self._held_bytes -= len(body)
            if ticket is not None:
                self.core.left(ticket)
                self.core.closed(ticket, status)

    async def _serve(self, ticket: Ticket, request: web.BaseRequest) -> web.StreamResponse:
        """Follow the router until the request has its answer."""
        while True:
            command = await ticket.next()
            if isinstance(command, Refuse):
                return await self._refuse(ticket, command)
            ticket.sent_s = ticket.sent_s or time.monotonic()
            answer = await self._attempt(ticket, request, command)
            if answer is not None:
                return answer

    async def _attempt(self, ticket: Ticket, request: web.BaseRequest, send: Send) -> web.StreamResponse | None:
        """One sending; None where another command follows."""
        url, key = self.hands.url(send.replica)
        ticket.relaying, ticket.recalled = True, False
        try:
            answer = await self.relay.send(ticket, request, url, key, self.hands.body(ticket, send.replica))
        except BrokenError as error:
            ticket.relaying = False
            suspect = error.suspect or self.hands.is_routed(send.replica)
            self.core.broke(ticket, str(error), suspect=suspect, full=error.full)
            return None
        except asyncio.CancelledError:
            ticket.relaying = False
            task = asyncio.current_task()
            if ticket.recalled and task is not None and task.uncancel() == 0:
                return None
            raise
        ticket.relaying = False
        self.core.finished(ticket)
        if ticket.out is not None:
            with contextlib.suppress(ConnectionError):
                await answer.write_eof()
        return answer

    async def _refuse(self, ticket: Ticket, refusal: Refuse) -> web.StreamResponse:
        """An error: an answer of its own, or the end of a stream that has begun."""
        if ticket.out is None:
            return refused(refusal.status, refusal.code, refusal.message, None, refusal.retry_after_s)
        ticket.recalled = True
        with contextlib.suppress(ConnectionError):
            await ticket.out.write(b"\n\n" + error_event(refusal.status, refusal.code, refusal.message))
            await ticket.out.write_eof()
        out: web.StreamResponse = ticket.out
        return out

    async def _body(self, request: web.BaseRequest) -> bytes:
        limit = self.limits.body_bytes
        if request.content_length is not None and request.content_length > limit:
            raise RefusedError(413, "request_too_large", f"a request may have {limit:,} bytes")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise RefusedError(415, "unsupported_encoding", "send the body as it is, not compressed")
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # as aiohttp's own handler does: the answer has not begun
        body = bytearray()
        deadline_s = deadline_of(request, self.limits.longest_s) or self.limits.longest_s
        try:
            async with asyncio.timeout(min(self.limits.body_s, deadline_s)):
                async for chunk in request.content.iter_any():
                    body += chunk
                    self._held_bytes += len(chunk)
                    if len(body) > limit:
                        raise RefusedError(413, "request_too_large", f"a request may have {limit:,} bytes")
                    if self._held_bytes > self.limits.held_bytes:
                        raise RefusedError(503, "overloaded", "too many long requests wait", retry=1)
        except TimeoutError:
            if deadline_s < self.limits.body_s:
                raise RefusedError(504, "deadline", "no whole request within the deadline") from None
            raise RefusedError(408, "request_too_slow", "the body did not arrive in time") from None
        finally:
            self._held_bytes -= len(body)
        return bytes(body)

    def _ticket(self, request: web.BaseRequest, operation: Operation, body: bytes, client: Client) -> Ticket:
        given = parsed(body)
        asked = given.get("model")
        if not isinstance(asked, str) or not asked:
            raise RefusedError(400, "invalid_model", "`model` must name a model", param="model")
        model = self.core.fleet.names.get(asked)
        if model is None:
            known = ", ".join(list(self.core.fleet.names)[:20])
            raise RefusedError(
                404, "model_not_found", f"no model {asked[:100]!r} here; there are {known}", param="model"
            )
        fault = fault_of(operation, given)
        if fault is not None:
            raise RefusedError(400, fault[0], fault[1], param=fault[2])
        return Ticket(
            self.core.number(), model=model, asked=asked, path=operation.path, body=body,
            stream=operation.streams and given.get("stream", False), client=client.name,
            priority=priority_of(request, client), deadline_s=deadline_of(request, self.limits.longest_s),
        )  # fmt: skip

    # --- who may ---

    def _client(self, request: web.BaseRequest) -> Client:
        if self.keys is None:
            return Client(request.remote or "")
        found = self.keys.client(request.headers.get("Authorization", ""))
        if found is None:
            raise RefusedError(401, "invalid_api_key", "a key is needed: Authorization: Bearer KEY")
        return found

    def _check_origin(self, request: web.BaseRequest) -> None:
        """A web page that a user of this machine has open must not reach a gateway without keys: neither under a
        name that was made to point here (DNS rebinding) nor from another origin."""
        if self.keys is not None or not self.local:
            return
        host = _bare_host(request.headers.get("Host", ""))
        origin = request.headers.get("Origin")
        foreign = origin is not None and _bare_host(origin.partition("://")[2]) not in LOOPBACK
        if host not in LOOPBACK or foreign:
            raise RefusedError(
                403, "foreign_origin", "without keys this gateway answers programs of this machine only"
            )

    # --- the rest ---

    def _health(self, _: str) -> web.Response:
        draining = self.core.router.floor.draining_ns is not None
        return web.json_response({"status": "draining" if draining else "ok"}, status=503 if draining else 200)

    def _models(self, _: str) -> web.Response:
        return web.Response(
            body=models_body(self.core.fleet.names, self._created), content_type="application/json"
        )

    def _model(self, name: str) -> web.Response:
        if name not in self.core.fleet.names:
            raise RefusedError(404, "model_not_found", f"no model {name[:100]!r} here", param="model")
        one = json.loads(models_body([name], self._created))["data"][0]
        return web.json_response(one)

    def _metrics(self, _: str) -> web.Response:
        return web.Response(body=self.core.figures.page(), headers={"Content-Type": "text/plain; version=0.0.4"})

    def _status(self, _: str) -> web.Response:
        return web.Response(
            text=status_page(self.core), content_type="text/html",
            headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
        )  # fmt: skip

    def _openapi(self, _: str) -> web.Response:
        return web.json_response(document(self.core.fleet.names, keys=self.keys is not None))

    def _status_json(self, _: str) -> web.Response:
        return web.json_response(status_document(self.core))


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _check_framing(request: web.BaseRequest) -> None:
    """Refuses what the next hop, or one before us, may read otherwise than we do (RFC 9112, 2.3 and 6.1): versions
    that are no HTTP/1, codings of the transfer beside or instead of `chunked`, and any in HTTP/1.0."""
    if request.version not in (HttpVersion10, HttpVersion11):
        raise RefusedError(505, "unsupported_version", "this server speaks HTTP/1.1")
    codings = ", ".join(request.headers.getall("Transfer-Encoding", ()))
    if codings and (codings.strip().lower() != "chunked" or request.version != HttpVersion11):
        raise RefusedError(501, "unsupported_transfer_encoding", "send the body with its length, or chunked")


def _bare_host(text: str) -> str:
    """A host without its port: ``[::1]:8000`` is ``::1``."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].lower()
