"""Clients that take their time: a connection that does not get a whole request line and headers out is closed."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from cotenant.edge.gateway.answers import error_body

HEADERS_S = 10.0
MOST_CONNECTIONS = 4096


class Guarded(RequestHandler):
    """aiohttp's own connection, with a clock until its first whole request, and for each one after."""

    __slots__ = ("_guard",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The clock starts when the connection does."""
        super().connection_made(transport)
        self._guard: asyncio.TimerHandle | None = None
        self._arm()

    def data_received(self, data: bytes) -> None:
        """A new request's first bytes start it again."""
        if self._guard is None and self._current_request is None:
            self._arm()
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Gone."""
        self.disarm()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP, and what is a fault of ours, in the shape of all other errors; the connection ends."""
        known = 400 <= status < 500
        code, words = (
            ("bad_request", "this is no sound HTTP request") if known else ("internal_error", "a fault of ours")
        )
        answer = web.Response(status=status, body=error_body(status, code, words), content_type="application/json")
        answer.force_close()
        self.logger.warning("%s", code, exc_info=exc)
        return answer

    def disarm(self) -> None:
        """A whole request stands there."""
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None

    def _arm(self) -> None:
        self._guard = asyncio.get_running_loop().call_later(HEADERS_S, self._too_slow)

    def _too_slow(self) -> None:
        self._guard = None
        if self._current_request is None and self.transport is not None:
            self.transport.close()


class GuardedServer(web.Server):
    """Hands out guarded connections, and no more than it can hold."""

    def __call__(self) -> RequestHandler:
        """One more connection."""
        return Guarded(self, loop=self._loop, **self._kwargs)
