"""How fast and how small: `python -m bench.speed [--json]`.

Cold figures are whole processes started from here (interpreter included), the median of several after one that
warms the file cache and compiles modules, as an installation would have done (to a folder of its own, so that
nothing is written beside the sources). Memory is the child's own peak, as the kernel counts it.

Seconds are the processor's own, user and system: these processes neither wait nor run in parallel, so it is what a
clock on the wall shows on an idle machine, and it does not count others on a busy one. The wall's median and its
spread stand beside it. What is timed in process never meets a cache that an earlier pass filled.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata, util
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from bench.table import CannotRunError, Row, arguments, measured, show

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
GPU = "A100-80GB-SXM"
ESTIMATE = ["estimate", MODEL, "--gpu", GPU, "--max-model-len", "8192", "--max-num-seqs", "16", "--json"]
EXAMPLE = Path(__file__).parent.parent / "examples" / "a100-trio.yaml"
RUNS = 7
_ANSWERED = (0, 3)  # 3 is an answer: it does not fit

Measured = tuple[float, Mapping[str, object]]


def rows() -> list[Row]:
    """Every id of the contract's `speed`, in its order.

    Cold ones are measured first: the kernel counts a child's peak from its parent's size, which is small until
    something is imported here.
    """
    cold = [
        measured("estimate_cold_s", "s", "<= 0.5", lambda: _cold_estimate()[0]),
        measured("estimate_cold_mib", "MiB", "<= 100", lambda: _cold_estimate()[1]),
        measured("plan_example_s", "s", "<= 2", plan_example_s),
        measured("import_s", "s", "<= 0.2", import_s),
    ]
    return [
        measured("estimate_in_process_us", "us", "<= 1000", estimate_in_process_us),
        measured("candidate_us", "us", "<= 20", candidate_us),
        *cold,
        measured("installed_mb", "MB", "<= 300", installed_mb),
    ]


def estimate_in_process_us() -> Measured:
    """One estimate of a loaded model, settings never the same twice, so that no cache answers for it."""
    from cotenant.api import load_model
    from cotenant.catalogue.gpus import find_gpu
    from cotenant.catalogue.quantization import find_format
    from cotenant.domain.engine import EngineSettings
    from cotenant.engines import find_engine
    from cotenant.estimation.memory import estimate_memory

    model, gpu, (engine, version) = load_model(MODEL).spec, find_gpu(GPU), find_engine("vllm")
    plain = find_format("bf16")

    def once(number: int) -> None:
        settings = EngineSettings(max_model_len=4096 + 16 * number, max_num_seqs=16 + number % 50)
        estimate_memory(model, gpu, settings, engine=engine, version=version, format=plain)

    return _per_call_us(once, 300)


def candidate_us() -> Measured:
    """One of many sizes of one replica, judged together as `estimation.candidate_grid` does: the number of
    sequences, their length and the bytes of cache differ, and each gets its pool, its claim and whether it fits.

    Beside it, what a way of serving one of the example's models costs one by one, traffic and all.
    """
    import numpy as np

    from cotenant.api import load_model
    from cotenant.catalogue.gpus import find_gpu
    from cotenant.catalogue.quantization import find_format
    from cotenant.domain.engine import EngineSettings
    from cotenant.engines import find_engine
    from cotenant.estimation.candidate_grid import Replica, candidate_grid

    loaded, gpu, (engine, version) = load_model(MODEL).spec, find_gpu(GPU), find_engine("vllm")
    plain = find_format("bf16")
    seqs, lengths = np.arange(1, 257)[:, None], 2048 * np.arange(1, 65)

    def once() -> int:
        # A copy, because terms are kept by the identity of a model.
        replica = Replica(replace(loaded), gpu, EngineSettings(), engine, version, plain)
        grid = candidate_grid(replica, max_num_seqs=seqs, max_model_len=lengths, kv_bytes=seqs * 2**28)
        return grid.fits.size

    once()
    seconds, processor, sizes = _passes(once, 9)
    return median(processor) / sizes * 1e6, {
        "candidates": sizes,
        "wall_us": round(median(seconds) / sizes * 1e6, 2),
        "one_by_one_us": round(_way_us()),
    }


def _way_us() -> float:
    """One way of serving a model, among all ways that the example's models have on its cards."""
    from cotenant.api import load_fleet
    from cotenant.planning.candidates import all_ways

    def once() -> int:
        # Read anew, because what was sized is kept by the identity of a request.
        ways = all_ways(load_fleet(EXAMPLE))
        return sum(len(w.candidates) + sum(one.tensor_parallel_size > 0 for one in w.refusals) for w in ways)

    once()
    _, processor, ways = _passes(once, 5)
    _, reading, _ = _passes(lambda: len(load_fleet(EXAMPLE).models), 5)
    return (median(processor) - median(reading)) / ways * 1e6


def _passes(once: Callable[[], int], count: int) -> tuple[list[float], list[float], int]:
    """(seconds on the wall, seconds of the processor, what `once` counted) of `count` passes."""
    seconds, processor, counted = [], [], 0
    for _ in range(count):
        start, used = perf_counter(), process_time()
        counted = once()
        seconds.append(perf_counter() - start)
        processor.append(process_time() - used)
    return seconds, processor, counted


def plan_example_s() -> Measured:
    """The example of three models on one A100-80GB, cold."""
    if not EXAMPLE.is_file():
        raise CannotRunError(f"{EXAMPLE.name} is missing")
    found = _cold([sys.executable, "-m", "cotenant.cli", "plan", str(EXAMPLE), "--json"], runs=5)
    return _seconds(found, peak_mib=round(max(one.mib for one in found), 1))


def import_s() -> Measured:
    """`import cotenant` in a new interpreter."""
    found = _cold([sys.executable, "-c", "import cotenant"], runs=RUNS)
    bare = _cold([sys.executable, "-c", ""], runs=RUNS)
    return _seconds(found, interpreter_alone_s=round(median(one.cpu_s for one in bare), 4))


def installed_mb() -> Measured:
    """Every file of the base install: what `cotenant` requires without extras, and so on (10^6 bytes)."""
    sizes = {name: _size(name) for name in sorted(_closure("cotenant"))}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    return sum(sizes.values()) / 1e6, {
        "packages": len(sizes),
        "largest": ", ".join(f"{name} {sizes[name] / 1e6:.0f} MB" for name in largest),
    }


@cache
def _cold_estimate() -> tuple[Measured, Measured]:
    found = _cold([sys.executable, "-m", "cotenant.cli", *ESTIMATE], runs=RUNS)
    return _seconds(found), (median(one.mib for one in found), {"runs": RUNS})


@dataclass(frozen=True, slots=True)
class _Run:
    """One process: seconds on the wall, seconds of the processor (user and system), peak resident MiB."""

    seconds: float
    cpu_s: float
    mib: float


def _seconds(found: Sequence[_Run], **more: object) -> Measured:
    """The processor's median; the wall's median and spread beside it."""
    wall = sorted(one.seconds for one in found)
    return median(one.cpu_s for one in found), {
        "runs": len(found),
        "wall_s": round(median(wall), 3),
        "wall_best_s": round(wall[0], 3),
        "wall_worst_s": round(wall[-1], 3),
        **more,
    }


def _cold(command: list[str], *, runs: int) -> list[_Run]:
    """`runs` processes, after one that is not counted."""
    with TemporaryDirectory() as compiled:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled
        return [_process(command, environment) for _ in range(runs + 1)][1:]


def _process(command: list[str], environment: Mapping[str, str]) -> _Run:
    """Run once; memory and processor are of that child alone."""
    start = perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:  # fmt: skip
        complaint = process.stderr.read() if process.stderr else ""
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in _ANSWERED:
        last = complaint.strip().splitlines()[-1] if complaint.strip() else "no message"
        raise CannotRunError(f"exit status {process.returncode}: {last}")
    unit = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss is in bytes there, in KiB elsewhere
    return _Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit)


def _per_call_us(call: Callable[[int], None], times: int) -> Measured:
    """The median of `times` calls, each timed alone, in microseconds."""
    call(0)
    found = []
    for number in range(1, times + 1):
        start = perf_counter()
        call(number)
        found.append(perf_counter() - start)
    return median(found) * 1e6, {"calls": times, "p90_us": round(sorted(found)[int(0.9 * times)] * 1e6)}


def _closure(name: str) -> set[str]:
    """Installed distributions that `name` needs without extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        try:
            requires = metadata.requires(one) or []
        except metadata.PackageNotFoundError:  # a marker left it out on this platform
            continue
        found.add(one)
        waiting += [_name(text) for text in requires if "extra ==" not in text]
    return found


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", match.group()).lower() if match else ""


def _size(name: str) -> int:
    """Bytes on disk of a distribution's files; of an editable install, of the package that it points to."""
    files = [Path(str(file.locate())) for file in metadata.files(name) or []]
    if name == "cotenant":
        spec = util.find_spec("cotenant")
        files = [
            file
            for root in (spec.submodule_search_locations or [] if spec else [])
            for file in Path(root).rglob("*")
        ]
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    sys.exit(show(rows(), as_json=arguments(__doc__ or "").json))
