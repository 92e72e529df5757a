"""The server from its start to its end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from cotenant.errors import InputError
from cotenant.web.app import application
from cotenant.web.connections import Patient
from cotenant.web.state import Options

_DRAIN_S = 2


def run(options: Options, *, ready: Callable[[str], None] = lambda url: None) -> int:
    """Serve the page until SIGTERM or SIGINT. `ready` is told the address.

    Raises InputError where it cannot begin: the port is taken.
    """
    listening = _listen(options)
    app, _ = application(options)
    server = _Server(configured(app), lambda: ready(address(options, listening.getsockname()[1])))
    asyncio.run(server.serve(sockets=[listening]))
    return 0


def configured(app: ASGIApp) -> uvicorn.Config:
    """How uvicorn serves it: with bounds on heads, connections and their patience, and without WebSockets."""
    return uvicorn.Config(
        app, log_level="error", access_log=False, lifespan="on", server_header=False, date_header=True,
        timeout_keep_alive=30, timeout_graceful_shutdown=_DRAIN_S, limit_concurrency=512, ws="none", http=Patient,
        h11_max_incomplete_event_size=64 * 1024, proxy_headers=False,
    )  # fmt: skip


def address(options: Options, port: int) -> str:
    """Where the page is, once it listens on `port`."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{port}"


def _listen(options: Options) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        listening = socket.create_server((options.host, options.port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot listen on {options.host}:{options.port}: {reason}", hint="--port N") from None
    listening.setblocking(False)
    return listening


class _Server(uvicorn.Server):
    """Tells when it listens, and ends with status 0 where it was asked to."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, then `ready`."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: object) -> None:
        """The first signal drains, a second one does not wait; the process then ends by itself."""
        if self.should_exit and sig in (signal.SIGINT, signal.SIGTERM):
            self.force_exit = True
        self.should_exit = True
