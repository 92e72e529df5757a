"""Worlds one after the other: `python -m bench.fault_chunk`, with a line `FIRST COUNT` on stdin for each chunk,
and a line of JSON back.

A process of its own, so that the same source runs interpreted or compiled (`bench.fault_compiled`).
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
import time

from bench.fault_world import Violation, run
from cotenant.errors import CheckError


def chunk(first: int, count: int) -> tuple[int, float, list[str], str]:
    """(requests, seconds of processor, what was broken, a digest of how every request ended) from `first` on."""
    began, requests, broken, digest = time.process_time(), 0, [], hashlib.sha256()
    for seed in range(first, first + count):
        try:
            world = run(seed)
        except (Violation, CheckError) as error:
            broken.append(f"seed {seed}: {error}")
            continue
        requests += len(world.asked)
        digest.update(repr([world.events, world.now, *(one.ended for one in world.asked.values())]).encode())
    return requests, time.process_time() - began, broken, digest.hexdigest()


def main() -> None:
    """Each chunk that stdin asks for."""
    gc.freeze()
    gc.set_threshold(100_000)  # a world is a few thousand objects in one circle: fewer, larger sweeps
    for line in sys.stdin:
        first, count = map(int, line.split())
        print(json.dumps([first, *chunk(first, count)]), flush=True)


if __name__ == "__main__":
    main()
