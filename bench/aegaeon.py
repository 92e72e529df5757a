"""Tokens on time when many models share 16 H100: Aegaeon's scheduler, a policy of ours, and its own simulator.

`--aegaeon DIR` is the artifact's `aegaeon` folder (Apache-2.0), whose `sim/simdata` holds step times and
workloads: steps are fitted to its profiles as it fits them, switches are weights over 16 GB/s, cache moves at that
rate too, lengths are drawn from the workload's own with its generator. Its own simulator, which gives 0.975 at 60
models, runs where the folder has a `.venv` with simpy, scikit-learn, aenum and matplotlib.

It asks for every decode step as if its batch were of -1 sequences (`predict(-1, -1, ...)` in `sim/worker.py`), so
the coefficient of the batch is taken off once and never counts: so it is here. In a round it sorts models by their
address in memory (`id`); to compare the two, both take them in the order in which they are first asked. With that
both write the same tokens at the same millisecond, but where a turn is of exactly the longest length: whether that
is 4,000 ms or 3,999 is rounding there.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from time import process_time

import numpy as np

from bench.table import CannotRunError
from cotenant.simulation.pooled import Pool, PooledModel, PooledRequest, Pooling, in_lines, on_time

RATE, CURVE = "0.1", (40, 50, 60, 70, 80)
POOLING = Pooling(prefills=6, decodes=10, move_s=0.5e-3 / 16)
_LINK_GB_S, _CARD_GB, _CACHE_SHARE = 16, 80, 0.8
_KINDS = {  # weights in GB, GiB of cache a token, longest sequence, profile: as the artifact has them
    "qwen": (14, 4 * 28 * 3584 / 2**30, 8192, "qwen2.5-7b"),
    "yi": (18, 4 * 48 * 4096 / 2**30, 4096, "yi-9b"),
    "llama": (26, 4 * 40 * 5120 / 2**30, 4096, "llama2-13b"),
}
_MIX = ["qwen"] * 6 + ["yi"] * 2 + ["llama"] * 2
_INPUTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_BATCHES = (1, 2, 4, 8, 16, *range(30, 210, 10))
_PEER = """
import json, sys
from sim import simulate, worker
from sim.simulate import main, parse_args, MixServePolicy
order, drawn = {}, simulate.gen_workload
def numbered(env, **options):
    asked = drawn(env, **options)
    for _, one in sorted(asked, key=lambda pair: pair[1].req_id):
        order.setdefault(one.model.name, len(order))
    return asked
simulate.gen_workload, worker.id = numbered, lambda model: order[model.name]
args = parse_args(['--num-models', '1', '--arrival-rate', '1'])
args.workload = sys.argv[1]
found = main(args, MixServePolicy(num_prefill_workers=6), silent=True)
good = sum(at <= one.time_arrival_ms + 10000 + 100 * token for one in found if one.is_finished
           for token, at in enumerate(one.time_each_token_ms))
print(json.dumps(good / sum(one.output_len for one in found)))
"""


@lru_cache(maxsize=4)
def kinds(folder: Path) -> dict[str, PooledModel]:
    """Each kind of model, its steps fitted to two thirds of its profiles (it keeps one to test itself)."""
    return {name: _kind(folder, *figures) for name, figures in _KINDS.items()}


def _kind(folder: Path, weights: int, cache: float, longest: int, profile: str) -> PooledModel:
    grid = [
        (given, batch)
        for given in _INPUTS
        for batch in _BATCHES
        if given * batch <= longest and (given + 10) * batch < 10240
    ]
    kept = [pair for number, pair in enumerate(grid) if number % 3]
    place = folder / "sim" / "simdata" / "execution" / profile / "h100"
    files = [(given, batch, place / f"i{given}b{batch}.json") for given, batch in kept]
    rows = [(given, batch, json.loads(file.read_text())) for given, batch, file in files if file.exists()]
    if not rows:
        raise CannotRunError(f"no profiles of {profile} in the folder")
    reading = _fitted([(g * b, g * g * b) for g, b, _ in rows], [row["avg_prefill_latency"] for *_, row in rows])
    decoding = _fitted([(g * b, b) for g, b, _ in rows], [row["avg_decode_latency"] for *_, row in rows])
    tokens = int((_CARD_GB - weights) * _CACHE_SHARE / cache)
    return in_lines(reading, _without_batch(decoding), weights / _LINK_GB_S, tokens)


def _fitted(terms: Sequence[tuple[int, int]], seconds: Sequence[float]) -> tuple[float, float, float]:
    columns = np.column_stack([np.ones(len(terms)), np.array(terms, float)])
    a, b, c = np.linalg.lstsq(columns, np.array(seconds), rcond=None)[0].tolist()
    return a, b, c


def _without_batch(line: tuple[float, float, float]) -> tuple[float, float, float]:
    """A decode step as its simulator asks for it: of -1 sequences, whatever the batch."""
    a, b, c = line
    return a - c, b, 0.0


def workload(file: Path) -> tuple[list[str], list[PooledRequest]]:
    """The kind of each model, in order of appearance, and two minutes of requests as the artifact draws them."""
    names: dict[str, int] = {}
    arrivals: dict[str, list[int]] = {}
    lengths = []
    for row in csv.reader(file.read_text().splitlines()[1:]):
        hour, minute, second = map(float, row[0].split(":"))
        at = int((hour * 3600 + minute * 60 + second) * 1000)
        if at >= 120_000:
            break
        names.setdefault(row[1], len(names))
        arrivals.setdefault(row[1], []).append(at)
        lengths.append((int(row[2]), int(row[3])))
    drawn = np.random.default_rng(seed=0).choice(np.arange(len(lengths)), size=len(lengths))
    kinds_of = [_MIX[number % len(_MIX)] for number in range(len(names))]
    found: list[PooledRequest] = []
    for name, number in names.items():
        longest = _KINDS[kinds_of[number]][2]
        for at in arrivals[name]:
            given, written = lengths[drawn[len(found)]]
            if given + written > longest:
                scale = longest / max(given + written + 32, 16384)
                given, written = int(given * scale), max(1, int(written * scale))
            found.append(PooledRequest(len(found), number, at, given, written))
    return kinds_of, found


def attained(folder: Path, file: Path, pooling: Pooling = POOLING) -> float:
    """The share of tokens on time, of one workload."""
    kinds_of, requests = workload(file)
    pool = Pool([kinds(folder)[kind] for kind in kinds_of], pooling)
    pool.run(requests)
    return on_time(pool, requests)


def file_of(folder: Path, models: int) -> Path:
    """The artifact's workload of that many models at 0.1 requests/s each."""
    return folder / "sim" / "simdata" / f"synth-{models}-{RATE}-1.0-1.0.csv"


def peer(folder: Path, file: Path) -> float:
    """What its own simulator says of the same workload."""
    python = folder / ".venv" / "bin" / "python"
    command = [str(python if python.exists() else sys.executable), "-c", _PEER, file.name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise CannotRunError(f"its own simulator failed: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.splitlines()[-1])


def at_sixty(folder: Path | None) -> tuple[float, Mapping[str, object]]:
    """Tokens on time at 60 models, by the better of two policies: Aegaeon's turns, and ours."""
    place = _given(folder)
    start = process_time()
    same = attained(place, file_of(place, 60))
    took = process_time() - start
    ours = attained(place, file_of(place, 60), replace(POOLING, urgent=True))
    return max(same, ours), {"as_it_schedules": round(same, 4), "ours": round(ours, 4), "cpu_s": round(took, 2)}


def curve(folder: Path | None) -> tuple[float, Mapping[str, object]]:
    """The least of (ours / its own simulator) over numbers of models; in the details that of its own scheduling as
    we replay it too. Its simulator takes a minute a point, so two points run at a time."""
    place = _given(folder)
    with ThreadPoolExecutor(2) as two:
        theirs = list(two.map(lambda models: peer(place, file_of(place, models)), CURVE))
    same = [attained(place, file_of(place, models)) for models in CURVE]
    ours = [attained(place, file_of(place, models), replace(POOLING, urgent=True)) for models in CURVE]
    details: dict[str, object] = {
        str(models): f"{own:.4f} its own, {again:.4f} the same here, {best:.4f} ours"
        for models, own, again, best in zip(CURVE, theirs, same, ours, strict=True)
    }
    details["same_over_its_own"] = round(min(one / own for one, own in zip(same, theirs, strict=True)), 5)
    return min(one / own for one, own in zip(ours, theirs, strict=True)), details


def _given(folder: Path | None) -> Path:
    if folder is None:
        raise CannotRunError("give --aegaeon DIR: the artifact's aegaeon folder")
    return folder


if __name__ == "__main__":
    for models in CURVE:
        file = file_of(Path(sys.argv[1]), models)
        start = process_time()
        one = attained(Path(sys.argv[1]), file)
        took = process_time() - start
        print(models, one, attained(Path(sys.argv[1]), file, replace(POOLING, urgent=True)), round(took, 2))
