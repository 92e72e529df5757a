"""What a client asks for, read: its body, its priority, its deadline."""

from __future__ import annotations

import json
import re
from typing import Any

from aiohttp import web

from cotenant.edge.gateway.keys import Client
from cotenant.edge.gateway.refused import RefusedError

_WHOLE = re.compile(r"[+-]?[0-9]{1,7}")
_NUMBER = re.compile(r"[0-9.]{1,40}([eE][+-]?[0-9]{1,3})?s?")


MOST_VALUES = 2**20
"""Numbers, texts, lists and objects of one body: a prompt of a million token ids. Everybody else waits while they
are read, 0.1 to 0.5 s for so many; 32 MiB of empty lists took 10 s and more."""


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is. Raises RefusedError."""
    if has_more_values(body, MOST_VALUES):
        raise RefusedError(413, "request_too_large", f"a request may have {MOST_VALUES:,} values")
    try:
        given = json.loads(body.decode("utf-8"), object_pairs_hook=_once_each)  # other codings are not JSON's
    except (ValueError, RecursionError):
        raise RefusedError(400, "invalid_json", "the body is not JSON") from None
    if not isinstance(given, dict):
        raise RefusedError(400, "invalid_json", "the body is not a JSON object")
    return given


def has_more_values(body: bytes, most: int) -> bool:
    """Whether a body has more values than that, told without reading them: all but the first follow a comma, a
    bracket or a brace. Those within texts are counted only where they matter."""
    if len(body) <= most or _marks(body) <= most:
        return False
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")  # now each quotation mark begins or ends a text
    return bare.count(b'"') > 4 * most + 2 or _marks(b"".join(bare.split(b'"')[::2])) > most


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. A key that stands there twice is refused: we might read one, and the engine the other."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RefusedError(400, "invalid_json", "a key stands twice in one object of the body")
    return found


def priority_of(request: web.BaseRequest, client: Client) -> int | None:
    """X-Priority, up to what the client's key allows; None where it says nothing. Raises RefusedError."""
    told = request.headers.get("X-Priority")
    if told is None:
        return None
    wanted = int(told) if _WHOLE.fullmatch(told) else 10**9
    if abs(wanted) > 10**6:
        raise RefusedError(400, "invalid_priority", "X-Priority is a whole number")
    return wanted if client.priority is None else min(wanted, client.priority)


def deadline_of(request: web.BaseRequest, longest_s: float) -> float | None:
    """X-Request-Timeout in seconds; None where it says nothing. Raises RefusedError."""
    told = request.headers.get("X-Request-Timeout")
    if told is None:
        return None
    try:
        seconds = float(told.removesuffix("s")) if _NUMBER.fullmatch(told) else -1.0
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= longest_s:
        raise RefusedError(400, "invalid_timeout", f"X-Request-Timeout is 0 to {longest_s:g} seconds")
    return seconds
