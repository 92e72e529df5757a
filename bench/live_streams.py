"""Streams while everything fails: engines killed, hung, out of memory, slow, cut off, talking nonsense; clients
that leave; the gateway itself killed and started again. Each stream must end in a whole answer or an honest error,
in time.

Nineteen of twenty on stub engines, three models on a budget for two, so that models swap all the while; the rest,
short ones, on real llama-servers (`bench.live_streams_real`), where they are given.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.live_case import MIB, Gateway, plan_document
from bench.live_ends import spoken
from bench.live_streams_real import on_servers
from bench.live_troubled import Case, Ends, through
from bench.table import CannotRunError, Row, measured

MODELS = ("alpha", "beta", "gamma")
FAILURES = ("hang", "die", "cut", "die-late", "stall", "garbage", "500", "not-json", "mute", "oom", "slow")
_PER_S = 60.0  # streams a second on stubs


def fail_stub(one: Gateway, rng: random.Random) -> None:
    """An engine is killed, or told to fail its next requests."""
    if rng.random() < 0.3:
        pids = one.engines()
        if pids:
            os.kill(rng.choice(pids), signal.SIGKILL)
        return
    told = {"fail": rng.choice(FAILURES), "times": rng.randrange(1, 3), "after": rng.randrange(3)}
    one.stub(rng.choice(MODELS), **told)


def on_stubs(count: int, seed: int = 0) -> dict[str, object]:
    """Streams on stub engines."""
    with tempfile.TemporaryDirectory() as folder:
        document = plan_document(dict.fromkeys(MODELS, 100 * MIB), 220 * MIB, slots=16)
        settings = ("--residency", "500ms", "--patience", "1s", "--drain", "2s", "--quiet")
        one = Gateway(Path(folder), document, *settings, stub=("--token-s", "0.01"))
        case = Case(MODELS, 8.0, _PER_S, 30, (0.5, 2.0), fail_stub, restarts=1 + count // 4000)
        return through(one, case, count, seed)[1]


def ended(count: int, program: Path | None = None, models: str = "") -> tuple[float, Mapping[str, object]]:
    """The share of streams that ended as they should; nothing where anything else was wrong."""
    real = count // 20
    details: dict[str, object] = {"streams": count}
    parts: list[Mapping[str, object]] = []
    try:
        parts.append(on_servers(real, program, models))
        details["real"] = parts[0]
    except CannotRunError as error:
        real = 0
        details["real"] = f"none: {error}"
    parts.append(on_stubs(count - real))
    details["stubs"] = parts[-1]
    if any(set(part) & {"overruns", "orphans", "exit_status"} for part in parts):
        return 0.0, details
    return _total(parts) / count, details


def _total(parts: Sequence[Mapping[str, object]]) -> int:
    return sum(one for part in parts if isinstance(one := part["ended"], int))


def resident(pid: int) -> int:
    """Resident kB of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


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


def rows(count: int, program: Path | None = None, models: str = "") -> list[Row]:
    """The two rows."""
    return [
        measured("streams_ended", "share", ">= 1", lambda: ended(count, program, models)),
        measured("leak", "%", "< 5", lambda: leak(min(1500, max(200, count // 4)))),
    ]
