"""Two real models on a budget for one: our gateway beside llama-server's own router, the same requests to both.

Three mixes: two users who each wait for their answer and ask again (A B A B ... as fast as it goes), A B A B ...
by the clock, and Poisson arrivals. Our answers must come as soon: the 95th percentile of each model at most the
router's (5 % of noise allowed), with settings of `cotenant serve` alone (`--residency`, `--patience`, `--hold`).

llama-server's router swaps a model out as soon as it is idle and another is asked for; requests wait meanwhile
(tools/server/server-models.cpp, `server_lru_sched`, since August 2026; before, it swapped at each request).
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.live_case import MIB, Gateway, free_port, plan_document
from bench.live_ends import spoken
from bench.table import CannotRunError

NAMES = ("alpha", "beta")
FLAGS = ("-ngl", "0", "-c", "2048", "-np", "2", "-fit", "off", "--no-repack", "--cache-ram", "0")
THREADS = ("-t", "1")  # two of a small machine's processors would wait for each other
TOKENS_OUT = 6
QUESTION = "What is the tallest mountain on Earth?"
NOISE = 1.05
FLAGS_OF_STAYS = ("residency", "patience", "hold")
Stays = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Mix:
    """Requests of both models: (seconds, model) in order, or `users` of each model, `count` questions each, who
    ask again as soon as they are answered. `settings` are our gateway's (residency, patience, hold) in seconds."""

    name: str
    settings: Stays = (0.0, 9.0, 0.0)
    order: tuple[tuple[float, str], ...] = ()
    users: int = 0
    count: int = 0


@dataclass(slots=True)
class Served:
    """What came of a mix: swaps, how requests ended, seconds of each answer by model; our gateway's log of it, and
    when it began."""

    swaps: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)
    began: float = 0.0
    how: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in NAMES})

    @property
    def lost(self) -> int:
        """Requests without an answer."""
        return sum(self.how.values()) - self.how["answer"]

    def p95(self, model: str) -> float:
        """The nearest rank."""
        return p95_of(self.seconds[model])


def p95_of(seconds: Sequence[float]) -> float:
    """The nearest rank of 95 %."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


def mixes(scale: float = 1.0) -> tuple[Mix, ...]:
    """The three, `scale` times as many requests."""
    clock = tuple((place * 1.15, NAMES[place % 2]) for place in range(int(70 * scale)))
    rng, at, drawn = random.Random(1), 0.0, []
    for _ in range(int(70 * scale)):
        at += rng.expovariate(0.9)
        drawn.append((at, rng.choice(NAMES)))
    return (
        Mix("two users", users=1, count=int(60 * scale)),
        Mix("by the clock", order=clock),
        Mix("Poisson", order=tuple(drawn)),
    )


async def ask(port: int, model: str, found: Served, tokens: int = TOKENS_OUT) -> float:
    """One question to a model; nothing of its prompt is found in a cache."""
    body = {
        "model": model, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": tokens,
        "ignore_eos": True, "cache_prompt": False, "temperature": 0,
    }  # fmt: skip
    began = time.monotonic()
    found.how[await spoken(port, json.dumps(body).encode(), deadline_s=300)] += 1
    took = time.monotonic() - began
    found.seconds[model].append(took)
    return took


async def play(port: int, mix: Mix, found: Served) -> None:
    """All requests of a mix, the first model being awake."""
    start = time.monotonic()

    async def user(model: str) -> None:
        for _ in range(mix.count):
            await ask(port, model, found)

    async def once(at: float, model: str) -> None:
        await asyncio.sleep(max(0.0, start + at - time.monotonic()))
        await ask(port, model, found)

    work: list[Coroutine[object, object, None]] = [once(at, model) for at, model in mix.order]
    work += [user(model) for model in NAMES for _ in range(mix.users)]
    await asyncio.gather(*work)


def on_one_thread(folder: Path, program: Path) -> Path:
    """The program with one thread, the other flags behind: so a gateway that comes back knows its command."""
    script = folder / "llama-server-here"
    script.write_text(f'#!/bin/sh\nexec "{program.resolve()}" {" ".join(THREADS)} "$@"\n')
    script.chmod(0o755)
    return script


@contextmanager
def gateway(program: Path, files: Sequence[Path], settings: Stays) -> Iterator[Gateway]:
    """Ours, a budget for one of both models, the first one awake."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        document = plan_document(dict.fromkeys(NAMES, 400 * MIB), 500 * MIB)
        for row, file in zip(document["replicas"], files, strict=False):
            row["checkpoint"] = str(file.resolve())
        words = [f"--{name}={value}s" for name, value in zip(FLAGS_OF_STAYS, settings, strict=True)]
        words.append("--no-prestart")
        one = Gateway(folder, document, "--engine-binary", f"llama.cpp={on_one_thread(folder, program)}", *words)
        try:
            asyncio.run(ask(one.port, NAMES[0], Served()))
            yield one
        finally:
            one.stop(60)


def ours(program: Path, files: Sequence[Path], mix: Mix) -> Served:
    """A mix through our gateway."""
    found = Served()
    with gateway(program, files, mix.settings) as one:
        found.began = time.time()
        asyncio.run(play(one.port, mix, found))
        found.log = [json.loads(line) for line in one.logged().splitlines()]
        found.swaps = sum(line["event"] == "engine_started" for line in found.log) - 1
    return found


def theirs(program: Path, files: Sequence[Path], mix: Mix) -> Served:
    """A mix through llama-server's router. Raises CannotRunError where it does not come up."""
    found, port = Served(), free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models").mkdir()
        for model, file in zip(NAMES, files, strict=False):
            (folder / "models" / f"{model}.gguf").symlink_to(file.resolve())
        argv = [str(program.resolve()), "--models-dir", str(folder / "models"), "--models-max", "1"]
        argv += ["--host", "127.0.0.1", "--port", str(port), *FLAGS, *THREADS, "--ctx-checkpoints", "0"]
        with (folder / "router.log").open("wb") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            _wait_for(port, process)
            asyncio.run(ask(port, NAMES[0], Served()))
            asyncio.run(play(port, mix, found))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        text = (folder / "router.log").read_text(encoding="utf-8", errors="replace")
        found.swaps = text.count("spawning server instance with name=") - 1
    return found


def _wait_for(port: int, process: subprocess.Popen[bytes], wait_s: float = 60) -> None:
    import urllib.request

    end = time.monotonic() + wait_s
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise CannotRunError(
                    "llama-server's router does not come up: it needs the original program, which starts copies of"
                    " itself"
                ) from None
            time.sleep(0.05)
        else:
            return


def as_soon(ours_: Served, theirs_: Served) -> bool:
    """Whether each model's 95th percentile is at most the router's."""
    return all(ours_.p95(name) <= NOISE * theirs_.p95(name) for name in NAMES)


def told(ours_: Served, theirs_: Served) -> str:
    """A mix in words."""
    times = ", ".join(
        f"{name} p95 {ours_.p95(name):.2f} / {theirs_.p95(name):.2f} s (most {max(ours_.seconds[name]):.1f} / "
        f"{max(theirs_.seconds[name]):.1f})"
        for name in NAMES
    )
    lost = f", lost {ours_.lost} / {theirs_.lost}" if ours_.lost or theirs_.lost else ""
    return f"swaps {ours_.swaps} / {theirs_.swaps}, {times}{lost}"


def ratio(found: Sequence[tuple[Mix, Served, Served]]) -> tuple[float, Mapping[str, object]]:
    """The worst mix's swaps over the router's; a mix that is answered later than there counts as 1 at least."""
    values = {}
    for mix, ours_, theirs_ in found:
        value = ours_.swaps / max(1, theirs_.swaps)
        values[mix.name] = value if as_soon(ours_, theirs_) else max(1.0, value)
    details: dict[str, object] = {
        mix.name: ", ".join((told(ours_, theirs_), *map(_setting, FLAGS_OF_STAYS, mix.settings)))
        for mix, ours_, theirs_ in found
    }
    return max(values.values()), details


def _setting(name: str, seconds: float) -> str:
    return f"{name} {seconds:g} s"
