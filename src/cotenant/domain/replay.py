"""What a simulation says of a plan: times as users see them, and what each replica went through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds that a share of requests does not exceed (the smallest such value that occurred)."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Curves:
    """Seconds that 0, 1, 2 ... 100 % of the requests did not exceed; empty where nothing finished."""

    ttft_s: tuple[float, ...] = ()
    tpot_s: tuple[float, ...] = ()
    e2e_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSeries:
    """One model over time, a mean for each part of the timeline: requests/s that came, requests that waited for
    their first token, that wrote, and the share 0..1 of time in which its replicas worked. `ttft_s` is of the
    requests whose first token came in that part, `tpot_s` of those finished in it; None: there were none.
    """

    model: str
    arrivals: tuple[float, ...]
    waiting: tuple[float, ...]
    running: tuple[float, ...]
    busy: tuple[float, ...]
    ttft_s: tuple[float | None, ...] = ()
    tpot_s: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class MemorySeries:
    """What one replica holds of each of its cards over time, in bytes: `fixed` but for the cache (weights,
    activations, runtime; what is left of it while it sleeps), `kv` the cache in use, `reserved` its pool."""

    replica: str
    cards: tuple[str, ...]
    fixed_bytes: tuple[float, ...]
    kv_bytes: tuple[float, ...]
    reserved_bytes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Starved:
    """Seconds that requests of `model` waited for a first token while `by` had the cards: another model, the model
    itself (its own load), or "" where nobody worked (a model was loaded)."""

    model: str
    by: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """A replay over time: equal parts of `part_s` seconds from 0 on. `capacity_bytes` by card."""

    part_s: float
    models: tuple[ModelSeries, ...]
    memory: tuple[MemorySeries, ...]
    capacity_bytes: Mapping[str, int]
    starved: tuple[Starved, ...]


@dataclass(frozen=True, slots=True)
class ModelReplay:
    """One model's requests. `goodput` counts requests/s that finished within the SLO (all that finished, where
    there is none); `attainment` is their share of all that came, 0..1, and `slo_held` whether that is as much as
    the SLO's percentile asks and no request was left unanswered at the end; `at_percentile` are TTFT and TPOT
    there; None without an SLO. TPOT is of requests with at least two tokens. Times are None where nothing
    finished.
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
    curves: Curves = Curves()
    lost: int = 0  # with the replica that was answering them
    cache_hits: float | None = None  # share of tokens to be read that the prefix cache held; None: there was none


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
    times_from: str = ""  # where its step times come from, source by source


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
    timeline: Timeline | None = None
    calibration: str | None = None  # names the measurements that its step times follow

    @property
    def slo_held(self) -> bool:
        """Whether every model that has an SLO keeps it."""
        return all(model.slo_held is not False for model in self.models)
