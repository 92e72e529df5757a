"""Two real models on real llama-servers: how a swap compares with a cold start, and how many swaps traffic costs.

`--llama-server` is any program that takes llama-server's flags (our launcher of the xllamacpp wheel is one); the
comparison with llama.cpp's router needs the original, whose router starts copies of itself.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.live_case import MIB, Gateway, plan_document
from bench.live_ends import spoken
from bench.table import CannotRunError, Row, measured
from cotenant.domain.running import Command, EngineProcess, Health
from cotenant.edge.engines import find_driver, processes

FLAGS = (
    "-ngl",
    "0",
    "-c",
    "2048",
    "-np",
    "2",
    "-t",
    "1",
    "-fit",
    "off",
    "--no-warmup",
    "--no-repack",
    "--metrics",
)


def needed(program: Path | None, models: str) -> tuple[Path, list[Path]]:
    """The program and two models. Raises CannotRunError where they are not given."""
    files = [Path(one) for one in models.split(",") if one]
    if program is None or len(files) < 2:
        raise CannotRunError("needs --llama-server PROGRAM and --models A.gguf,B.gguf")
    missing = [str(one) for one in (program, *files) if not one.exists()]
    if missing:
        raise CannotRunError(f"no file {missing[0]}")
    return program, files


def cpu_s(process: EngineProcess) -> float:
    """Seconds of processor of a process, user and system."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_s(program: Path, model: Path, port: int, folder: Path, *, cold: bool) -> tuple[float, float]:
    """(wall, processor) seconds from a start to health; `cold` drops the model from the file cache first."""
    if cold:
        with model.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    url, driver = f"http://127.0.0.1:{port}", find_driver("llama.cpp")
    argv = (str(program), "-m", str(model), "--port", str(port), *FLAGS)
    began = time.monotonic()
    process = processes.launch(Command(argv), url=url, log=folder / "server.log")
    try:
        while driver.health(url, timeout_s=1) is not Health.READY:
            if not processes.alive(process) or time.monotonic() - began > 120:
                raise CannotRunError(f"{program} did not come up with {model.name}")
            time.sleep(0.01)
        return time.monotonic() - began, cpu_s(process)
    finally:
        processes.stop(process)


def wake(program: Path | None, models: str) -> tuple[float, Mapping[str, object]]:
    """Wall seconds of a start with the file cached over one without it, the larger model of the two."""
    found, files = needed(program, models)
    model = max(files, key=lambda one: one.stat().st_size)
    from bench.live_case import free_port

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        cold = sorted(start_s(found, model, free_port(), place, cold=True) for _ in range(3))[1]
        warm = sorted(start_s(found, model, free_port(), place, cold=False) for _ in range(3))[1]
    details = {
        "device": "CPU", "cold_s": round(cold[0], 2), "cold_cpu_s": round(cold[1], 2), "warm_s": round(warm[0], 2),
        "warm_cpu_s": round(warm[1], 2),
    }  # fmt: skip
    return warm[0] / cold[0], details


async def _ask(one: Gateway, model: str, how: Counter[str], seconds: list[float]) -> None:
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hi"}}], "max_tokens": 4}}'
    began = time.monotonic()
    how[await spoken(one.port, body.encode(), deadline_s=900)] += 1
    seconds.append(time.monotonic() - began)


async def _arrive(one: Gateway, order: Sequence[tuple[float, str]]) -> tuple[Counter[str], dict[str, list[float]]]:
    how: Counter[str] = Counter()
    seconds: dict[str, list[float]] = {model: [] for _, model in order}
    start = time.monotonic()
    tasks = []
    for at, model in order:
        await asyncio.sleep(max(0.0, start + at - time.monotonic()))
        tasks.append(asyncio.create_task(_ask(one, model, how, seconds[model])))
    await asyncio.gather(*tasks)
    return how, seconds


def arrivals(count: int, rate: float, seed: int) -> list[tuple[float, str]]:
    """Poisson arrivals, each for one of two models."""
    rng, at, found = random.Random(seed), 0.0, []
    for _ in range(count):
        at += rng.expovariate(rate)
        found.append((at, rng.choice(("alpha", "beta"))))
    return found


def through_gateway(
    program: Path, files: Sequence[Path], order: Sequence[tuple[float, str]], *flags: str
) -> dict[str, Any]:
    """Swaps, lost requests and p95 of each model through our gateway, on a budget for one model."""
    with tempfile.TemporaryDirectory() as folder:
        document = plan_document({"alpha": 400 * MIB, "beta": 400 * MIB}, 500 * MIB)
        for row, file in zip(document["replicas"], files, strict=False):
            row["checkpoint"] = str(file)
        words = ("--engine-binary", f"llama.cpp={program}", "--no-prestart", *flags)
        one = Gateway(Path(folder), document, *words)
        try:
            how, seconds = asyncio.run(_arrive(one, order))
            starts = one.logged().count('"engine_started"')
        finally:
            one.stop(60)
    p95 = {model: sorted(times)[int(0.95 * len(times))] for model, times in seconds.items() if times}
    return {"swaps": starts - 1, "lost": sum(how.values()) - how["answer"], "p95_s": p95}


def swaps(program: Path | None, models: str) -> tuple[float, Mapping[str, object]]:
    """Our swaps over those of a gateway that swaps for each request in turn."""
    needed(program, models)
    raise CannotRunError("needs llama-server's own router; the wheel's server cannot start copies of itself")


def lost(program: Path | None, models: str) -> tuple[float, Mapping[str, object]]:
    """Requests without an answer over a Poisson mix on two real models that take turns."""
    found, files = needed(program, models)
    told = through_gateway(found, files, arrivals(24, 1.0, seed=1))
    return told["lost"], {"requests": 24, "swaps": told["swaps"], "p95_s": told["p95_s"]}


def rows(program: Path | None, models: str) -> list[Row]:
    """The rows of real engines."""
    return [
        measured("swaps_ratio", "x", "<= 0.5", lambda: swaps(program, models)),
        measured("lost_requests", "requests", "<= 0", lambda: lost(program, models)),
        measured("wake_ratio", "x", "", lambda: wake(program, models)),
    ]
