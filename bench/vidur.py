"""Requests a CPU second beside Vidur (MIT), on the same lengths (the Azure conversation trace, to 4,096 tokens).

`--vidur DIR` is a checkout of microsoft/vidur with a `.venv` that has what it needs. Its attention tables are too
large for most mirrors; where Llama-3-8B's is missing a synthetic one is written, which changes its times but not
what simulating costs. Both rates are at the margin, (more - fewer requests) / (more - fewer CPU s), one after the
other in one run, on the same lengths, arrivals of the same rate and steps of the same size: its start and its
training are left out, as compiling is of ours. Predictions are kept in its `cache`, so run it once before.
"""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np

from bench.one_replica import costs_within
from bench.table import CannotRunError
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.fast import simulate
from cotenant.simulation.load import Limits, Requests

FEW, MANY, TURNS = 200, 3000, 3  # its own start takes seconds, and differs by seconds
OURS_FEW, OURS_MANY, RUNS = 200_000, 1_200_000, 5  # ours would be over too soon to be timed
RATE, LONGEST, CHUNK, BATCH = 6.45, 4096, 512, 512
_TRACE = Path("data/processed_traces/splitwise_conv.csv")
_TABLE = Path("data/profiling/compute/a100/meta-llama/Meta-Llama-3-8B/attention.csv")
_TIMES = ("attn_prefill", "attn_decode", "attn_kv_cache_save")
_ARGUMENTS = f"""
--replica_config_device a100 --replica_config_model_name meta-llama/Meta-Llama-3-8B
--cluster_config_num_replicas 1 --replica_config_tensor_parallel_size 1 --replica_config_num_pipeline_stages 1
--request_generator_config_type synthetic --length_generator_config_type trace
--trace_request_length_generator_config_max_tokens {LONGEST}
--trace_request_length_generator_config_trace_file ./{_TRACE}
--interval_generator_config_type poisson --poisson_request_interval_generator_config_qps {RATE}
--replica_scheduler_config_type sarathi --sarathi_scheduler_config_batch_size_cap {BATCH}
--sarathi_scheduler_config_chunk_size {CHUNK} --execution_time_predictor_config_type linear_regression
--no-metrics_config_store_plots --no-metrics_config_enable_chrome_trace
"""


def requests_per_cpu_s(folder: Path) -> float:
    """Vidur's rate at the margin, on this machine."""
    if not (folder / _TABLE).exists() or (folder / _TABLE).stat().st_size < 1000:
        _synthetic(folder / _TABLE)
    _cpu_s(folder, FEW)  # reads its files and its libraries into memory
    few, many = (median(_cpu_s(folder, count) for _ in range(TURNS)) for count in (FEW, MANY))
    if many <= few:
        raise CannotRunError("Vidur took no longer for more requests: the machine is too busy to tell")
    return (MANY - FEW) / (many - few)


def ours_per_cpu_s(folder: Path) -> float:
    """Ours at the margin, on the same work: its trace, shortened as it does, drawn at its rate."""
    limits = Limits(BATCH, CHUNK, 16, 28_000, LONGEST)
    costs = costs_within(limits)
    few, many = (_ours_cpu_s(folder, count, limits, costs) for count in (OURS_FEW, OURS_MANY))
    return (OURS_MANY - OURS_FEW) / (many - few)


def _ours_cpu_s(folder: Path, count: int, limits: Limits, costs: StepCosts) -> float:
    """The median of several warm runs."""
    asked, took = _work(folder, count), []
    for _ in range(RUNS + 1):
        start = process_time()
        simulate(asked, limits, costs)
        took.append(process_time() - start)
    return median(took[1:])


def _work(folder: Path, count: int) -> Requests:
    with (folder / _TRACE).open() as stream:
        rows = [(int(row["num_prefill_tokens"]), int(row["num_decode_tokens"])) for row in csv.DictReader(stream)]
    draw = np.random.default_rng(0)
    lengths = np.array(rows)[draw.integers(0, len(rows), count)]
    total = lengths.sum(axis=1, keepdims=True)
    lengths = np.maximum(1, lengths - np.ceil(np.maximum(0, total - LONGEST) * lengths / total).astype(np.int64))
    arrivals = np.cumsum(draw.exponential(1e9 / RATE, count))
    return Requests.of(arrivals.astype(np.int64), lengths[:, 0].copy(), lengths[:, 1].copy())


def ratio(folder: Path | None) -> tuple[float, Mapping[str, object]]:
    """Ours over Vidur's."""
    if folder is None:
        raise CannotRunError("give --vidur DIR")
    theirs, ours = requests_per_cpu_s(folder), ours_per_cpu_s(folder)
    return ours / theirs, {"vidur_per_cpu_s": round(theirs), "ours_per_cpu_s": round(ours)}


def _cpu_s(folder: Path, count: int) -> float:
    python = folder / ".venv" / "bin" / "python"
    number = ["--synthetic_request_generator_config_num_requests", str(count)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "WANDB_MODE": "disabled"}
    before = os.times()
    done = subprocess.run(
        [str(python), "-m", "vidur.main", *_ARGUMENTS.split(), *number],
        capture_output=True, text=True, cwd=folder, env=environment,
    )  # fmt: skip
    after = os.times()
    if done.returncode:
        raise CannotRunError(f"Vidur failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def _synthetic(file: Path) -> None:
    """Attention times of Llama-3-8B's shape in straight lines: of what is read and of what is held."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        shape = ("n_embd", "n_q_head", "n_kv_head", "block_size", "num_tensor_parallel_workers")
        load = ("kv_cache_size", "prefill_chunk_size", "batch_size")
        writer.writerow([*shape, *load, *(f"time_stats.{name}.median" for name in _TIMES)])
        for held in (0, *(64 << power for power in range(9))):
            for chunk in (64 << power for power in range(7)):
                row = (held, chunk, 1, 0.003 + 2e-9 * chunk * chunk + 1e-8 * held * chunk, 0.0, 0.002)
                writer.writerow([4096, 32, 8, 16, 1, *row])
            for batch in (1 << power for power in range(10)) if held else ():
                writer.writerow([4096, 32, 8, 16, 1, held, 0, batch, 0.0, 0.004 + 2e-6 * held * batch, 0.002])
