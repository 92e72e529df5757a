"""What a simulation says of a plan: times as users see them, and what each replica went through."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds that a share of requests does not exceed (the smallest such value that occurred)."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class ModelReplay:
    """One model's requests. `goodput` counts requests/s that finished within the SLO (all that finished, where
    there is none); `attainment` is their share of all that came, 0..1. `at_percentile` are TTFT and TPOT at the
    SLO's percentile and `slo_held` compares them with its targets; None without an SLO. TPOT is of requests with
    at least two tokens. Times are None where nothing finished.
    """

    model: str
    requests: int
    finished: int
    refused: int
    cancelled: int
    unfinished: int
    rate: float  # requests/s offered
    ttft_s: Percentiles | None
    tpot_s: Percentiles | None
    e2e_s: Percentiles | None
    goodput: float
    attainment: float
    slo_held: bool | None
    at_percentile: tuple[float | None, float | None] | None
    preemptions: int


@dataclass(frozen=True, slots=True)
class ReplicaReplay:
    """One replica. `busy` is the share of time with a step in progress, `slowdown` how much longer its steps took
    beside its neighbours than alone (1: never met one), `kv_high_water` the largest share of its pool in use.
    """

    id: str
    model: str
    cards: tuple[str, ...]
    requests: int
    steps: int
    busy: float
    slowdown: float
    kv_blocks: int
    kv_high_water: float
    preemptions: int
    wakes: int | None = None  # how often it was woken; None where nobody sleeps


@dataclass(frozen=True, slots=True)
class Replay:
    """A whole simulation. `duration_s` is the time in which requests came, `end_s` when the last one left."""

    seed: int
    policy: str
    duration_s: float
    end_s: float
    models: tuple[ModelReplay, ...]
    replicas: tuple[ReplicaReplay, ...]
    warnings: tuple[str, ...] = ()
    input_hash: str = ""

    @property
    def slo_held(self) -> bool:
        """Whether every model that has an SLO keeps it."""
        return all(model.slo_held is not False for model in self.models)
