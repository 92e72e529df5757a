"""Short calls to an engine's HTTP: health, metrics, sleep. Small answers, a deadline, no redirects."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from cotenant.errors import EngineError

MOST_BYTES = 16 * 2**20
"""No status page or metrics of an engine comes near this; what is longer is refused."""


def call(
    url: str, path: str, *, method: str = "GET", body: object = None, timeout_s: float = 2.0, key: str = ""
) -> tuple[int, bytes]:
    """(status, body) of one request to `url` + `path`; `body` is sent as JSON. Raises EngineError where nothing
    answers, or answers too much."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EngineError(f"{url[:80]!r} is no http address")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=timeout_s)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, parts.path.rstrip("/") + path, data, headers)
        answer = connection.getresponse()
        found = answer.read(MOST_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        reason = "no answer in time" if isinstance(error, socket.timeout) else (str(error) or type(error).__name__)
        raise EngineError(f"{url}{path}: {reason}") from None
    finally:
        connection.close()
    if len(found) > MOST_BYTES:
        raise EngineError(f"{url}{path}: more than {MOST_BYTES >> 20} MiB came back")
    return answer.status, found


def call_json(
    url: str, path: str, *, method: str = "GET", body: object = None, timeout_s: float = 2.0, key: str = ""
) -> Any:
    """The JSON of a 200 answer. Raises EngineError for any other status, and for what is not JSON."""
    status, found = call(url, path, method=method, body=body, timeout_s=timeout_s, key=key)
    if status != 200:
        raise EngineError(f"{url}{path} answered {status}: {found[:200].decode('utf-8', 'replace')}")
    try:
        return json.loads(found)
    except (ValueError, RecursionError):
        raise EngineError(f"{url}{path}: what came back is not JSON") from None
