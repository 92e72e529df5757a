"""Short calls to an engine's HTTP: health, metrics, sleep. Small answers, one deadline, no redirects."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import time
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from cotenant.errors import EngineError, InputError

MOST_BYTES = 16 * 2**20
"""No status page or metrics of an engine comes near this; what is longer is refused."""

_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")


@dataclass(frozen=True, slots=True)
class Address:
    """Where an engine listens: `path` is what stands before each of its paths, without a slash at its end."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """As text, without what was only said for form."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.secure else ''}://{host}:{self.port}{self.path}"


def address(url: str) -> Address:
    """An engine's address, read strictly. Raises InputError for what is none, and for one that holds a password:
    it would stand in lists of processes and in logs."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(f"{url[:80]!r} is no http address") from None
    if "@" in parts.netloc:
        raise InputError("an engine's address holds no name or password", hint="--engine-keys FILE")
    host = parts.netloc.rpartition(":")[0] if port is not None else parts.netloc.removesuffix(":")
    sound = parts.scheme in ("http", "https") and _HOST.fullmatch(host) is not None and port != 0
    if not sound or parts.query or parts.fragment or re.search(r"[^!-~]", url):
        raise InputError(f"{url[:80]!r} is no http address", hint="http://HOST:PORT")
    secure = parts.scheme == "https"
    return Address(secure, host.strip("[]"), port or (443 if secure else 80), parts.path.rstrip("/"))


def call(
    url: str, path: str, *, method: str = "GET", body: object = None, timeout_s: float = 2.0, key: str = ""
) -> tuple[int, bytes]:
    """(status, body) of one request to `url` + `path`; `body` is sent as JSON. Raises EngineError where nothing
    answers, answers too much, or takes longer than `timeout_s` in all, however busily it drips."""
    end = time.monotonic() + timeout_s
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers["Content-Type"] = "application/json"
    connection: http.client.HTTPConnection | None = None
    whole: socket.socket | None = None
    try:
        place = address(url)
        kind = http.client.HTTPSConnection if place.secure else http.client.HTTPConnection
        connection = kind(place.host, place.port, timeout=timeout_s)
        connection.connect()
        whole = connection.sock
        connection.sock = cast(socket.socket, _Timed(whole, end))
        connection.request(method, place.path + path, data, headers)
        answer = connection.getresponse()
        found = answer.read(MOST_BYTES + 1)
        if answer.length and len(found) <= MOST_BYTES:
            raise http.client.IncompleteRead(found, answer.length)
    except InputError as error:
        raise EngineError(error.message) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else (str(error) or type(error).__name__)
        raise EngineError(f"{url}{path}: {reason[:200]}") from None
    finally:
        if connection is not None:
            connection.close()
        if whole is not None:
            whole.close()
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


class _Timed:
    """A socket as http.client uses it, with one deadline for all that is sent and read: a socket's own timeout
    begins anew with each byte, so that an engine which drips them would hold its caller for ever."""

    def __init__(self, sock: socket.socket, end_s: float) -> None:
        self._sock, self._end_s = sock, end_s

    def hurry(self) -> socket.socket:
        """The socket, with what is left of the time. Raises TimeoutError where nothing is."""
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._sock.settimeout(left_s)
        return self._sock

    def sendall(self, data: Any) -> None:
        """All of it, in time."""
        self.hurry().sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """What is read from."""
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """Nothing: whoever made the socket closes it."""


class _Reader(io.RawIOBase):
    """Reads a timed socket."""

    def __init__(self, timed: _Timed) -> None:
        self._timed = timed

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """What has come."""
        return self._timed.hurry().recv_into(buffer)
