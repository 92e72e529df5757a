"""TTFT and TPOT percentiles beside DistServe's own simulator, on the same requests with its own coefficients.

`--distserve DIR` is a checkout of LLMServe/DistServe (Apache-2.0); its `simdistserve` needs simpy and pandas
(a `.venv` in it is used where there is one). What
it adds to the coefficients is taken over: 2 ms and 0.1 us a token for its cluster manager, 1 ms for its pipeline,
50,000 tokens a decode batch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.table import CannotRunError
from cotenant.simulation.apart import Line, Split, simulate
from cotenant.simulation.load import Outcome, Requests

MODEL, COUNT, PERCENTS = "facebook/opt-13b", 500, (50, 90, 95, 99)
RATES = (1.0, 3.0)  # requests/s: nearly idle, and near the edge of one prefill instance
FS_PER_MS = 10**12
_PEER = """
import json, sys
from simdistserve.benchmarks.simulate_dist import parse_args, main
outputs = {}
main(parse_args(['--model', sys.argv[1], '--N', sys.argv[3], '--arrival', 'custom', '--workload', sys.argv[2],
                 '--tp-prefill', '1', '--tp-decode', '1']), outputs)
found = outputs['per_request_latency_df']
print(json.dumps([found['first_token_latency'].tolist(), found['tpot'].tolist()]))
"""


def split(folder: Path) -> Split:
    """One instance of either kind on one card each, with the coefficients of the checkout."""
    profiles = folder / "simdistserve" / "estimators" / "profile_data"
    rows = (profiles / "max_num_tokens.csv").read_text().splitlines()
    tokens = next(int(row.split(",")[3]) for row in rows if row.startswith(f"{MODEL},1,1,"))
    times = json.loads((profiles / "profiler-a100-80g.distserve.json").read_text())[MODEL]["1"]
    a, b, c = times["prefill"]
    return Split(
        prefills=1,
        decodes=1,
        prefill_tokens=tokens,
        decode_tokens=50_000,
        prefill=_line(a + 3, b + 1e-4, c),
        decode=_decode(times["decoding_smallbs"]),
        decode_large=_decode(times["decoding_largebs"]),
        threshold=times["decoding_large_small_bs_threshold"],
    )


def _decode(coefficients: Sequence[float]) -> Line:
    """Its overhead counts the context before the step, ours the one after it: a token less for each sequence."""
    a, b, c = coefficients
    return _line(a + 2, b + 1e-4, c - 1e-4)


def _line(*milliseconds: float) -> Line:
    base, token, other = (round(one * FS_PER_MS) for one in milliseconds)
    return base, token, other


def requests(rate: float) -> Requests:
    """Poisson arrivals, lengths like a chat's. Each gets a token more than DistServe counts: the first."""
    draw = np.random.default_rng(1)
    arrivals = np.cumsum(draw.exponential(1e9 / rate, COUNT)).astype(np.int64)
    given = np.clip(draw.lognormal(5.3, 1.0, COUNT), 4, 2000).astype(np.int64)
    written = np.clip(draw.lognormal(5.2, 0.8, COUNT), 2, 1000).astype(np.int64)
    return Requests.of(arrivals, given, written + 1)


def peer(folder: Path, asked: Requests) -> tuple[list[float], list[float]]:
    """Seconds to the first token, and for each further one, as DistServe's simulator has them."""
    with TemporaryDirectory() as place:
        file = Path(place) / "requests.json"
        rows = zip(asked.arrival_ns, asked.input_tokens, asked.output_tokens, strict=True)
        file.write_text(
            json.dumps(
                [{"start_time": a / 1e9, "prompt_len": int(p), "output_len": int(o) - 1} for a, p, o in rows]
            )
        )
        done = subprocess.run(
            [_python(folder), "-c", _PEER, MODEL, str(file), str(len(asked))],
            capture_output=True, text=True, cwd=folder, env={"PYTHONPATH": str(folder)},
        )  # fmt: skip
    if done.returncode:
        raise CannotRunError(f"DistServe's simulator failed: {done.stderr.strip().splitlines()[-1]}")
    first, each = json.loads(done.stdout.splitlines()[-1])
    return [one / 1e3 for one in first], [one / 1e3 for one in each]


def _python(folder: Path) -> str:
    """The checkout's own interpreter, where it has one."""
    own = folder / ".venv" / "bin" / "python"
    return str(own if own.exists() else sys.executable)


def times(asked: Requests, found: Outcome) -> tuple[list[float], list[float]]:
    """The same two of ours."""
    first = (found.first_token_ns - asked.arrival_ns) / 1e9
    each = (found.finish_ns - found.first_token_ns) / 1e9 / (asked.output_tokens - 1)
    return first.tolist(), each.tolist()


def worst(folder: Path | None) -> tuple[float, Mapping[str, object]]:
    """The greatest difference of any percentile at any rate, in per cent."""
    if folder is None:
        raise CannotRunError("give --distserve DIR")
    differences: list[float] = []
    details: dict[str, object] = {"requests": COUNT}
    for rate in RATES:
        asked = requests(rate)
        for name, ours, theirs in zip(
            ("ttft", "tpot"), times(asked, simulate(asked, split(folder))), peer(folder, asked), strict=True
        ):
            pairs = [(float(np.percentile(ours, at)), float(np.percentile(theirs, at))) for at in PERCENTS]
            differences += [100 * abs(one / other - 1) for one, other in pairs]
            details[f"{name}_p90_s_at_{rate:g}"] = f"{pairs[1][0]:.4f} ({pairs[1][1]:.4f})"
    return max(differences), details


if __name__ == "__main__":
    print(worst(Path(sys.argv[1])))
