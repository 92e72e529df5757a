"""How fast and how right the simulator is: `python -m bench.simulate [--json] [--only ID,ID] [--shared DIR] ...`.

Speed is CPU time of one process on one core, parsing left out: the Azure conversation trace, repeated and shifted
to a million requests, on one Llama-3.1-8B replica of an A100-80GB. The two cores are compared on random cases full
of ties (`bench.simulation_cases`). Rows that need a part of the simulator that is not built, or a program that was
not given, stay in the list with the reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from bench import aegaeon, vidur
from bench.table import CannotRunError, Measuring, Row, arguments, show, some

MODEL, GPU = "meta-llama/Llama-3.1-8B-Instruct", "A100-80GB-SXM"
TRACE = Path("data") / "traces" / "AzureLLMInferenceTrace_conv.csv"
REQUESTS = 1_000_000
CASES = 5_000
FLEETS = 5_000  # of several replicas on shared cards
RUNS = 7
_COLD_S, _COLD_ANSWER_S, _ANSWER_S = 48.0, 3.72, 0.92  # what vLLM's blog gives for its A100

Measured = tuple[float, Mapping[str, object]]
_ONE = """
from bench.simulate import tiny
tiny()
"""


def rows(folders: Mapping[str, Path | None], only: Sequence[str] = ()) -> list[Row]:
    """Every id of the contract's `simulate`, in its order; with `only` those of them."""
    shared, aegaeon_at = folders["shared"], folders["aegaeon"]
    asked: list[tuple[str, str, str, Measuring]] = [
        ("requests_per_cpu_s", "1/s", ">= 5000000", lambda: requests_per_cpu_s(shared)),
        ("vidur_ratio", "x", ">= 10000", lambda: vidur.ratio(folders["vidur"])),
        ("large_run_s", "s", "<= 10", lambda: large_run(shared, contended=False)),
        ("large_run_contended_s", "s", "<= 20", lambda: large_run(shared, contended=True)),
        ("large_run_gib", "GiB", "<= 2", lambda: large_run_gib(shared)),
        ("fast_equals_plain", "share", ">= 1", fast_equals_plain),
        ("distserve_percentiles", "%", "<= 2", lambda: distserve(folders["distserve"])),
        ("aegaeon_at_60", "share", ">= 0.975", lambda: aegaeon.at_sixty(aegaeon_at)),
        ("aegaeon_curve", "x", ">= 1", lambda: aegaeon.curve(aegaeon_at)),
        ("sleep_blog", "x", "<= 1.5", sleep_blog),
        ("runai_pair", "x", "", runai_pair),
        ("compile_s", "s", "<= 10", compile_s),
    ]
    return some(asked, only)


def requests_per_cpu_s(shared: Path | None) -> Measured:
    """Requests of a million over the median CPU time of several warm runs."""
    import numpy as np

    from bench.one_replica import costs_within
    from cotenant.edge.traces import open_trace
    from cotenant.simulation.fast import simulate
    from cotenant.simulation.load import Limits, Requests
    from cotenant.simulation.workload import traced

    _needs_numba()
    if shared is None:
        raise CannotRunError("give --shared DIR: the trace is not part of the repository")
    once = traced(open_trace(shared / TRACE))
    times = REQUESTS // len(once) + 1
    span = int(once.arrival_ns[-1]) * len(once) // (len(once) - 1)  # one mean gap after the last arrival
    requests = Requests.of(
        np.concatenate([once.arrival_ns + number * span for number in range(times)]),
        np.tile(once.input_tokens, times),
        np.tile(once.output_tokens, times),
    ).take(slice(0, REQUESTS))
    limits = Limits(256, 8192, 16, 28_000, 131_072)
    costs = costs_within(limits)
    simulate(requests, limits, costs)
    found = []
    for _ in range(RUNS):
        start = process_time()
        outcome = simulate(requests, limits, costs)
        found.append(process_time() - start)
    return len(requests) / median(found), {
        "requests": len(requests),
        "steps": outcome.steps,
        "best": round(len(requests) / min(found)),
        "busy": round(outcome.busy_ns / outcome.end_ns, 3),
    }


@lru_cache(maxsize=2)
def large_run(shared: Path | None, *, contended: bool) -> Measured:
    """CPU seconds of ten million requests on 20 models, with and without neighbours that slow each other."""
    from bench.large_run import alone

    _needs_numba()
    return alone(shared, contended=contended)


def large_run_gib(shared: Path | None) -> Measured:
    """The most memory of the two."""
    runs = [large_run(shared, contended=contended)[1] for contended in (False, True)]
    return max(float(str(one["gib"])) for one in runs), {}


def distserve(folder: Path | None) -> Measured:
    """Percentiles of TTFT and TPOT beside DistServe's simulator."""
    from bench.distserve import worst

    return worst(folder)


def sleep_blog() -> Measured:
    """The worst factor between wake times from bytes and links and those of vLLM's blog (A100, TP1, 2025-10-26).

    Of its five switches (A B A B A B; the first two starts are cold, given as 48 s each, as are 0.92 s for an
    answer of a warm model and 3.72 s of a cold one) a miss of 15 % counts as a factor of 1.5.
    """
    ours = [_swap_s(name, GPU) for name in ("Qwen/Qwen3-0.6B", "microsoft/Phi-3-vision-128k-instruct")]
    told = {"sleep-1": (0.26, 0.82, 112.6), "sleep-2": (0.85, 2.58, 124.6)}
    factors: list[float] = []
    details: dict[str, object] = {}
    for policy, (*wakes, total) in told.items():
        found = [times[policy][1] for times in ours]
        factors += [max(one / other, other / one) for one, other in zip(found, wakes, strict=True)]
        sleeps = 3 * ours[0][policy][0] + 2 * ours[1][policy][0]
        five = 2 * _COLD_S + 2 * sum(found) + sleeps + 2 * _COLD_ANSWER_S + 4 * _ANSWER_S
        factors.append(1 + abs(five / total - 1) / 0.3)
        details[f"{policy}_wakes_s"] = " / ".join(
            f"{one:.2f} ({other})" for one, other in zip(found, wakes, strict=True)
        )
        details[f"{policy}_five_s"] = f"{five:.0f} ({total}, {five / total - 1:+.0%})"
    cold = 6 * (_COLD_S + _COLD_ANSWER_S)
    factors.append(1 + abs(cold / 357.1 - 1) / 0.3)
    details["without_five_s"] = f"{cold:.0f} (357.1, {cold / 357.1 - 1:+.0%})"
    return max(factors), details


def runai_pair() -> Measured:
    """Cold start over swap-in of two models that take turns on an L40S, as Run:ai moves whole processes.

    Published (2024-12-09): 2-3 s, 140-208 s and 50-66 x, from a container that is not running to the first token.
    Each process has nine tenths of the card, so the one has to leave before the other comes. The start is the one
    that ships (`estimation.cold_start`), with nothing kept and at that pod's rate of storage; vLLM of that day
    (0.6) did not compile, later ones do: the range of ours.
    """
    from cotenant.catalogue.gpus import find_gpu
    from cotenant.domain.engine import Version
    from cotenant.engines.starting import starting
    from cotenant.estimation.cold_start import FIRST, MEASURED_BYTES, Kept, cold_start
    from cotenant.estimation.swapping import process_swap_seconds

    card = find_gpu("L40S")
    whole = process_swap_seconds(int(0.9 * card.driver_bytes.value), card)
    details: dict[str, object] = {"process_in_s": f"{whole:.2f}, {2 * whole:.2f} after the other one left (2-3)"}
    ratios = []
    for name in (MODEL, "mistralai/Mistral-7B-Instruct-v0.3"):
        weights = _weights_bytes(name)
        engines = [starting("vllm", Version.parse(version)) for version in ("0.6", "0.10")]
        starts = [
            cold_start(
                weights, how, kept=Kept.NOTHING, gpu=card, storage_bandwidth=MEASURED_BYTES / FIRST.weights_s
            )
            for how in engines
        ]
        again = cold_start(weights, engines[1], kept=Kept.ALL, gpu=card)
        ratios += [each.total_s / (2 * whole) for each in starts]
        first = starts[1]
        details[name.partition("/")[2]] = (
            f"cold {starts[0].total_s:.0f}-{first.total_s:.0f} s (140-208): engine {first.engine_s:.0f}, weights "
            f"{first.weights_s:.0f}, compile 0-{first.compile_s:.0f}, graphs {first.capture_s:.0f}; again "
            f"{again.total_s:.0f}"
        )
    details["ratios"] = f"{min(ratios):.0f}-{max(ratios):.0f} (50-66)"
    return min(ratios), details


def _swap_s(model: str, gpu: str) -> Mapping[str, tuple[float, float]]:
    """Seconds to (fall asleep, wake) by mode, of a model as it is stored, that has nine tenths of a card."""
    from cotenant.catalogue.gpus import find_gpu
    from cotenant.domain.engine import Version
    from cotenant.engines.starting import starting
    from cotenant.estimation.swapping import swap_seconds

    card, weights = find_gpu(gpu), _weights_bytes(model)
    how = starting("vllm", Version.parse("0.11"))
    return swap_seconds(weights, card, int(0.9 * card.driver_bytes.value) - weights, starting=how)


def _weights_bytes(model: str) -> int:
    from cotenant.api import load_model

    return 2 * load_model(model).spec.num_parameters


def fast_equals_plain() -> Measured:
    """The share of random cases on which both cores write the same log and the same times."""
    import numpy as np

    from bench.fleet_cases import differ, fleet_case
    from bench.simulation_cases import crowded_case, random_case
    from cotenant.simulation import fast, plain
    from cotenant.simulation.load import Outcome

    same = preemptions = 0
    cases = [*map(random_case, range(CASES)), *map(crowded_case, range(20))]
    for case in cases:
        slow, quick = plain.simulate(*case), fast.simulate(*case, log=True)
        preemptions += slow.preemptions
        same += all(
            np.array_equal(getattr(slow, name), getattr(quick, name)) for name in Outcome.__dataclass_fields__
        )
    fleets = [not differ(fleet_case(seed)) for seed in range(FLEETS)]
    share = (same + sum(fleets)) / (len(cases) + len(fleets))
    return share, {"cases": len(cases), "preemptions": preemptions, "fleets": len(fleets)}


def compile_s() -> Measured:
    """CPU seconds that a first run takes more than a second one, which finds the compiled core."""
    _needs_numba()
    with TemporaryDirectory() as folder:
        first, second = (_child_s({**os.environ, "NUMBA_CACHE_DIR": folder}) for _ in range(2))
    return first - second, {"first_s": round(first, 2), "cached_s": round(second, 2)}


def tiny() -> None:
    """Three tokens, compiled."""
    from cotenant.simulation.costs import StepCosts
    from cotenant.simulation.fast import simulate
    from cotenant.simulation.load import Limits, Requests

    simulate(Requests.of([0], [5], [3]), Limits(2, 8, 16, 8, 64), StepCosts.plane(1, 1, 1, 1, 1, 1))


def _child_s(environment: Mapping[str, str]) -> float:
    """CPU seconds of a new process that simulates next to nothing."""
    before = os.times()
    subprocess.run([sys.executable, "-c", _ONE], env=dict(environment), check=True, cwd=Path(__file__).parents[1])
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _needs_numba() -> None:
    try:
        import numba  # noqa: F401
    except ImportError:
        raise CannotRunError("numba is not installed: pip install '.[fast]'") from None


if __name__ == "__main__":
    given = arguments(__doc__ or "", some_rows=True)
    folders = {name: getattr(given, name) for name in ("shared", "vidur", "distserve", "aegaeon")}
    sys.exit(show(rows(folders, given.only), as_json=given.json))
