"""Ten million requests: 20 models, two replicas each, on 8 cards, and a choice at every arrival.

The cards are A100-80GB; every model has the shape of Llama-3.1-8B in FP8, so five replicas take half of a card and
share the rest as KV cache. Lengths are the Azure conversation trace's where it is given, else log-normal; arrivals
are Poisson at the same rate for each model. The choice is the less loaded of a model's two replicas, which sit on
cards with different neighbours. Making the requests is not part of the time; the memory is the whole process's.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from bench.one_replica import costs_within
from cotenant.simulation import fleet_state as at
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.fleet import Site, simulate
from cotenant.simulation.load import Limits

MODELS, CARDS, REPLICAS = 20, 8, 2
REQUESTS = 10_000_000
RATE = 0.25  # requests/s a model: with contention replicas work six tenths of the time, and pace changes most
LIMITS = Limits(256, 8192, 16, 6_500, 32_768)
TRACE = Path("data") / "traces" / "AzureLLMInferenceTrace_conv.csv"


def table(count: int, trace: Path | None) -> Any:
    """Requests in order of arrival."""
    from cotenant.edge.traces import open_trace

    draw = np.random.default_rng(0)
    found = np.zeros((count, 8), np.int64)
    found[:, at.ARRIVAL] = np.cumsum(draw.exponential(1e9 / RATE / MODELS, count))
    found[:, at.MODEL] = draw.integers(0, MODELS, count)
    if trace is None:
        found[:, at.INPUT] = np.clip(draw.lognormal(6.6, 0.9, count), 1, 14_000)
        found[:, at.OUTPUT] = np.clip(draw.lognormal(4.9, 0.9, count), 1, 1_000)
    else:
        once = open_trace(trace)
        which = draw.integers(0, len(once.input_tokens), count)
        found[:, at.INPUT] = np.array(once.input_tokens)[which]
        found[:, at.OUTPUT] = np.maximum(1, np.array(once.output_tokens)[which])
    found[:, at.FIRST] = found[:, at.FINISH] = at.ABSENT
    return found


def sites(costs: StepCosts, *, contended: bool) -> tuple[list[Site], list[list[int]]]:
    """Two replicas of each model; without contention each has a card to itself."""
    found: list[Site] = []
    hosts: list[list[int]] = []
    for model in range(MODELS):
        hosts.append([len(found), len(found) + 1])
        shared = (2 * model % CARDS, (2 * model + 1 + 2 * (model // 4)) % CARDS)
        for replica in range(REPLICAS):
            found.append(Site(LIMITS, costs, (shared[replica] if contended else len(found),)))
    return found, hosts


def run(shared: Path | None, *, contended: bool, count: int = REQUESTS) -> tuple[float, Mapping[str, object]]:
    """CPU seconds on one core, and what was simulated."""
    places, hosts = sites(costs_within(LIMITS), contended=contended)
    simulate(table(1000, None), places, hosts)
    requests = table(count, None if shared is None else shared / TRACE)
    start = process_time()
    found = simulate(requests, places, hosts)
    took = process_time() - start
    state, end = found.state, int(found.state[:, at.LAST].max())
    wait = (requests[:, at.FIRST] - requests[:, at.ARRIVAL])[:: max(1, count // 100_000)] / 1e9
    return took, {
        "requests": count,
        "steps": int(state[:, at.STEP].sum()),
        "preemptions": int(state[:, at.PREEMPTIONS].sum()),
        "busy": round(float(state[:, at.BUSY].mean()) / end, 3),
        "slowdown": round(float(state[:, at.BUSY].sum() / state[:, at.ALONE_NS].sum()), 3),
        "ttft_p50_s": round(float(np.median(wait)), 3),
        "gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def alone(shared: Path | None, *, contended: bool) -> tuple[float, Mapping[str, object]]:
    """`run` in a process of its own, whose memory is only its own."""
    command = [sys.executable, "-m", "bench.large_run", str(shared or ""), str(int(contended))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    took, details = json.loads(done.stdout)
    return float(took), details


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]) if sys.argv[1] else None, contended=sys.argv[2] == "1")))
