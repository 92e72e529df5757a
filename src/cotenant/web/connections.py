"""Connections that take their time, or too many of them: each is bounded, and those that ask are answered."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 10.0
MOST_CONNECTIONS = 480


class Patient(H11Protocol):
    """uvicorn's own connection, with a clock until a request's head is whole.

    Where as many are open as may be, the one that has been without a request for longest makes room for the next.
    """

    _clock: asyncio.TimerHandle | None = None
    _quiet_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """The clock starts when the connection does."""
        super().connection_made(transport)
        self._quiet_since = self.loop.time()
        self._make_room()
        self._arm()

    def data_received(self, data: bytes) -> None:
        """A new request's first bytes start it again."""
        if self._clock is None and self.is_quiet:
            self._arm()
        super().data_received(data)
        if not self.is_quiet:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        self._disarm()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """It waits again."""
        self._quiet_since = self.loop.time()
        super().on_response_complete()

    @property
    def is_quiet(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        if len(self.connections) <= MOST_CONNECTIONS:
            return
        quiet: list[Any] = [one for one in self.connections if isinstance(one, Patient) and one.is_quiet]
        oldest = min(quiet, key=lambda one: (one is self, one._quiet_since), default=self)
        self.connections.discard(oldest)
        oldest.transport.abort()

    def _arm(self) -> None:
        self._clock = self.loop.call_later(HEADERS_S, self._too_slow)

    def _disarm(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_slow(self) -> None:
        if self.is_quiet:
            self.transport.abort()
