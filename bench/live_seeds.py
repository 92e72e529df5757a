"""Seeds of failing worlds, and the ten planted bugs: `bench.fault_world`, as many as are asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor

from bench.fault_bugs import BUGS
from bench.fault_world import Violation, run
from bench.table import Row, measured
from cotenant.errors import CheckError

_CHUNK = 250
_TRIES = 200  # seeds after which a planted bug counts as missed


def chunk(first: int, count: int) -> tuple[int, float, list[str]]:
    """(requests, seconds of processor, what was broken) over seeds from `first` on."""
    began, requests, broken = time.process_time(), 0, []
    for seed in range(first, first + count):
        try:
            requests += len(run(seed).asked)
        except (Violation, CheckError) as error:
            broken.append(f"seed {seed}: {error}")
    return requests, time.process_time() - began, broken


def seeds(count: int, workers: int, first: int = 0) -> tuple[float, Mapping[str, object]]:
    """How many seeds held, and how fast."""
    firsts = range(first, first + count, _CHUNK)
    with ProcessPoolExecutor(workers) as pool:
        found = list(pool.map(chunk, firsts, [min(_CHUNK, first + count - one) for one in firsts]))
    broken = [line for _, _, lines in found for line in lines]
    cpu = sum(one[1] for one in found)
    details: dict[str, object] = {
        "asked": count,
        "broken": len(broken),
        "requests": sum(one[0] for one in found),
        "seeds_per_cpu_s": round(count / cpu, 1),
    }
    return count - len(broken), details | ({"first": broken[0]} if broken else {})


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
