"""How near the estimates come to what engines printed: `python -m bench.accuracy --gpu-records F ...`.

Ids, eligibility and denominators are those of the contract: a refusal counts as wrong, `uncertain` counts half
in false_oom only, a pool's error is a share of the card's capacity. A random fifth of the rows (by id) is kept
apart and reported beside.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from bench.accuracy_llama import LlamaAnswer, LlamaError, answer_llama, llama_compute, llama_kv
from bench.accuracy_page import WrongRow, is_wrong, page
from bench.accuracy_rows import Answer, Row, answer, read_rows
from bench.explain import checked_fields
from bench.explain_page import raw_lines
from cotenant.domain.estimate import Verdict
from cotenant.domain.interval import Interval
from cotenant.units import GIB

A = TypeVar("A")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Error:
    """One row of one metric: the error as a share, or None where no answer was given."""

    answer: Answer
    share: float | None
    covered: bool | None = None
    width: float | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """An id of the contract with its reach; `better` says which side of the reach holds."""

    id: str
    unit: str
    reach: float
    more: bool


METRICS = (
    Metric("kv_bytes_within_1pct", "share", 0.95, more=True),
    Metric("weights_within_2pct", "share", 0.90, more=True),
    Metric("weights_within_5pct", "share", 0.98, more=True),
    Metric("kv_pool_median", "share of capacity", 0.015, more=False),
    Metric("kv_pool_p90", "share of capacity", 0.04, more=False),
    Metric("false_fits", "rows", 0, more=False),
    Metric("false_oom", "share", 0.05, more=False),
    Metric("uncertain", "share", 0.10, more=False),
    Metric("llama_kv_within", "share", 0.95, more=True),
    Metric("llama_compute_median", "share", 0.03, more=False),
    Metric("llama_compute_p90", "share", 0.15, more=False),
    Metric("interval_coverage", "share", 0.85, more=True),
    Metric("interval_width_median", "share of capacity", 0.05, more=False),
)


def _pool_gib(row: Row) -> float | None:
    """The pool as printed: whole, or as SGLang prints it, keys and values apart (then of one kind of layers)."""
    whole: float | None = row["available_kv_gib"]
    keys, values = row.get("sglang_k_gib"), row.get("sglang_v_gib")
    if whole is not None or keys is None or values is None:
        return whole
    return float(keys + values)


def kv_bytes(found: Answer) -> Error | None:
    """Bytes a token, or of one sequence of the logged length where the layout is not plain."""
    row, layout = found.row, found.layout
    pool, tokens = _pool_gib(row), row["kv_cache_tokens"]
    length, times = row["max_concurrency_len"] or row["max_model_len"], row["max_concurrency"]
    if row["config_file"] is None or not _told_ranks(row):
        return None
    if row["needed_kv_gib"] and row["needed_kv_seq_len"]:
        measured, at = row["needed_kv_gib"] * GIB, row["needed_kv_seq_len"]
    elif pool and times and length:
        measured, at = pool * GIB / times, length
    elif pool and tokens:
        measured, at = pool * GIB / tokens, None
    else:
        return None
    if found.estimate is None or layout is None:
        return Error(found, None)
    batch = found.estimate.settings.max_num_batched_tokens or 1
    plain = len(layout.groups) == 1 and layout.groups[0].window is None
    if not plain and row.get("sglang_k_gib") is not None and row["available_kv_gib"] is None:
        return None  # keys and values of one kind of layers only: which, the record does not say
    if plain and pool and tokens:
        return Error(found, layout.token_bytes() / (pool * GIB / tokens) - 1)
    known = row["engine"] == "vllm" and row["engine_version"]  # what a printed token stands for follows from it
    if at is None and pool and tokens and known:
        blocks = int(pool * GIB) // layout.block_bytes[0]
        printed = layout.tokens_as_printed(blocks, found.estimate.settings.max_model_len or 1, batch)
        return Error(found, tokens / printed - 1 if printed else None)
    bytes_at = layout.checked_bytes if row["needed_kv_gib"] else layout.sequence_bytes
    ours = bytes_at(at, batch) if at else layout.token_bytes()
    return Error(found, ours / measured - 1)


def weights(found: Answer) -> Error | None:
    """Weights as printed, on one GPU."""
    row = found.row
    if row["config_file"] is None or not row["weights_gib"] or not _told_ranks(row):
        return None
    if found.estimate is None:
        return Error(found, None)
    ours, measured = found.estimate.per_gpu[0].weights.bytes, row["weights_gib"] * GIB
    return Error(found, ours.value / measured - 1, *_coverage(ours, measured, found))


def kv_pool(found: Answer) -> Error | None:
    """The pool from model, card, flags and version alone."""
    row = found.row
    told = row["gpu_memory_utilization"] is not None or row.get("flags_shown") in (True, None)
    pool = _pool_gib(row)
    known = (found.gpu is not None or row["gpu_mem_gib"] is not None) and _told_ranks(row)
    if row["config_file"] is None or pool is None or not known or not told:
        return None
    if found.estimate is None:
        return Error(found, None)
    measured = max(0.0, pool * GIB)
    capacity = found.estimate.per_gpu[0].capacity.value
    ours = min((rank.kv_cache.bytes for rank in found.estimate.per_gpu), key=lambda pool: pool.value)
    return Error(found, (ours.value - measured) / capacity, *_coverage(ours, measured, found))


def outcome(found: Answer) -> Error | None:
    """1 = said the opposite, 0.5 = uncertain, 0 = right."""
    row = found.row
    known = found.gpu is not None and _told_ranks(row)
    if row["config_file"] is None or row["outcome"] not in ("fits", "oom") or not known:
        return None
    if found.estimate is None:
        return Error(found, None)
    verdict = found.estimate.verdict
    if verdict is Verdict.UNCERTAIN:
        return Error(found, 0.5)
    return Error(found, float((verdict is Verdict.FITS) != (row["outcome"] == "fits")))


def _told_ranks(row: Row) -> bool:
    """Over how many GPUs the model was split: said, or one GPU."""
    return row["tensor_parallel"] is not None or row["num_gpus"] == 1


def _coverage(ours: Interval, measured: float, found: Answer) -> tuple[bool, float]:
    """Whether the measurement, to its printed digits, lies in the interval; its width as a share of the card."""
    slack = 0.006 * GIB
    assert found.estimate is not None
    capacity = found.estimate.per_gpu[0].capacity.value
    return ours.low - slack <= measured <= ours.high + slack, (ours.high - ours.low) / capacity


def report(answers: Sequence[Answer], llama: Sequence[LlamaAnswer] = ()) -> list[dict[str, Any]]:
    """One entry a metric."""
    cache, compute = (_all(llama, measure) for measure in (llama_kv, llama_compute))
    graphs = [1.0 if e.share is None else abs(e.share) for e in compute]
    kv, weight, pool, fits = (_all(answers, measure) for measure in (kv_bytes, weights, kv_pool, outcome))
    errors = [abs(e.share) for e in pool if e.share is not None]
    missing = [1.0] * sum(e.share is None for e in pool)
    judged: tuple[Error | LlamaError, ...] = (*weight, *pool, *compute)
    covered = [e for e in judged if e.covered is not None]
    oom = [e for e in fits if e.answer.row["outcome"] == "oom"]
    fit = [e for e in fits if e.answer.row["outcome"] == "fits"]
    values: dict[str, tuple[float | None, Sequence[Error | LlamaError]]] = {
        "kv_bytes_within_1pct": (_within(kv, 0.01), kv),
        "weights_within_2pct": (_within(weight, 0.02), weight),
        "weights_within_5pct": (_within(weight, 0.05), weight),
        "kv_pool_median": (_quantile(errors + missing, 0.5), pool),
        "kv_pool_p90": (_quantile(errors + missing, 0.9), pool),
        "false_fits": (float(sum(e.share == 1 for e in oom)), oom),
        "false_oom": (_mean([1.0 if e.share is None else e.share for e in fit]), fit),
        "uncertain": (_mean([float(e.share == 0.5) for e in fits]), fits),
        "interval_coverage": (_mean([float(bool(e.covered)) for e in covered]), covered),
        "interval_width_median": (_quantile([e.width for e in covered if e.width is not None], 0.5), covered),
        "llama_kv_within": (_within(cache, 0.002), cache),
        "llama_compute_median": (_quantile(graphs, 0.5), compute),
        "llama_compute_p90": (_quantile(graphs, 0.9), compute),
    }
    rows = {metric.id: len(llama) if metric.id.startswith("llama") else len(answers) for metric in METRICS}
    return [_entry(metric, values[metric.id], rows[metric.id]) for metric in METRICS]


def _entry(metric: Metric, found: tuple[float | None, Sequence[Error | LlamaError]], rows: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": metric.id, "value": None, "unit": metric.unit, "reach": metric.reach}
    value, errors = found
    answered = sum(error.share is not None for error in errors)
    return {
        **entry, "value": value, "holds": holds(value, metric), "reason": "" if errors else "no eligible row",
        "rows": rows, "eligible": len(errors), "answered": answered,
    }  # fmt: skip


def holds(value: float | None, metric: Metric) -> bool | None:
    """Whether a value reaches what was asked; None where there is no value."""
    if value is None:
        return None
    return value >= metric.reach if metric.more else value <= metric.reach


def _all(answers: Iterable[A], measure: Callable[[A], E | None]) -> list[E]:
    return [error for found in answers if (error := measure(found)) is not None]


def _within(errors: Sequence[Error | LlamaError], share: float) -> float | None:
    return _mean([float(e.share is not None and abs(e.share) <= share) for e in errors])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _quantile(values: Sequence[float], share: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    return median(ordered) if share == 0.5 else ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _show(title: str, entries: Sequence[dict[str, Any]]) -> None:
    print(f"\n{title}")
    for entry in entries:
        value = "-" if entry["value"] is None else f"{entry['value']:.4f}"
        mark = {True: "holds", False: "misses", None: "-"}[entry["holds"]]
        counts = f"{entry['answered']}/{entry['eligible']} of {entry['rows']}"
        print(f"  {entry['id']:24}{value:>10}  reach {entry['reach']:<7}{mark:8}{counts:>18}  {entry['reason']}")


def _show_rows(answers: Sequence[Answer]) -> None:
    """Every row with its errors, the worst last: for finding out why."""
    for found in answers:
        parts = [
            f"{name} {error.share:+.4f}" + ("" if error.covered is not False else " outside")
            for name, measure in (("kv", kv_bytes), ("w", weights), ("pool", kv_pool), ("fit", outcome))
            if (error := measure(found)) is not None and error.share is not None
        ]
        print(f"  {found.row['id']:22}{found.refusal[:70] or '; '.join(parts)}")


def _show_llama(answers: Sequence[LlamaAnswer]) -> None:
    """Every record of llama.cpp and Ollama with its errors."""
    for found in answers:
        parts = [
            f"{name} {error.share:+.4f}" + ("" if error.covered is not False else " outside")
            for name, measure in (("kv", llama_kv), ("compute", llama_compute))
            if (error := measure(found)) is not None and error.share is not None
        ]
        print(f"  {found.row['id']:22}{found.refusal[:70] or '; '.join(parts)}")


def _wrong_rows(answers: Sequence[Answer], llama: Sequence[LlamaAnswer]) -> list[WrongRow]:
    """Every row beyond a metric's reach, those of graphics cards first."""
    ours = (("kv", kv_bytes), ("weights", weights), ("pool", kv_pool), ("outcome", outcome))
    theirs = (("llama kv", llama_kv), ("compute", llama_compute))
    found = [_wrong(answer, name, measure(answer)) for answer in answers for name, measure in ours]
    found += [_wrong(answer, name, measure(answer)) for answer in llama for name, measure in theirs]
    return [row for row in found if row is not None]


def _wrong(found: Answer | LlamaAnswer, metric: str, error: Error | LlamaError | None) -> WrongRow | None:
    if error is None or not is_wrong(metric, error.share):
        return None
    row = found.row
    engine = " ".join(str(part) for part in (row.get("engine"), row.get("engine_version")) if part)
    model = str(row.get("model") or "-").replace("|", "/")
    return WrongRow(row["id"], engine, model, metric, error.share, found.held_out, found.refusal)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu-records", type=Path, nargs="*", default=[])
    parser.add_argument("--llama-records", type=Path, nargs="*", default=[])
    parser.add_argument("--configs", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", action="store_true", help="list every row that is not held out")
    parser.add_argument("--write", type=Path, help="write the page with every row that is still wrong")
    options = parser.parse_args(argv)
    rows = [row for path in options.gpu_records for row in read_rows(path)]
    answers = [answer(row, options.configs) for row in rows]
    llama = [answer_llama(row) for path in options.llama_records for row in read_rows(path)]
    vllm = [found for found in answers if found.row["engine"] == "vllm"]
    rest = [found for found in answers if found.row["engine"] != "vllm"]
    parts = {
        "all engines": report(answers, llama),
        "vLLM, rows that were looked at": report([found for found in vllm if not found.held_out]),
        "vLLM, the fifth kept apart": report([found for found in vllm if found.held_out]),
        "SGLang, TGI and TensorRT-LLM, rows that were looked at": report([a for a in rest if not a.held_out]),
        "SGLang, TGI and TensorRT-LLM, the fifth kept apart": report([a for a in rest if a.held_out]),
        "llama.cpp and Ollama, rows that were looked at": report([], [a for a in llama if not a.held_out]),
        "llama.cpp and Ollama, the fifth kept apart": report([], [a for a in llama if a.held_out]),
    }
    if options.write:
        fields = checked_fields(options.gpu_records, options.llama_records)
        options.write.write_text(page(parts, _wrong_rows(answers, llama)) + raw_lines(fields), encoding="utf-8")
    if options.json:
        json.dump(parts["all engines"], sys.stdout, indent=1)
        print()
        return 0
    if options.rows:
        _show_rows([found for found in (*vllm, *rest) if not found.held_out and found.row["config_file"]])
        _show_llama([found for found in llama if not found.held_out])
    for title, entries in parts.items():
        _show(title, [entry for entry in entries if entry["eligible"]])
    return 0


if __name__ == "__main__":
    sys.exit(main())
