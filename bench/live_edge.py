"""Where the edge is, and whether a plan puts it there: one llama-server under a limit that the kernel keeps.

    python -m bench.live_edge --llama-server PROGRAM --model FILE.gguf [--budget 400MiB]

The estimate says which context is the longest that the budget holds, and the two ends of its interval. Then
servers are started in a cgroup of that budget with longer and shorter contexts, until the longest is found that
comes up and answers; beyond it the kernel kills them. Weights are read into memory of the process (`-lm none`),
since pages mapped from a file would be given back instead; what is mapped from program and libraries the kernel
charges to whoever read it first, so that part (measured) is taken off the limit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.live_cage import cage
from bench.live_case import free_port
from bench.table import CannotRunError
from cotenant.domain.estimate import Estimate
from cotenant.domain.interval import Interval
from cotenant.domain.running import Launch
from cotenant.domain.verification import Ask, Reading
from cotenant.edge.engines import programs
from cotenant.edge.verifying.engine import LiveEngine
from cotenant.edge.verifying.load import HttpLoad
from cotenant.errors import EngineError
from cotenant.units import MIB, format_bytes, parse_bytes

GRAIN = 256  # tokens: llama-server rounds contexts up to so many
_MOST = 2**17


@dataclass(frozen=True, slots=True)
class Edge:
    """Tokens of context: the longest that was `found` to answer, the longest `planned`, and by the ends of the
    estimate's interval; `file_bytes` were taken off the budget, `kills` counts the kernel's."""

    found: int
    planned: int
    low: int
    high: int
    file_bytes: int
    kills: int
    starts: int

    @property
    def holds(self) -> bool:
        """Whether it lies where the interval says, to a grain."""
        return self.low - GRAIN <= self.found <= self.high + GRAIN


@cache
def estimate(model: Path, context: int) -> Estimate:
    """Of a server with that context, one slot, small batches."""
    import cotenant

    told: dict[str, object] = {
        "n_gpu_layers": 0, "ubatch_size": 64, "batch_size": 64, "parallel": 1, "ctx_size": context,
    }  # fmt: skip
    if kind := programs.kind("llama.cpp"):
        told["program"] = kind
    return cotenant.estimate(str(model), gpu="RTX-3090", engine="llama.cpp", options=told, calibration=False)


def total(model: Path, context: int) -> tuple[int, int, int]:
    """Bytes in host memory: expected, and the ends of the interval."""
    host = estimate(model, context).host
    if host is None or host.runtime is None:
        raise CannotRunError(f"{model.name}: nothing of it would be in host memory")
    compute = host.computed or Interval.exact(host.compute)
    fixed = host.weights + host.kv_cache
    parts = (host.runtime, compute)
    return (
        fixed + sum(one.value for one in parts), fixed + sum(one.low for one in parts),
        fixed + sum(one.high for one in parts),
    )  # fmt: skip


def longest(model: Path, budget: int, end: int) -> int:
    """The longest context whose `total` (0 expected, 1 low, 2 high) the budget holds."""
    return _last(lambda grains: total(model, grains * GRAIN)[end] <= budget, _MOST // GRAIN) * GRAIN


def _last(holds: Callable[[int], bool], most: int, least: int = 0) -> int:
    """The last number from `least` on that holds, where all before it do; `least` is taken to."""
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if holds(middle) else (least, middle - 1)
    return least


def answers(model: Path, context: int, folder: Path) -> Reading | None:
    """What a server of that context holds after a request; None where it does not come to that."""
    expected = estimate(model, context)
    launch = Launch(
        "one", "one", "llama.cpp", str(expected.engine_version), str(model), expected.settings, free_port()
    )
    engine = LiveEngine(launch, log=folder / f"{context}.log", device_bytes=lambda _: None, start_s=180)
    load = HttpLoad({"one": engine}, seed=1, vocabulary={"one": expected.model.vocab_size}, timeout_s=180)
    try:
        engine.start()
        replies, _, _ = load.send([Ask("one", 128, 2)], concurrency={"one": 1}, stop=lambda *_: "")
        return None if replies[0].error else engine.reading()
    except EngineError:
        return None
    finally:
        engine.stop()


def find(program: Sequence[str], model: Path, budget: int) -> Edge:
    """The edge of that budget. Raises CannotRunError where no limit can be set, or nothing fits."""
    starts = 0
    with cage() as here, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs.tell({"llama.cpp": str(here.door(folder, program, "-lm", "none"))})
        free = answers(model, GRAIN, folder)
        if free is None:
            raise CannotRunError(f"{program[-1]} does not answer with {model.name}")
        here.limit(budget - free.file_bytes)

        def holds(grains: int) -> bool:
            nonlocal starts
            starts += 1
            return answers(model, grains * GRAIN, folder) is not None

        planned, low, high = (longest(model, budget, end) for end in (0, 2, 1))
        found = _last(holds, (high + high // 4) // GRAIN, max(1, (low - low // 4) // GRAIN)) * GRAIN
        return Edge(found, planned, low, high, free.file_bytes, here.kills(), starts)


def main() -> int:
    """Find it and say where the plan would have put it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-server", required=True, help="llama.cpp's server, or words that begin with one")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--budget", type=parse_bytes, default=400 * MIB)
    told = parser.parse_args()
    edge = find(told.llama_server.split(), told.model.resolve(), told.budget)
    verdict = "as planned" if edge.holds else "NOT as planned"
    print(
        f"{told.model.name} under {format_bytes(told.budget)}: {edge.found:,} tokens of context answer, one grain "
        f"more does not\nplanned {edge.planned:,}, from {edge.low:,} to {edge.high:,}: {verdict}\n({edge.starts} "
        f"starts, {edge.kills} killed; {format_bytes(edge.file_bytes)} mapped from program and libraries)"
    )
    return 0 if edge.holds else 3


if __name__ == "__main__":
    sys.exit(main())
