"""Connections that take their time, or too many of them: each is bounded, and those that ask are answered."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 10.0
MOST_CONNECTIONS = 480


class Patient(H11Protocol):
    """uvicorn's own connection, with a clock until a request's head is whole.

    Where as many are open as may be, the one that has kept us waiting for longest makes room for the next: without
    a request, with one whose body does not come, or with an answer that nobody fetches.
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

    @property
    def is_asked(self) -> bool:
        """Whether somebody may still want what we have to say."""
        return not self.is_quiet or self.flow.write_paused

    @property
    def is_theirs(self) -> bool:
        """Whether the next step is the other end's: to ask, to say the rest, to take what we say."""
        return self.cycle is None or self.is_quiet or self.cycle.more_body or self.flow.write_paused

    def _make_room(self) -> None:
        """Whoever asks nothing goes before whoever has begun to."""
        if len(self.connections) <= MOST_CONNECTIONS:
            return
        waited_for: list[Any] = [one for one in self.connections if isinstance(one, Patient) and one.is_theirs]
        oldest = min(waited_for, key=lambda one: (one is self, one.is_asked, one._quiet_since), default=self)
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
