"""A trace in figures: lengths, rate, burstiness, how many are in flight."""

from __future__ import annotations

from math import ceil, log
from typing import Any

import numpy as np

from cotenant.domain.trace_summary import TokenSpread, TraceSummary
from cotenant.domain.workload import Trace
from cotenant.errors import InputError
from cotenant.estimation.traced import burstiness

_PARTS = 60
_CLASSES = 12
_MINUTE_S = 60.0
_DAY_S = 86_400.0


def summary(trace: Trace, *, token_s: float) -> TraceSummary:
    """The figures of `trace`; requests in flight as if a token took `token_s` seconds.

    Raises InputError unless that is above zero.
    """
    if not 0 < token_s < 1e6:
        raise InputError(f"a time a token above zero is needed, not {token_s} s")
    arrivals = np.array(trace.arrivals_s)
    whole = max(float(arrivals[-1]), 1e-9)
    gaps = np.diff(arrivals)
    mean = float(gaps.mean()) if len(gaps) else 0.0
    parts = np.histogram(arrivals, bins=_PARTS, range=(0.0, whole))[0]
    return TraceSummary(
        name=trace.name,
        requests=len(arrivals),
        duration_s=whole,
        rate=len(arrivals) / max(whole, 1.0) if trace.timed else 0.0,
        peak_rate=_peak(arrivals, whole) if trace.timed else 0.0,
        rates=tuple((parts / (whole / _PARTS)).tolist()),
        variation=float(gaps.std()) / mean if mean > 0 else 0.0,
        dispersion=burstiness(trace, 1.0),
        token_s=token_s,
        concurrency=_in_flight(arrivals, np.array(trace.output_tokens) * token_s) if trace.timed else (0.0, 0, 0),
        input_tokens=spread(trace.input_tokens),
        output_tokens=spread(trace.output_tokens),
        by_hour=_by_hour(arrivals) if whole >= _DAY_S else (),
        seen_share=sum(trace.seen_tokens) / sum(trace.input_tokens) if trace.seen_tokens else None,
        timed=trace.timed,
        rated=trace.rated,
        notes=trace.notes if trace.rated or not trace.timed else (*trace.notes, _momentary(len(arrivals))),
    )


def _momentary(requests: int) -> str:
    what = "a single request has no rate" if requests == 1 else "all of it comes within a second, and has no rate"
    return f"{what}: say how often they come yourself (requests_per_second)"


def spread(tokens: Any) -> TokenSpread:
    """Percentiles and classes of equal ratio."""
    lengths = np.sort(np.asarray(tokens, np.int64))
    low, high = int(lengths[0]), int(lengths[-1])
    edges = np.geomspace(max(1, low), max(2, high) + 1, _CLASSES + 1)
    counts = np.histogram(np.maximum(lengths, 1), bins=edges)[0] if log(max(2, high)) else np.zeros(_CLASSES, int)
    at = [int(lengths[max(0, ceil(share * len(lengths)) - 1)]) for share in (0.5, 0.95, 0.99)]
    return TokenSpread(at[0], at[1], at[2], low, high, float(lengths.mean()), tuple(counts.tolist()))


def _peak(arrivals: Any, whole: float) -> float:
    """Requests/s of the busiest minute that starts with a request; of all, where they come within one."""
    if whole <= _MINUTE_S:
        return len(arrivals) / max(whole, 1.0)
    window = _MINUTE_S
    inside = np.searchsorted(arrivals, arrivals + window) - np.arange(len(arrivals))
    return float(inside.max()) / window


def _in_flight(arrivals: Any, service: Any) -> tuple[float, int, int]:
    """Mean, 99th percentile over time, and maximum of requests between arrival and end."""
    moments = np.concatenate([arrivals, arrivals + service])
    changes = np.concatenate([np.ones(len(arrivals), np.int64), -np.ones(len(arrivals), np.int64)])
    order = np.lexsort((changes, moments))  # of equal moments, whoever ends leaves first
    level = np.cumsum(changes[order])
    spans = np.diff(moments[order])
    if not spans.sum() > 0:
        return float(level.max()), int(level.max()), int(level.max())
    by_level = np.argsort(level[:-1], kind="stable")
    share = np.cumsum(spans[by_level]) / spans.sum()
    p99 = level[:-1][by_level][min(int(np.searchsorted(share, 0.99)), len(by_level) - 1)]
    return float((level[:-1] * spans).sum() / spans.sum()), int(p99), int(level.max())


def _by_hour(arrivals: Any) -> tuple[int, ...]:
    """Requests in each hour of the day, counted from the first request's."""
    hours = (arrivals // 3600).astype(np.int64) % 24
    return tuple(np.bincount(hours, minlength=24).tolist())
