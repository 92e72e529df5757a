"""Clients that take their time, or too many connections: each is bounded, and those that behave are served.

A client that has sent all it has to send may close its side and still wait for its answer; one that has left looks
the same until something is written to it. Both are told apart by interim answers (100), which every client of
HTTP/1.1 skips (RFC 9110, 15.2): who has left answers them with a reset.

A connection without a whole request line and headers, and one that reads nothing of its answer, is closed. Where
as many are open as we can hold, the one that has been without a request for longest makes room for the next.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from cotenant.edge.gateway.answers import error_body

HEADERS_S = 10.0
UNREAD_S = 60.0
PROBES_S = (0.05, 0.2, 1.0)  # between interim answers; the last goes on
MOST_CONNECTIONS = 4096
_FILES_KEPT = 128  # for engines' logs, the journal, libraries


class Guarded(RequestHandler):
    """aiohttp's own connection, with a clock until its first whole request and for each one after, and another one
    while nothing of what it was sent is read."""

    __slots__ = ("_guard", "_last", "_probes", "_unread", "_unread_bytes")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The clock starts when the connection does."""
        super().connection_made(transport)
        self._guard: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._probes: asyncio.TimerHandle | None = None
        self._last: Any = None  # (message, body) of the request that came last
        self._arm()

    def data_received(self, data: bytes) -> None:
        """A new request's first bytes start it again. A body that stops being HTTP ends whoever reads it."""
        current = self._current_request
        if self._guard is None and current is None:
            self._arm()
        super().data_received(data)
        self._last = self._messages[-1] if self._messages else self._last
        fault = getattr(self._last[0], "exc", None) if self._messages and self._last else None
        unread = current is not None and not current.content.is_eof() and current.content.exception() is None
        if isinstance(fault, HttpProcessingError) and current is not None and unread:
            current.content.set_exception(fault)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Gone."""
        self.disarm()
        self._read_again()
        if self._probes is not None:
            self._probes.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """It sends nothing more. Whether the connection is kept: until it has its answer, where it asked whole."""
        super().eof_received()
        if not self._asked_whole():
            return False
        self._probe(0)
        return True

    def _asked_whole(self) -> bool:
        """Whether a whole request of HTTP/1.1 is under way."""
        idle = self._waiter is not None and not self._waiter.done()
        if idle or self._last is None:
            return False
        message, content = self._last
        return getattr(message, "version", HttpVersion10) >= HttpVersion11 and content.is_eof()

    def _probe(self, number: int) -> None:
        """An interim answer, and the next one later; none once the answer has begun, whose own bytes will tell."""
        current = self._current_request
        if current is not None:  # before its handler runs it would be dropped
            self.close()  # once what is under way has ended
        if self.transport is None or (current is not None and current.writer.output_size):
            return
        self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        wait = PROBES_S[min(number, len(PROBES_S) - 1)]
        self._probes = asyncio.get_running_loop().call_later(wait, self._probe, number + 1)

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
        self.logger.warning(code, exc_info=exc)
        return answer

    def disarm(self) -> None:
        """A whole request stands there."""
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None
        manager = self._manager
        if isinstance(manager, GuardedServer):
            manager.asked(self)

    @property
    def is_quiet(self) -> bool:
        """Whether no request is under way."""
        return self._current_request is None and not self._messages

    def _arm(self) -> None:
        self._guard = asyncio.get_running_loop().call_later(HEADERS_S, self._too_slow)

    def _too_slow(self) -> None:
        self._guard = None
        if self._current_request is None and self.transport is not None:
            self.transport.close()

    # --- who does not read ---

    def pause_writing(self) -> None:
        """As much is on its way as we hold for one client."""
        super().pause_writing()
        self._look_again()

    def resume_writing(self) -> None:
        """It reads."""
        self._read_again()
        super().resume_writing()

    def _look_again(self) -> None:
        self._unread_bytes = self._left_bytes()
        self._unread = asyncio.get_running_loop().call_later(UNREAD_S, self._not_read)

    def _not_read(self) -> None:
        if self._left_bytes() < self._unread_bytes:
            self._look_again()  # slow, but it reads
        elif self.transport is not None:
            self.transport.abort()

    def _left_bytes(self) -> int:
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def _read_again(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class GuardedServer(web.Server):
    """Hands out guarded connections, `most` at once."""

    def __init__(self, handler: Any, *, most: int = MOST_CONNECTIONS, **kwargs: Any) -> None:
        super().__init__(handler, **kwargs)
        self.most = most
        self._open: OrderedDict[RequestHandler, None] = OrderedDict()

    def __call__(self) -> RequestHandler:
        """One more connection."""
        return Guarded(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """One that is without a request makes room for it, the longest without first; else it has to go itself."""
        super().connection_made(handler, transport)
        if len(self._open) >= self.most:
            quiet = next((one for one in self._open if isinstance(one, Guarded) and one.is_quiet), None)
            if quiet is None or quiet.transport is None:
                transport.abort()
                return
            del self._open[quiet]
            quiet.transport.abort()
        self._open[handler] = None

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """One less."""
        self._open.pop(handler, None)
        super().connection_lost(handler, exc)

    def asked(self, handler: RequestHandler) -> None:
        """It has a request: of those that wait, others go first."""
        if handler in self._open:
            self._open.move_to_end(handler)


def most_connections() -> int:
    """How many clients we can hold: each takes a file, and another one to its engine. Allows ourselves as many
    files as the system lets us."""
    try:
        import resource
    except ImportError:
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS + _FILES_KEPT
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(16, min(MOST_CONNECTIONS, (soft - _FILES_KEPT) // 2))
