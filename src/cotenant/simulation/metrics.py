"""From times to the figures that an SLO is about."""

from __future__ import annotations

from math import ceil, inf
from typing import Any

import numpy as np

from cotenant.domain.replay import Curves, ModelReplay, Percentiles
from cotenant.domain.workload import Slo
from cotenant.simulation.costs import NS_PER_S
from cotenant.simulation.load import Outcome, Requests, Status


def model_replay(
    model: str, requests: Requests, outcome: Outcome, *, slo: Slo | None, first_token_s: float, duration_s: float
) -> ModelReplay:
    """One model's figures. `first_token_s` is what a first token costs besides its steps (HTTP, tokeniser)."""
    done = outcome.status == Status.FINISHED
    ttft = (outcome.first_token_ns - requests.arrival_ns)[done] / NS_PER_S + first_token_s
    e2e = (outcome.finish_ns - requests.arrival_ns)[done] / NS_PER_S + first_token_s
    gaps = requests.output_tokens[done] - 1
    several = gaps > 0
    tpot = (outcome.finish_ns - outcome.first_token_ns)[done][several] / NS_PER_S / gaps[several]
    within = np.ones(len(ttft), np.bool_)
    if slo is not None and slo.ttft_s is not None:
        within &= ttft <= slo.ttft_s
    if slo is not None and slo.tpot_s is not None:
        slow = np.zeros(len(ttft), np.bool_)
        slow[several] = tpot > slo.tpot_s
        within &= ~slow
    good, count = int(within.sum()), len(requests)
    finished = int(done.sum())
    left = np.isin(outcome.status, (Status.CANCELLED, Status.LOST, Status.REFUSED))
    gone, gone_several = int(left.sum()), int((left & (requests.output_tokens > 1)).sum())
    at = None if slo is None else (_at(ttft, slo.percentile, gone), _at(tpot, slo.percentile, gone_several))
    missing = finished + gone < count or (count > 0 and not finished)
    return ModelReplay(
        model=model,
        requests=count,
        finished=finished,
        refused=int((outcome.status == Status.REFUSED).sum()),
        cancelled=int((outcome.status == Status.CANCELLED).sum()),
        lost=int((outcome.status == Status.LOST).sum()),
        unfinished=int((outcome.status == Status.UNFINISHED).sum()),
        rate=count / duration_s,
        ttft_s=percentiles(ttft),
        tpot_s=percentiles(tpot),
        e2e_s=percentiles(e2e),
        goodput=good / duration_s,
        attainment=good / count if count else 1.0,
        slo_held=None if slo is None else not missing and _within(slo, good, count),
        at_percentile=None if at is None else (_finite(at[0]), _finite(at[1])),
        preemptions=outcome.preemptions,
        curves=Curves(curve(ttft), curve(tpot), curve(e2e)),
        cache_hits=outcome.hit_tokens / outcome.asked_tokens if outcome.asked_tokens else None,
    )


def percentiles(seconds: Any) -> Percentiles | None:
    """p50, p95 and p99; None of nothing."""
    if not len(seconds):
        return None
    return Percentiles(*(_at(seconds, percent) or 0.0 for percent in (50, 95, 99)))


def curve(seconds: Any) -> tuple[float, ...]:
    """What 0, 1 ... 100 % of them do not exceed, six digits each; empty of nothing."""
    if not len(seconds):
        return ()
    ordered = np.sort(seconds)
    places = np.maximum(0, np.ceil(np.linspace(0, 1, 101) * len(ordered)).astype(np.int64) - 1)
    return tuple(float(f"{value:.6g}") for value in ordered[places])


def _at(seconds: Any, percent: float, gone: int = 0) -> float | None:
    """The smallest value that `percent` of them do not exceed (nearest rank); `gone` more were never answered, and
    the value is infinite where it is one of those. None where there is nobody of either kind."""
    if not len(seconds) + gone:
        return None
    place = max(0, ceil(percent / 100 * (len(seconds) + gone)) - 1)
    return inf if place >= len(seconds) else float(np.partition(seconds, place)[place])


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or seconds == inf else seconds


def _within(slo: Slo, good: int, count: int) -> bool:
    """Whether as large a share of the requests as the percentile asks kept both targets."""
    return good >= slo.percentile / 100 * count - 1e-9 * count
