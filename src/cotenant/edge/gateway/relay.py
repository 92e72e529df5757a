"""One request through one engine: bytes as they come, nothing buffered that is a stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp import web

from cotenant.edge.gateway.answers import error_body
from cotenant.edge.gateway.core import Core, Ticket

MOST_ANSWER_BYTES = 256 * 2**20
MOST_EVENT_BYTES = 16 * 2**20
_KEPT_S = 3.0  # uvicorn (vLLM, SGLang) and cpp-httplib (llama-server) close idle connections after 5 s
_ERROR_S = 2.0  # for what an engine has to say about an error of its own
_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")
_FIELDS = (b"data:", b":", b"event:", b"id:", b"retry:")
_DONE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][\r\n]")
_NOT_THE_CLIENTS = (401, 403, 408, 429)
"""Errors that a client did not make: it knows nothing of the engine's key and its queue."""
_FULL, _UNAVAILABLE = 429, 503


class BrokenError(Exception):
    """The engine did not answer, or not properly. `suspect`: the engine itself is in doubt; `full`: it is well and
    takes nothing more just now."""

    def __init__(self, reason: str, *, suspect: bool = True, full: bool = False) -> None:
        super().__init__(reason)
        self.suspect, self.full = suspect, full


class Relay:
    """Connections to engines."""

    def __init__(self, core: Core) -> None:
        self.core = core
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_S, ttl_dns_cache=60)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept-Encoding"), read_bufsize=2**16,
        )  # fmt: skip

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(
        self, ticket: Ticket, request: web.BaseRequest, url: str, key: str, body: bytes
    ) -> web.StreamResponse:
        """Send `body` for it, relay the answer. Raises BrokenError where the engine fails before it or within, and
        CancelledError where the client is gone."""
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        try:
            async with self._session.post(
                url + ticket.path, data=body, headers=headers, allow_redirects=False
            ) as answer:
                if answer.status != 200 and (not 400 <= answer.status < 500 or answer.status in _NOT_THE_CLIENTS):
                    reason = f"it answered {answer.status}: {await _words(answer)}"
                    raise BrokenError(reason, suspect=False, full=_says_full(answer))
                if answer.status == 200 and ticket.stream:
                    return await self._stream(ticket, request, answer)
                return await self._whole(answer)
        except aiohttp.ClientError as error:
            raise BrokenError(_reason(error)) from None
        except (OSError, ValueError) as error:
            raise BrokenError(str(error) or type(error).__name__) from None

    async def _whole(self, answer: aiohttp.ClientResponse) -> web.Response:
        """An answer in one piece, JSON or not an answer."""
        body = bytearray()
        async for chunk in answer.content.iter_any():
            body += chunk
            if len(body) > MOST_ANSWER_BYTES:
                raise BrokenError("its answer is too long", suspect=False)
        if answer.status != 200:
            return web.Response(
                status=answer.status, body=_clients_error(answer, bytes(body)), content_type="application/json"
            )
        if answer.content_type != "application/json" or body[:1] != b"{" or body.rstrip()[-1:] != b"}":
            raise BrokenError("its answer is not JSON")
        return web.Response(body=bytes(body), content_type="application/json")

    async def _stream(
        self, ticket: Ticket, request: web.BaseRequest, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Whole events as they come: half of one is never passed on, so that an error can follow. A stream that
        ends without [DONE] is no answer, whatever the connection says."""
        if answer.content_type != "text/event-stream":
            raise BrokenError("its stream has no events")
        out: web.StreamResponse | None = None
        held = tail = b""
        async for chunk in answer.content.iter_any():
            held += chunk
            end = _events_end(held)
            if not end and len(held) <= MOST_EVENT_BYTES:
                continue
            if not end or (out is None and not held.lstrip().startswith(_FIELDS)):
                raise BrokenError("its stream has no events", suspect=out is None)
            events, held = held[:end], held[end:]
            if out is None:
                out = web.StreamResponse(
                    headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
                )
                self.core.begun(ticket)
                with _clients_side():
                    await out.prepare(request)
                ticket.out = out
            ticket.events += _count(events)
            with _clients_side():
                await out.write(events)
            tail = (tail + events)[-256:]
        if out is None or not _DONE.search(tail):
            raise BrokenError("its stream ended before the answer did", suspect=out is None)
        return out


@contextmanager
def _clients_side() -> Iterator[None]:
    """What breaks in here is the client's connection, though aiohttp's errors are the same on both sides."""
    try:
        yield
    except (ConnectionError, aiohttp.ClientConnectionError):
        raise asyncio.CancelledError from None


def _says_full(answer: aiohttp.ClientResponse) -> bool:
    """Whether an engine is well and only takes nothing more now: 429 (TGI), or 503 with a time to come again (RFC
    9110, 15.6.4); without one, 503 is an engine that fails."""
    return answer.status == _FULL or (answer.status == _UNAVAILABLE and "Retry-After" in answer.headers)


def _events_end(held: bytes) -> int:
    """Where the last whole event ends; 0 where none does. (WHATWG HTML, server-sent events: a blank line ends one,
    and lines end with CR, LF or both.)"""
    found = 0
    for mark in _BLANK_LINES:
        place = held.rfind(mark, found)
        if place >= 0:
            found = place + len(mark)
    return found


def _count(events: bytes) -> int:
    """Events with data, the [DONE] left out. Line ends within JSON are escaped: what begins a line is an event."""
    marks = events.count(b"\ndata:") + events.startswith(b"data:")
    return marks - bool(_DONE.search(events[-64:]))


async def _words(answer: aiohttp.ClientResponse) -> str:
    """What an engine says about its error, as far as it says it soon."""
    try:
        async with asyncio.timeout(_ERROR_S):
            return _bare((await answer.content.read(2048)).decode("utf-8", "replace"))
    except (TimeoutError, aiohttp.ClientError):
        return ""


def _clients_error(answer: aiohttp.ClientResponse, body: bytes) -> bytes:
    """What the client did wrong, in the engine's words where they have the shape, else in that shape."""
    if answer.content_type == "application/json" and b'"error"' in body:
        return body
    return error_body(answer.status, "engine_refused", _bare(body[:2048].decode("utf-8", "replace")) or "refused")


def _bare(words: str) -> str:
    return " ".join(words.split())[:300]


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return "it takes no connection"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "its answer broke off"
    if isinstance(error, aiohttp.ClientOSError):
        return "the connection to it broke"
    return f"its answer is not HTTP ({type(error).__name__})"
