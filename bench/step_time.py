"""Step times against published measurements, and what they err.

    python -m bench.step_time --records FILE [--step-times FILE] [--refit] [--aiconfigurator] [--json]

The rows: TPOT, TTFT and throughput of published serving benchmarks with the constants in the package, the order of
configurations, and the interval's coverage. `--step-times` adds prefill and decode seconds of single steps.
`--refit` fits the constants again and reports each publication with constants that never saw it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from bench.step_time_refit import is_apart, leave_one_out, refit
from bench.step_time_rows import Record, read_records
from bench.step_time_score import (
    Pair,
    Scored,
    anchored_errors,
    bias,
    median_error,
    order_everywhere,
    order_missed,
    order_right,
    quantile_error,
    score,
)
from bench.step_time_steps import step_rows
from bench.table import Row, measured, show
from cotenant.edge.aiconfigurator import consulted, is_installed
from cotenant.estimation.step_constants import ANCHORED, ANCHORED_FIRST_TOKEN

_REACH = {
    "tpot_median": "<= 0.14",
    "tpot_p90": "<= 0.45",
    "ttft_median": "<= 0.35",
    "order_right": ">= 0.95",
    "interval_coverage": ">= 0.85",  # and at most 0.97
    "interval_ratio_median": "<= 2.2",
}


def rows(scored: Scored) -> list[Row]:
    """The contract's rows."""
    left = sum(scored.left_out.values())
    return [
        measured(
            "tpot_median", "", _REACH["tpot_median"], lambda: (median_error(scored.tpot), _of(scored.tpot, left))
        ),
        measured("tpot_p90", "", _REACH["tpot_p90"], lambda: (quantile_error(scored.tpot, 0.9), _of(scored.tpot))),
        measured("ttft_median", "", _REACH["ttft_median"], lambda: (median_error(scored.ttft), _of(scored.ttft))),
        measured("throughput_median", "", "", lambda: (median_error(scored.throughput), _of(scored.throughput))),
        measured("order_right", "", _REACH["order_right"], lambda: _order(scored.tpot)),
        measured("interval_coverage", "", _REACH["interval_coverage"], lambda: _coverage(scored)),
        measured(
            "ttft_coverage", "", _REACH["interval_coverage"], lambda: (_share(scored.ttft), _ratio(scored.ttft)[1])
        ),
        *_anchored("tpot", scored.tpot, ANCHORED),
        *_anchored("ttft", scored.ttft, ANCHORED_FIRST_TOKEN),
        measured("interval_ratio_median", "", _REACH["interval_ratio_median"], lambda: _ratio(scored.tpot)),
    ]


def apart_rows(scored: Scored) -> list[Row]:
    """The same of the fifth of the records that the constants in the package were never fitted to."""
    tpot, ttft = (
        [pair for pair in pairs if is_apart(pair.record)] for pairs in (scored.tpot, scored.ttft)
    )  # fmt: skip
    if not tpot or not ttft:
        return []
    return [
        measured("tpot_median_apart", "", "", lambda: (median_error(tpot), _of(tpot))),
        measured("tpot_p90_apart", "", "", lambda: (quantile_error(tpot, 0.9), _of(tpot))),
        measured("ttft_median_apart", "", "", lambda: (median_error(ttft), _of(ttft))),
        measured("order_right_apart", "", "", lambda: _order(tpot)),
        measured("interval_coverage_apart", "", "", lambda: (_share(tpot), _of(tpot))),
    ]


def _anchored(name: str, pairs: Sequence[Pair], interval: tuple[float, float]) -> list[Row]:
    """One measured load of each configuration scales its others (`estimation.anchor`)."""
    error, inside, count = anchored_errors(pairs, interval)
    if not count:
        return []
    details = {"rows": count, "covered": round(inside, 3), "interval": list(interval)}
    return [Row(f"{name}_median_anchored", error, "", "", "", details)]


def refitted(records: Sequence[Record]) -> list[Row]:
    """The constants fitted again, and the errors on publications left out: one row each, and all together."""
    found = leave_one_out(records)
    tpot = [pair for each in found for pair in each.scored.tpot]
    ttft = [pair for each in found for pair in each.scored.ttft]
    four_fifths = [record for record in records if not is_apart(record)]
    together = [
        measured("tpot_median_left_out", "", "<= 0.16", lambda: (median_error(tpot), _of(tpot))),
        measured("tpot_p90_left_out", "", _REACH["tpot_p90"], lambda: (quantile_error(tpot, 0.9), _of(tpot))),
        measured("ttft_median_left_out", "", _REACH["ttft_median"], lambda: (median_error(ttft), _of(ttft))),
        measured("order_right_left_out", "", "", lambda: _order(tpot)),
        measured("interval_coverage_left_out", "", "", lambda: (_share(tpot), _of(tpot))),
        measured("ttft_coverage_left_out", "", "", lambda: (_share(ttft), _of(ttft))),
        Row("constants", None, "", "", "fitted to four fifths", asdict(refit(four_fifths))),
    ]
    each = [
        measured(f"tpot_median without {one.publication}", "", "", lambda one=one: _alone(one.scored))  # type: ignore[misc]
        for one in found
        if one.scored.tpot
    ]
    return together + each


def _alone(scored: Scored) -> tuple[float, Mapping[str, object]]:
    ttft = round(median_error(scored.ttft), 3) if scored.ttft else None
    return median_error(scored.tpot), {**_of(scored.tpot), "ttft_median": ttft}


def _of(pairs: Sequence[Pair], left_out: int | None = None) -> dict[str, object]:
    found: dict[str, object] = {"rows": len(pairs)}
    if pairs:
        found["ours_over_published"] = round(bias(pairs), 3)
    return found if left_out is None else found | {"records_left_out": left_out}


def _order(pairs: Sequence[Pair]) -> tuple[float, Mapping[str, object]]:
    right, count = order_right(pairs)
    everywhere, more = order_everywhere(pairs)
    missed = {kind: f"{wrong} of {whole}" for kind, wrong, whole in order_missed(pairs)[:6]}
    return right, {
        "pairs": count,
        "over_all_loads": round(everywhere, 3),
        "pairs_over_all_loads": more,
        "missed": missed,
    }


def _coverage(scored: Scored) -> tuple[float, Mapping[str, object]]:
    return _share(scored.tpot), {"rows": len(scored.tpot), "ttft": round(_share(scored.ttft), 3)}


def _share(pairs: Sequence[Pair]) -> float:
    return sum(pair.covered for pair in pairs) / len(pairs)


def _ratio(pairs: Sequence[Pair]) -> tuple[float, Mapping[str, object]]:
    return round(median(pair.high / pair.low for pair in pairs), 3), {"rows": len(pairs)}


def left_out_rows(scored: Scored) -> list[Row]:
    """What was left out, by reason."""
    return [
        Row("left_out", count, "records", "", "", {"why": why}) for why, count in scored.left_out.most_common()
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description="step times against published measurements")
    parser.add_argument("--json", action="store_true", help="a list of rows instead of a table")
    parser.add_argument("--records", metavar="FILE", type=Path, required=True, help="serving benchmarks, JSONL")
    parser.add_argument("--step-times", metavar="FILE", type=Path, help="single steps, CSV")
    parser.add_argument("--refit", action="store_true", help="leave one publication out at a time (minutes)")
    parser.add_argument("--aiconfigurator", action="store_true", help="combined with it, where it is installed")
    asked = parser.parse_args(argv)
    if asked.aiconfigurator and not is_installed():
        parser.error("aiconfigurator is not installed")
    with consulted(asked.aiconfigurator):
        return show(_rows(asked), as_json=asked.json)


def _rows(asked: argparse.Namespace) -> list[Row]:
    records = read_records(asked.records)
    scored = score(records)
    found = rows(scored) + apart_rows(scored) + left_out_rows(scored)
    if asked.step_times:
        found += step_rows(asked.step_times)
    if asked.refit:
        found += refitted(records)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
