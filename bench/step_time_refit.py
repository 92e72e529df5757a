"""Fit `Fitted` again to published measurements, and say what it errs on publications that it never saw.

Iteratively reweighted least squares (Huber, at 15 %) on log(ours / published) of TPOT and TTFT together, in the
logarithm of each constant, held loosely to round guesses (ridge) and to what a data sheet allows, so that a fit
without a publication knows nothing of it. Records of one run that a publication lists twice count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import exp, log
from zlib import crc32

from bench.step_time_rows import Record
from bench.step_time_score import Pair, Scored, score
from cotenant.estimation.step_constants import FITTED, Fitted

GUESS = Fitted(
    dense_bandwidth=0.85, moe_bandwidth=0.75, weight_only_moe=0.8, kv_bandwidth=0.85, compute_16=0.7,
    compute_8=0.6, compute_moe=0.6, fused_compute_moe=0.6, vllm_layer_s=40e-6, tensorrt_llm_layer_s=30e-6,
    sglang_layer_s=60e-6, moe_layer_s=20e-6, fused_moe_layer_s=20e-6, all_reduce_s=8e-6,
    fused_all_reduce_s=8e-6, link=0.7, sequence_s=10e-6, eager_layer_s=60e-6, vllm_release=1.05, cdna_pace=1.5,
    first_token_s=10e-3, closed_queue=1.0,
)  # fmt: skip
_SHARES = tuple(
    name for name in Fitted.__dataclass_fields__ if "bandwidth" in name or "compute" in name or name == "link"
)
_HUBER = 0.15
_RIDGE = 1.5  # a factor of e away costs as much as this many rows that err by 100 %
_STEP = 0.02


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a fit without `publication` errs there."""

    publication: str
    fitted: Fitted
    scored: Scored


def refit(records: Iterable[Record], start: Fitted = GUESS, rounds: int = 3) -> Fitted:
    """The constants that err least on `records`."""
    import numpy as np

    rows = _distinct(records)
    names = [field.name for field in fields(Fitted)]
    values = np.log([getattr(start, name) for name in names])
    origin = values.copy()
    for _ in range(rounds):
        base = _residuals(rows, _made(names, values))
        keys = sorted(base)
        here = np.array([base[key] for key in keys])
        slopes = np.zeros((len(keys), len(names)))
        for column in range(len(names)):
            moved = values.copy()
            moved[column] -= _STEP
            there = _residuals(rows, _made(names, moved))
            slopes[:, column] = [(base[key] - there.get(key, base[key])) / _STEP for key in keys]
        weight = np.sqrt(np.minimum(1.0, _HUBER / np.maximum(np.abs(here), 1e-9)))
        left = np.vstack([slopes * weight[:, None], np.eye(len(names)) * _RIDGE])
        right = np.concatenate([-here * weight, _RIDGE * (origin - values)])
        change = np.linalg.lstsq(left, right, rcond=None)[0]
        values = values + np.clip(change, -0.5, 0.5)
        values = np.minimum(values, [_most(name) for name in names])
        values = np.maximum(values, [0.0 if name == "vllm_release" else -50.0 for name in names])
    return _made(names, values)


def _most(name: str) -> float:
    """The logarithm of the most that a constant may be: shares below 1, a release no slower than by a tenth."""
    return log(0.97) if name in _SHARES else log(1.1) if name == "vllm_release" else 3.0


def is_apart(record: Record) -> bool:
    """Whether a record is of the fifth, drawn by its id, that the package's constants were never fitted to."""
    return crc32(record["id"].encode()) % 5 == 0


def leave_one_out(records: Sequence[Record], start: Fitted = GUESS) -> list[LeftOut]:
    """For each publication a fit to all the others, and what it errs on the one."""
    found = []
    for publication in sorted({record["pub"] for record in records}):
        ours = [record for record in records if record["pub"] == publication]
        scored = score(ours)
        if not scored.tpot and not scored.ttft:
            continue
        others = refit([record for record in records if record["pub"] != publication], start)
        found.append(LeftOut(publication, others, score(ours, others)))
    return found


def _made(names: Sequence[str], values: Iterable[float]) -> Fitted:
    return replace(FITTED, **{name: exp(value) for name, value in zip(names, values, strict=True)})


def _distinct(records: Iterable[Record]) -> list[Record]:
    """Records with a TPOT or a TTFT, each run once."""
    seen: dict[tuple[object, ...], Record] = {}
    for record in records:
        if record["kind"] in ("serving", "burst"):
            figures = ("arch", "gpu", "engine", "precision", "tp", "isl", "osl", "concurrency", "request_rate")
            key = tuple(record[name] for name in (*figures, "tpot_ms", "tpot_ms_p50", "itl_ms", "ttft_ms"))
            seen.setdefault(key, record)
    return list(seen.values())


def _residuals(rows: Sequence[Record], fitted: Fitted) -> dict[tuple[str, str], float]:
    scored = score(rows, fitted)
    return _logs("tpot", scored.tpot) | _logs("ttft", scored.ttft)


def _logs(name: str, pairs: Sequence[Pair]) -> dict[tuple[str, str], float]:
    return {(name, pair.record["id"]): log(pair.ours / pair.published) for pair in pairs}
