"""Clients that cost little: requests at a fixed rate over kept connections, timed one by one."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from dataclasses import dataclass, field

_CLOSED = b"closed"


@dataclass(slots=True)
class Load:
    """What came of a load: seconds of each request answered with 200, and the other statuses."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    def quantile(self, share: float) -> float:
        """The nearest rank."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class _Line(asyncio.Protocol):
    """One kept connection: a request, its answer, the next request."""

    def __init__(self) -> None:
        self.done: asyncio.Future[int] | None = None
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """An answer ends where its Content-Length says."""
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        if len(body) >= length and self.done is not None and not self.done.done():
            self.buffer = b""
            self.done.set_result(int(head[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:
        """A request under way got no answer."""
        if self.done is not None and not self.done.done():
            self.done.set_result(0)


async def at_rate(port: int, body: dict[str, object], *, rate: float, seconds: float, key: str = "") -> Load:
    """`rate` requests a second for so long, whether or not earlier ones are answered."""
    loop = asyncio.get_running_loop()
    data = json.dumps(body).encode()
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    ).encode() + data
    found, idle = Load(), deque[_Line]()

    async def one() -> None:
        began = time.perf_counter()
        line = idle.popleft() if idle else (await loop.create_connection(_Line, "127.0.0.1", port))[1]
        line.done = loop.create_future()
        line.transport.write(request)  # type: ignore[attr-defined]
        status = await line.done
        found.statuses[status] = found.statuses.get(status, 0) + 1
        if status == 200:
            found.seconds.append(time.perf_counter() - began)
        if status:
            idle.append(line)

    tasks = []
    start = loop.time()
    for number in range(int(rate * seconds)):
        wait = start + number / rate - loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        tasks.append(loop.create_task(one()))
    await asyncio.gather(*tasks)
    for line in idle:
        line.transport.close()
    return found


async def at_once(port: int, body: dict[str, object], *, clients: int, requests: int, key: str = "") -> Load:
    """`requests` in all from so many clients, each with one under way."""
    loop = asyncio.get_running_loop()
    data = json.dumps(body).encode()
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    ).encode() + data
    found = Load()
    left = requests

    async def client() -> None:
        nonlocal left
        line = (await loop.create_connection(_Line, "127.0.0.1", port))[1]
        while left > 0:
            left -= 1
            began = time.perf_counter()
            line.done = loop.create_future()
            line.transport.write(request)  # type: ignore[attr-defined]
            status = await line.done
            found.statuses[status] = found.statuses.get(status, 0) + 1
            if status == 200:
                found.seconds.append(time.perf_counter() - began)
            if not status:
                line = (await loop.create_connection(_Line, "127.0.0.1", port))[1]
        line.transport.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return found
