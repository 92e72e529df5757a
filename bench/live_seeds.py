"""Seeds of failing worlds, and the ten planted bugs: `bench.fault_world`, as many as are asked for.

Many seeds run compiled (`bench.fault_compiled`); the first of them then also run interpreted, and must end alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

from bench.fault_bugs import BUGS
from bench.fault_chunk import chunk
from bench.fault_compiled import build
from bench.fault_world import Violation, run
from bench.table import CannotRunError, Row, measured
from cotenant.errors import CheckError

_CHUNK = 100
_COMPILED = 20_000  # from so many seeds on compiling pays
_TRIES = 200  # seeds after which a planted bug counts as missed
_ROOT = Path(__file__).parents[1]
Found = tuple[int, float, list[str], str]


def seeds(count: int, workers: int, first: int = 0) -> tuple[float, Mapping[str, object]]:
    """How many seeds held, and how fast. Raises CannotRunError where compiled worlds go otherwise."""
    place, reason = _ROOT, ""
    if count >= _COMPILED:
        try:
            place = build()
        except CannotRunError as error:
            reason = str(error)
    began = time.monotonic()
    found = _all(place, count, workers, first)
    if place != _ROOT and chunk(first, min(_CHUNK, count))[3] != found[first][3]:
        raise CannotRunError("compiled worlds end otherwise than interpreted ones")
    broken = [line for one in found.values() for line in one[2]]
    cpu = sum(one[1] for one in found.values())
    details: dict[str, object] = {
        "asked": count,
        "broken": len(broken),
        "requests": sum(one[0] for one in found.values()),
        "seeds_per_cpu_s": round(count / cpu, 1),
        "wall_s": round(time.monotonic() - began, 1),
        "compiled": place != _ROOT,
    }
    details |= {"interpreted": reason} if reason else {}
    return count - len(broken), details | ({"first": broken[0]} if broken else {})


def _all(place: Path, count: int, workers: int, first: int) -> dict[int, Found]:
    """Chunks by their first seed, from processes that share the seeds out. Raises CannotRunError."""
    chunks = -(-count // _CHUNK)
    share = -(-chunks // max(1, workers)) * _CHUNK
    found: dict[int, Found] = {}
    threads, processes = [], []
    for start in range(first, first + count, share):
        words = (str(start), str(min(share, first + count - start)), str(_CHUNK))
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.fault_chunk", *words], cwd=place, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(place)},
        )  # fmt: skip
        processes.append(process)
        threads.append(Thread(target=_read, args=(process, start, found, count)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    if any(process.wait() for process in processes) or len(found) != chunks:
        raise CannotRunError(f"a worker ended early: {len(found)} of {chunks} chunks")
    return found


def _read(process: subprocess.Popen[str], start: int, found: dict[int, Found], count: int) -> None:
    """The lines of one worker; every 5,000 seeds are told on stderr."""
    for place, line in enumerate(process.stdout or ()):
        requests, cpu, broken, digest = json.loads(line)
        found[start + place * _CHUNK] = requests, cpu, broken, digest
        for one in broken:
            print(one, file=sys.stderr)
        if len(found) * _CHUNK % 5000 == 0:
            print(f"{len(found) * _CHUNK:,} of {count:,} seeds", file=sys.stderr, flush=True)


def planted() -> tuple[float, Mapping[str, object]]:
    """How many of the planted bugs are found, and by which seed at first."""
    found: dict[str, int] = {}
    for name, make in BUGS.items():
        for seed in range(_TRIES):
            try:
                run(seed, make)
            except (Violation, CheckError):
                found[name] = seed
                break
    return len(found), {"latest_seed": max(found.values(), default=None)}


def rows(count: int, workers: int) -> list[Row]:
    """The two rows. The reach is asked of a whole run; fewer seeds are told as what they are."""
    return [
        measured("fault_seeds", "seeds", ">= 100000", lambda: seeds(count, workers)),
        measured("planted_bugs_found", "bugs", ">= 10", planted),
    ]
