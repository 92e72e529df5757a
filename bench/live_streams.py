"""Streams while everything fails: engines killed, hung, cut off, full, talking nonsense; clients that leave; the
gateway itself killed and started again. Each stream must end in a whole answer or an honest error, in time.

Stub engines in three models on a budget for two, so that models swap all the while.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.live_case import MIB, Gateway, plan_document
from bench.table import Row, measured

MODELS = ("alpha", "beta", "gamma")
DEADLINE_S, SLACK_S = 8.0, 6.0
FAILURES = ("hang", "die", "cut", "die-late", "stall", "garbage", "500", "not-json", "mute")


@dataclass(slots=True)
class Ends:
    """How streams ended, and what ended in no way that a client can tell."""

    how: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    down: list[tuple[float, float]] = field(default_factory=list)  # when there was no gateway

    def judge(self, how: str, began: float) -> None:
        """A connection may end without a word only where the gateway itself was killed meanwhile."""
        now = time.monotonic()
        self.how[how] += 1
        killed = any(first <= now and began <= last for first, last in self.down)
        if how in ("no end", "cut silently") or now - began > DEADLINE_S + SLACK_S:
            self.bad.append(f"{how} after {now - began:.1f} s")
        elif how == "connection ended" and not killed:
            self.bad.append("the connection ended without a word")


async def stream(one: Gateway, rng: random.Random, ends: Ends) -> None:
    """One client from its request to its end."""
    began = time.monotonic()
    leaves = rng.random() < 0.1
    body = {
        "model": rng.choice(MODELS), "messages": [], "stream": rng.random() < 0.8,
        "max_tokens": rng.randrange(2, 30),
    }  # fmt: skip
    data = json.dumps(body).encode()
    try:
        async with asyncio.timeout(DEADLINE_S + SLACK_S):
            how = await spoken(one.port, data, leaves=leaves)
    except TimeoutError:
        how = "no end"
    except OSError:
        how = "connection ended"  # the gateway was killed: the client sees it at once
    ends.judge(how, began)


async def spoken(port: int, data: bytes, *, leaves: bool = False, deadline_s: float = DEADLINE_S) -> str:
    """How a request ends for a client that reads all that comes, or leaves at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"X-Request-Timeout: {deadline_s}\r\nContent-Length: {len(data)}\r\n\r\n"
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


async def trouble(one: Gateway, ends: Ends, rng: random.Random, until: float, restarts: int) -> None:
    """Something fails every now and then."""
    moments = sorted(rng.random() for _ in range(restarts))
    start = time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(rng.uniform(0.1, 0.5))
        if moments and time.monotonic() > start + moments[0] * (until - start):
            moments.pop(0)
            killed = time.monotonic()
            ends.down.append((killed, float("inf")))
            one.process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(one.process.wait)
            await asyncio.to_thread(one.start)
            ends.down[-1] = (killed, time.monotonic())
            continue
        try:
            if rng.random() < 0.3:
                pids = one.engines()
                if pids:
                    os.kill(rng.choice(pids), signal.SIGKILL)
            else:
                told = {"fail": rng.choice(FAILURES), "times": rng.randrange(1, 3), "after": rng.randrange(3)}
                await asyncio.to_thread(one.stub, rng.choice(MODELS), **told)
        except (OSError, ValueError, KeyError):
            continue  # that engine is not up just now


def resident(pid: int) -> int:
    """Resident kB of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def _run(one: Gateway, count: int, seed: int, span_s: float, restarts: int) -> Ends:
    rng, ends = random.Random(seed), Ends()
    until = time.monotonic() + span_s
    failing = asyncio.create_task(trouble(one, ends, random.Random(seed + 1), until, restarts))
    tasks = []
    for _ in range(count):
        await asyncio.sleep(span_s / count * rng.uniform(0, 2))
        tasks.append(asyncio.create_task(stream(one, random.Random(rng.random()), ends)))
    await asyncio.gather(*tasks)
    await failing
    return ends


def ended(count: int, seed: int = 0) -> tuple[float, Mapping[str, object]]:
    """The share of streams that ended as they should."""
    with tempfile.TemporaryDirectory() as folder:
        document = plan_document(dict.fromkeys(MODELS, 100 * MIB), 220 * MIB, slots=4)
        settings = ("--residency", "500ms", "--patience", "1s", "--drain", "2s", "--quiet")
        one = Gateway(Path(folder), document, *settings, environment={"STUB_TOKEN_S": "0.01"})
        try:
            ends = asyncio.run(_run(one, count, seed, span_s=max(20.0, count / 25), restarts=1))
            status = one.status()
            sound = all(one["held_bytes"] <= one["capacity_bytes"] for one in status["devices"])
            pids = one.engines()
        finally:
            code = one.stop(30)
        orphans = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        details: dict[str, object] = {
            "streams": count, "ends": dict(ends.how.most_common()), "ledger_intact": sound,
            "orphans": len(orphans), "drained": code == 0,
        }  # fmt: skip
        if ends.bad:
            details["bad"] = ends.bad[:3]
        whole = sound and not orphans and code == 0
        return (sum(ends.how.values()) - len(ends.bad)) / count if whole else 0.0, details


def leak(count: int) -> tuple[float, Mapping[str, object]]:
    """Percent by which the gateway's memory grows over twice `count` streams, after `count` to warm up."""
    with tempfile.TemporaryDirectory() as folder:
        document = plan_document({"alpha": 100 * MIB}, 220 * MIB, slots=16)
        one = Gateway(Path(folder), document, "--quiet")
        try:
            one.wait_for("alpha", "ready")
            sizes = []
            for _ in range(3):
                asyncio.run(_well(one, count))
                sizes.append(resident(one.process.pid))
        finally:
            one.stop()
        return 100 * (sizes[-1] - sizes[0]) / sizes[0], {"kib": sizes, "streams_a_round": count}


async def _well(one: Gateway, count: int) -> None:
    ends, limit = Ends(), asyncio.Semaphore(16)
    body = json.dumps({"model": "alpha", "messages": [], "stream": True, "max_tokens": 8}).encode()

    async def client() -> None:
        async with limit:
            ends.how[await spoken(one.port, body)] += 1

    await asyncio.gather(*(client() for _ in range(count)))


def rows(count: int) -> list[Row]:
    """The two rows."""
    return [
        measured("streams_ended", "share", ">= 1", lambda: ended(count)),
        measured("leak", "%", "< 5", lambda: leak(max(200, count // 4))),
    ]
