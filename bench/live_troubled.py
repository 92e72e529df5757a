"""Streams through a gateway while something fails: clients come and leave, engines `fail`, the gateway itself
is killed and started again, and somebody looks at the ledger all the while.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.live_case import Gateway
from bench.live_ends import spoken

SLACK_S = 6.0  # beyond its deadline a stream counts as one without an end: clients share the processors too


@dataclass(frozen=True, slots=True)
class Case:
    """What streams ask, how often, and what goes wrong meanwhile. `most_tokens` of an answer; something fails
    every `gaps_s` seconds; `restarts`: how often the gateway is killed and started again."""

    models: tuple[str, ...]
    deadline_s: float
    per_s: float
    most_tokens: int
    gaps_s: tuple[float, float]
    fail: Callable[[Gateway, random.Random], None]
    restarts: int
    content: str = ""


@dataclass(slots=True)
class Ends:
    """How streams ended, and what ended in no way that a client can tell; the ledger as it was looked at."""

    deadline_s: float = 8.0
    how: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    down: list[tuple[float, float]] = field(default_factory=list)  # when there was no gateway
    failures: int = 0
    looks: int = 0
    overruns: list[str] = field(default_factory=list)

    def judge(self, how: str, began: float) -> None:
        """A connection may end without a word only where the gateway itself was killed meanwhile."""
        now = time.monotonic()
        self.how[how] += 1
        killed = any(first <= now and began <= last for first, last in self.down)
        if how in ("no end", "cut silently") or now - began > self.deadline_s + SLACK_S:
            self.bad.append(f"{how} after {now - began:.1f} s")
        elif how == "connection ended" and not killed:
            self.bad.append("the connection ended without a word")


async def stream(one: Gateway, case: Case, rng: random.Random, ends: Ends) -> None:
    """One client from its request to its end; it knocks again where nobody listens just now."""
    while ends.down and time.monotonic() < ends.down[-1][1]:
        await asyncio.sleep(0.05)
    began = time.monotonic()
    leaves = rng.random() < 0.1
    body = {
        "model": rng.choice(case.models), "stream": rng.random() < 0.8,
        "messages": [{"role": "user", "content": case.content}] if case.content else [],
        "max_tokens": rng.randrange(2, case.most_tokens),
    }  # fmt: skip
    data = json.dumps(body).encode()
    try:
        async with asyncio.timeout(case.deadline_s + SLACK_S):
            how = await spoken(one.port, data, leaves=leaves, deadline_s=case.deadline_s)
    except TimeoutError:
        how = "no end"
    except OSError:
        how = "connection ended"  # the gateway was killed: the client sees it at once
    ends.judge(how, began)


async def trouble(one: Gateway, case: Case, ends: Ends, rng: random.Random, until: float) -> None:
    """Something fails every now and then."""
    start = time.monotonic()
    moments = sorted(start + rng.uniform(0.1, 0.9) * (until - start) for _ in range(case.restarts))
    while time.monotonic() < until:
        await asyncio.sleep(rng.uniform(*case.gaps_s))
        ends.failures += 1
        if moments and time.monotonic() > moments[0]:
            moments.pop(0)
            await _restart(one, ends)
            continue
        with suppress(OSError, ValueError, KeyError):  # that engine is not up just now
            await asyncio.to_thread(case.fail, one, rng)


async def _restart(one: Gateway, ends: Ends) -> None:
    killed = time.monotonic()
    ends.down.append((killed, float("inf")))
    one.process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(one.process.wait)
    await asyncio.to_thread(one.start)
    ends.down[-1] = (killed, time.monotonic())


async def watch(one: Gateway, ends: Ends) -> None:
    """The ledger twice a second: what it says it gave, and what the processes that run were promised."""
    promised = {
        share["id"]: (share["bytes"], gpu["capacity_bytes"])
        for gpu in one.document["gpus"] for share in gpu["replicas"]
    }  # fmt: skip
    while True:
        await asyncio.sleep(0.5)
        with suppress(OSError, ValueError, KeyError):  # no gateway just now
            status = await asyncio.to_thread(one.status)
            ends.looks += 1
            for device in status["devices"]:
                if device["held_bytes"] > device["capacity_bytes"]:
                    ends.overruns.append(f"{device['held_bytes']} of {device['capacity_bytes']} bytes given")
            alive = [promised[name] for name, pid in one.entries() if Path(f"/proc/{pid}/exe").exists()]
            if alive and sum(size for size, _ in alive) > alive[0][1]:
                ends.overruns.append(f"{len(alive)} engines run at once")


async def _run(one: Gateway, case: Case, count: int, seed: int) -> Ends:
    rng, ends = random.Random(seed), Ends(case.deadline_s)
    span_s = max(20.0, count / case.per_s)
    until = time.monotonic() + span_s
    failing = asyncio.create_task(trouble(one, case, ends, random.Random(seed + 1), until))
    watching = asyncio.create_task(watch(one, ends))
    start, at, tasks = time.monotonic(), 0.0, []
    for _ in range(count):
        at += span_s / count * rng.uniform(0, 2)
        await asyncio.sleep(max(0.0, start + at - time.monotonic()))
        tasks.append(asyncio.create_task(stream(one, case, random.Random(rng.random()), ends)))
    await asyncio.gather(*tasks)
    await failing
    watching.cancel()
    return ends


def through(one: Gateway, case: Case, count: int, seed: int) -> tuple[Ends, dict[str, object]]:
    """All streams of a case through a gateway, which is stopped at the end; and what was wrong beside them."""
    began = time.monotonic()
    try:
        ends = asyncio.run(_run(one, case, count, seed))
    finally:
        code = one.stop(60)
    left = orphans(one.folder)
    wrong: dict[str, object] = {"overruns": ends.overruns[:2]} if ends.overruns else {}
    wrong |= {"orphans": left} if left else {}
    wrong |= {"exit_status": code} if code else {}
    wrong |= {"bad": ends.bad[:3]} if ends.bad else {}
    told = {
        "ended": sum(ends.how.values()) - len(ends.bad), "ends": dict(ends.how.most_common()),
        "failures": ends.failures, "ledger_looks": ends.looks, "wall_s": round(time.monotonic() - began),
    }  # fmt: skip
    return ends, told | wrong


def orphans(folder: Path) -> list[int]:
    """Processes that still run and were started with a path in this folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() in place.read_bytes():
                found.append(int(place.parent.name))
    return found
