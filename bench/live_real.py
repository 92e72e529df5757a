"""Two real models on real llama-servers: how a swap compares with a cold start, and how many swaps traffic costs.

`--llama-server` is any program that takes llama-server's flags (our launcher of the xllamacpp wheel is one); the
comparison with llama.cpp's router needs the original, whose router starts copies of itself.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench import live_swaps
from bench.live_bound import fewest_swaps
from bench.live_case import free_port
from bench.live_simulated import Profile, against, best, curve, profiles
from bench.live_swaps import NAMES, NOISE, Mix, Served, mixes
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
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        cold = sorted(start_s(found, model, free_port(), place, cold=True) for _ in range(3))[1]
        warm = sorted(start_s(found, model, free_port(), place, cold=False) for _ in range(3))[1]
    details = {
        "device": "CPU", "cold_s": round(cold[0], 2), "cold_cpu_s": round(cold[1], 2), "warm_s": round(warm[0], 2),
        "warm_cpu_s": round(warm[1], 2),
    }  # fmt: skip
    return warm[0] / cold[0], details


@dataclass(frozen=True, slots=True)
class Compared:
    """One mix: as it was run, ours, the router's, and what the simulator was told of the machine just before."""

    mix: Mix
    ours: Served
    router: Served
    measured: Mapping[str, Profile]

    @property
    def limits(self) -> dict[str, float]:
        """Of each model's 95th percentile, in seconds."""
        return {name: self.router.p95(name) * NOISE for name in NAMES}

    @property
    def bound(self) -> str:
        """What nobody could go below, in words: with the times measured, and with each a tenth shorter."""
        arrivals = [[at for at, model in self.mix.order if model == name] for name in NAMES]
        known = [self.measured[name] for name in NAMES]
        found = [
            fewest_swaps(
                arrivals, [share * one.serve_s for one in known],
                [share * (one.wake_s + other.sleep_s) for one, other in zip(known, known[::-1], strict=True)],
                list(self.limits.values()),
            )
            for share in (1.0, 0.9)
        ]  # fmt: skip
        return f"{found[0]} of the router's {self.router.swaps}, every time a tenth shorter {found[1]}"


@cache
def compared(program: Path | None, models: str, scale: float) -> tuple[Compared, ...]:
    """Every mix through the router, then through ours, as the simulator says: a machine that others use too is
    measured anew before each. Raises CannotRunError."""
    server, files = needed(program, models)
    found = []
    for mix in mixes(scale):
        router = live_swaps.theirs(server, files, mix)
        measured = profiles(server, files)
        chosen = best(mix, measured, {name: router.p95(name) for name in NAMES})
        ours = live_swaps.ours(server, files, chosen)
        print(f"{mix.name} {chosen.settings}: {live_swaps.told(ours, router)}", file=sys.stderr, flush=True)
        found.append(Compared(chosen, ours, router, measured))
    return tuple(found)


def rows(program: Path | None, models: str, scale: float = 1.0) -> list[Row]:
    """The rows of real engines; `scale`: so many times as many requests."""

    def swaps() -> tuple[float, Mapping[str, object]]:
        done = compared(program, models, scale)
        value, details = live_swaps.ratio([(one.mix, one.ours, one.router) for one in done])
        open_loops = [one for one in done if one.mix.order]
        more = {f"{one.mix.name}, all arrivals known beforehand": one.bound for one in open_loops}
        more |= {f"{one.mix.name}, simulated": curve(one.mix, one.measured) for one in open_loops}
        return value, {**details, **more, "load_average": round(os.getloadavg()[0], 1)}

    def lost() -> tuple[float, Mapping[str, object]]:
        done = compared(program, models, scale)
        asked = sum(sum(one.ours.how.values()) for one in done)
        return sum(one.ours.lost for one in done), {"requests": asked}

    def simulated(swapping: bool) -> tuple[float, Mapping[str, object]]:
        done = compared(program, models, scale)
        by_swaps, by_time = against([(one.mix, one.ours, one.measured) for one in done])
        return by_swaps if swapping else by_time

    return [
        measured("swaps_ratio", "x", "<= 0.5", swaps),
        measured("lost_requests", "requests", "<= 0", lost),
        measured("simulated_swaps", "x", "== 1", lambda: simulated(True)),
        measured("simulated_p95", "%", "<= 20", lambda: simulated(False)),
        measured("wake_ratio", "x", "", lambda: wake(program, models)),
    ]
