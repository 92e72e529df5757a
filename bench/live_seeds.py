"""Seeds of failing worlds, and the planted bugs: `bench.fault_world`, as many as are asked for.

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


def seeds(count: int, workers: int, first: int = 0, *, resume: bool = False) -> tuple[float, Mapping[str, object]]:
    """How many seeds held, and how fast. `resume`: chunks that the same source has run compiled are taken as they
    were found. Raises CannotRunError where compiled worlds go otherwise."""
    place, reason = _ROOT, ""
    if count >= _COMPILED or resume:
        try:
            place = build()
        except CannotRunError as error:
            reason = str(error)
    began = time.monotonic()
    kept = place.with_suffix(".seeds") if resume and place != _ROOT else None
    found = _kept(kept)
    wanted = {start: min(_CHUNK, first + count - start) for start in range(first, first + count, _CHUNK)}
    known = sum(1 for start in wanted if start in found)
    _run(place, {start: size for start, size in wanted.items() if start not in found}, workers, found, kept)
    mine = {start: found[start] for start in wanted if start in found}
    if len(mine) != len(wanted):
        raise CannotRunError(f"a worker ended early: {len(mine)} of {len(wanted)} chunks")
    if place != _ROOT and chunk(first, wanted[first])[3] != mine[first][3]:
        raise CannotRunError("compiled worlds end otherwise than interpreted ones")
    broken = [line for one in mine.values() for line in one[2]]
    cpu = sum(one[1] for one in mine.values())
    details: dict[str, object] = {
        "asked": count,
        "broken": len(broken),
        "requests": sum(one[0] for one in mine.values()),
        "seeds_per_cpu_s": round(count / cpu, 1),
        "wall_s": round(time.monotonic() - began, 1),
        "compiled": place != _ROOT,
    }
    details |= {"resumed_seeds": known * _CHUNK} if known else {}
    details |= {"interpreted": reason} if reason else {}
    return count - len(broken), details | ({"first": broken[0]} if broken else {})


def _kept(place: Path | None) -> dict[int, Found]:
    """Chunks of an earlier run by their first seed; a line that was cut off is left out."""
    found: dict[int, Found] = {}
    for line in place.read_text(encoding="ascii").splitlines() if place is not None and place.exists() else ():
        try:
            start, requests, cpu, broken, digest = json.loads(line)
        except ValueError:
            continue
        found[start] = requests, cpu, broken, digest
    return found


def _run(place: Path, wanted: Mapping[int, int], workers: int, found: dict[int, Found], kept: Path | None) -> None:
    """The chunks `wanted` (seeds by first seed) in processes that share them out, into `found`."""
    processes, threads, starts = [], [], list(wanted)
    for worker in range(min(workers, len(starts))):
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.fault_chunk"], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": str(place)},
        )  # fmt: skip
        asked = "".join(f"{start} {wanted[start]}\n" for start in starts[worker::workers])
        processes.append(process)
        threads.append(Thread(target=_read, args=(process, asked, found, kept)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    if any(process.wait() for process in processes):
        raise CannotRunError("a worker failed")


def _read(process: subprocess.Popen[str], asked: str, found: dict[int, Found], kept: Path | None) -> None:
    """The lines of one worker, kept as they come; every 5,000 seeds are told on stderr."""
    if process.stdin is not None:
        process.stdin.write(asked)  # some kB: a pipe holds them
        process.stdin.close()
    for line in process.stdout or ():
        start, requests, cpu, broken, digest = json.loads(line)
        found[start] = requests, cpu, broken, digest
        if kept is not None:
            with kept.open("a", encoding="ascii") as file:
                file.write(line)
        for one in broken:
            print(one, file=sys.stderr)
        if len(found) * _CHUNK % 5000 == 0:
            print(f"{len(found) * _CHUNK:,} seeds", file=sys.stderr, flush=True)


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


def rows(count: int, workers: int, *, resume: bool = False) -> list[Row]:
    """The two rows. The reach is asked of a whole run; fewer seeds are told as what they are."""
    return [
        measured("fault_seeds", "seeds", ">= 100000", lambda: seeds(count, workers, resume=resume)),
        measured("planted_bugs_found", "bugs", f">= {len(BUGS)}", planted),
    ]
