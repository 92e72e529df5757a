"""One request as a client makes it, and how it ends for whoever reads all that comes."""

from __future__ import annotations

import asyncio


async def spoken(port: int, data: bytes, *, leaves: bool = False, deadline_s: float = 8.0) -> str:
    """How a chat request ends for a client that reads to the end, or leaves at once: ``answer``, ``error 503``,
    ``error in the stream``, ``left``; or as no client can tell: ``cut silently``, ``connection ended``."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"X-Request-Timeout: {deadline_s}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    try:
        writer.write(head.encode() + data)
        if leaves:
            await asyncio.sleep(0.05)
            return "left"
        answer = await reader.read(-1)
    finally:
        writer.close()
    return _end_of(answer)


def _end_of(answer: bytes) -> str:
    """What a client makes of all the bytes that came."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return "connection ended"
    status = head.split(b" ", 2)[1].decode("ascii", "replace")
    if status != "200":
        return f"error {status}" if b'"error"' in body else "cut silently"
    if b"text/event-stream" not in head:
        return "answer" if b'"choices"' in body else "cut silently"
    if b"data: [DONE]" in body:
        return "answer"
    if b'{"error"' in body:
        return "error in the stream"
    return "connection ended" if not body.endswith(b"0\r\n\r\n") else "cut silently"
