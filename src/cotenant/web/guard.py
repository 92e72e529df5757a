"""What every request passes before anything of it is believed: whose page asks, under which name, how much comes.

Plain ASGI, outside the framework, so that nothing is read or parsed of what is refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cotenant.edge.loopback import LOOPBACK
from cotenant.web.documents import written

_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


@dataclass(frozen=True, slots=True)
class Rules:
    """`local`: only this machine's own names are ours. Else any bare address is (a name that was pointed here is
    how a page elsewhere would reach us) and the `names`. `body_bytes` by path, "" for the others."""

    local: bool = True
    names: frozenset[str] = frozenset()
    body_bytes: Mapping[str, int] = field(default_factory=lambda: {"": 4 * 2**20})
    body_s: float = 60.0
    held_bytes: int = 256 * 2**20  # of all bodies together


class Guard:
    """The application behind the rules."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refused = self._refusal(scope)
        if refused is not None:
            await _refuse(send, *refused)
            return
        await self._passed(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        headers = _single(scope)
        if headers is None:
            return 400, "a header that counts stands there twice", ""
        host = headers.get(b"host", "")
        if not self._is_ours(host):
            return 421, f"{host[:80]!r} is not a name of this server", "open it by the address that it printed"
        site = headers.get(b"sec-fetch-site", "none")
        if scope["method"] in ("GET", "HEAD"):
            visited = headers.get(b"sec-fetch-mode") == "navigate"  # somebody follows a link to us
            if site in ("same-origin", "none") or visited:
                return None
            return 403, "a page of elsewhere may not ask for this", ""
        if scope["method"] not in ("POST", "DELETE"):
            return 405, f"{scope['method'][:20]} is not answered here", ""
        origin = headers.get(b"origin")
        if site not in ("same-origin", "none") or (origin is not None and not _same(origin, host)):
            return 403, "a page of elsewhere may not ask for this", ""
        if headers.get(b"content-encoding", "identity").lower() != "identity":
            return 415, "bodies are read as they come, not unpacked", "send it without Content-Encoding"
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or len(length) > 15:
            return 400, "Content-Length is no number", ""
        if int(length) > self._most(scope):
            return 413, f"{int(length):,} bytes: at most {self._most(scope):,} are read here", ""
        return None

    def _most(self, scope: Scope) -> int:
        limits = self._rules.body_bytes
        return limits.get(scope["path"], limits[""])

    def _is_ours(self, host: str) -> bool:
        name = _name(host)
        if name is None:
            return False
        if name in LOOPBACK or name in self._rules.names:
            return True
        return not self._rules.local and _is_address(name)

    async def _passed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """With the whole body at hand, or none: what is too long or too slow never reaches the application."""
        held: list[int] = []
        try:
            await self._read_and_passed(scope, receive, send, held)
        finally:
            self._held_bytes -= sum(held)

    async def _read_and_passed(self, scope: Scope, receive: Receive, send: Send, held: list[int]) -> None:
        try:
            body = await self._body(scope, receive, held)
        except _TooMuchError:
            await _refuse(send, 503, "too much is being read at once", "try again in a few seconds")
            return
        except _TooLongError:
            await _refuse(send, 413, f"at most {self._most(scope):,} bytes are read here", "")
            return
        except TimeoutError:
            await _refuse(send, 408, "the request did not come to its end", "")
            return
        if body is None:
            return
        given = [body]

        async def whole() -> Message:
            if given:
                return {"type": "http.request", "body": given.pop(), "more_body": False}
            return await receive()

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        if scope["method"] == "HEAD":
            await self._app({**scope, "method": "GET"}, whole, _head_alone(dressed))
        else:
            await self._app(scope, whole, dressed)

    async def _body(self, scope: Scope, receive: Receive, held: list[int]) -> bytes | None:
        """The body; None where the client went away. `held` is told of every part that stays in memory."""
        parts, size, more = [], 0, scope["method"] not in ("GET", "HEAD")
        async with asyncio.timeout(self._rules.body_s):
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                held.append(len(parts[-1]))
                self._held_bytes += len(parts[-1])
                if self._held_bytes > self._rules.held_bytes:
                    raise _TooMuchError
                if size > self._most(scope):
                    raise _TooLongError
                more = message.get("more_body", False)
        return b"".join(parts)


def _head_alone(send: Send) -> Send:
    """Only the head of an answer to GET; what streams ends there."""
    ended = False

    async def head(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start":
            await send(message)
        elif not ended:
            ended = True
            await send({"type": "http.response.body", "body": b""})

    return head


class _TooLongError(Exception):
    """More came than may."""


class _TooMuchError(Exception):
    """More came from all together than may."""


def _single(scope: Scope) -> dict[bytes, str] | None:
    """The headers that decide, by name; None where one of them stands there twice."""
    found: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in (
            b"host",
            b"origin",
            b"content-length",
            b"sec-fetch-site",
            b"sec-fetch-mode",
            b"content-encoding",
        ):
            if name in found:
                return None
            found[name] = value.decode("latin-1")
    return found


_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([\w.-]{1,253}))(?::\d{1,5})?", re.ASCII)


def _name(host: str) -> str | None:
    """The host without its port, an IPv6 address without its brackets; None where it is neither."""
    match = _HOST.fullmatch(host)
    return None if match is None else (match[1] or match[2]).lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same(origin: str, host: str) -> bool:
    """Whether a page of `origin` came from `host` (a proxy in front may have spoken https)."""
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and rest.lower() == host.lower()


async def _refuse(send: Send, status: int, error: str, hint: str) -> None:
    body = written({"errors": [{"error": error, "hint": hint, "path": ""}]})
    headers: list[Any] = [
        (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"), (b"cache-control", b"no-store"), *_HEADERS,
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
