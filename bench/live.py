"""The live gateway and its engines: `python -m bench.live [--json] [--full] [--litellm PROGRAM] [--llama-server
PROGRAM] [--models A.gguf,B.gguf]`.

By default the small version that CI runs: a few thousand seeds, a few hundred streams, stub engines. `--full` runs
100,000 seeds and 10,000 streams. What needs a program that is not given stays in the list with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from bench import live_gateway, live_memory, live_real, live_seeds, live_streams
from bench.table import Row, show


def main() -> int:
    """Measure and show."""
    told = _arguments()
    seeds, streams = (100_000, 10_000) if told.full else (told.seeds, told.streams)
    rows: list[Row] = []
    parts: tuple[tuple[str, Callable[[], list[Row]]], ...] = (
        ("memory", lambda: live_memory.rows(told.llama_server, told.models)),
        ("real", lambda: live_real.rows(told.llama_server, told.models, told.scale)),
        ("gateway", lambda: live_gateway.rows(told.litellm)),
        ("streams", lambda: live_streams.rows(streams, told.llama_server, told.models)),
        ("seeds", lambda: live_seeds.rows(seeds, told.workers, resume=told.resume)),
    )
    for name, make in parts:
        if told.only is None or name in told.only.split(","):
            rows += make()
    return show(rows, as_json=told.json)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="a list of rows instead of a table")
    parser.add_argument("--full", action="store_true", help="100,000 seeds and 10,000 streams")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--streams", type=int, default=400)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1) - 1))
    parser.add_argument(
        "--resume", action="store_true", help="seeds that the same source has run are not run again"
    )
    parser.add_argument("--litellm", type=Path, help="LiteLLM's program, in an environment of its own")
    parser.add_argument("--llama-server", type=Path, help="llama.cpp's server")
    parser.add_argument("--models", default="", help="two GGUF files, with a comma between them")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the requests of the swaps' mixes")
    parser.add_argument("--only", help="of memory, real, gateway, streams, seeds, with commas between them")
    parser.add_argument("--shared", type=Path, help="taken and not needed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
