"""A plan: who runs where, in what precision, with which flags, at what cost, and why."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant.domain.device import Device
from cotenant.domain.engine import EngineSettings
from cotenant.domain.migration import Migration
from cotenant.domain.relaxation import Relaxation
from cotenant.domain.workload import Adapter


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """One running engine with one model. `devices` in rank order; `command` is an argument vector."""

    id: str
    model: str  # the request's name
    model_id: str  # the hub id or path
    checkpoint: str
    quantization: str
    engine: str
    engine_version: str
    settings: EngineSettings
    devices: tuple[Device, ...]
    port: int
    adapters: tuple[Adapter, ...]
    sharing: str
    start_order: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    why: str
    runner_up: str
    kv_needed_bytes: int
    kv_worst_case_bytes: int
    beside_bytes: int = 0  # of those that start before it on its cards, where its engine counts them as used
    ttft_s: tuple[float, float, float] | None = None  # estimated (low, value, high) at the SLO's percentile
    tpot_s: tuple[float, float, float] | None = None
    quantization_flag: str = ""  # what the engine must be told of it; "" where the checkpoint says so itself
    also_serves: tuple[str, ...] = ()  # other models of the fleet that this process serves, by their names
    times_from: str = ""  # where its step times come from, source by source

    @property
    def command_line(self) -> str:
        """The environment and the command as one shell line, quoted, for display and copying."""
        environment = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*environment, shlex.join(self.command)])


@dataclass(frozen=True, slots=True)
class GpuShare:
    """What one replica's rank takes of one card, by term, in bytes."""

    replica: str
    rank: int
    budget_bytes: int
    weights_bytes: int
    kv_cache_bytes: int
    activations_bytes: int
    runtime_bytes: int
    load_peak_bytes: int

    @property
    def footprint_bytes(self) -> int:
        """The four terms together."""
        return self.weights_bytes + self.kv_cache_bytes + self.activations_bytes + self.runtime_bytes

    @property
    def claimed_bytes(self) -> int:
        """What the card must hold for it: some engines go past their budget, none below counts for less."""
        return max(self.budget_bytes, self.footprint_bytes)


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A replica's rank that takes turns with one of the card's `shares`: `share` is what it takes awake,
    `asleep_bytes` what stays on the card while it sleeps, `host_bytes` what host memory holds of it then."""

    share: GpuShare
    asleep_bytes: int
    host_bytes: int


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """One card with all that lives on it. Of replicas that take turns, the one that needs most beside the others
    asleep stands in `shares`, the others in `sleepers`: so the card is drawn at its fullest."""

    device: Device
    capacity_bytes: int
    used_bytes: int
    shares: tuple[GpuShare, ...]
    price_per_hour: float | None
    sleepers: tuple[Sleeper, ...] = ()
    spare: bool = False  # empty on purpose

    @property
    def headroom_bytes(self) -> int:
        """Capacity - used by others - what every replica claims, sleepers what they keep."""
        asleep = sum(one.asleep_bytes for one in self.sleepers)
        awake = sum(share.claimed_bytes for share in self.shares)
        return self.capacity_bytes - self.used_bytes - awake - asleep


@dataclass(frozen=True, slots=True)
class Turns:
    """Models that take turns on the same cards in one `mode` (`engines.sleeping`).

    `swaps_per_day` is how often one wakes; `first_wait_s` what the first request of each waits beyond its own
    time after a wake; `delayed` the share 0..1 of each model's requests that find it asleep; `swapping` the
    largest share of an hour that goes into swaps; `saves_per_hour` in dollars (cards where nothing has a price)
    against the plan without turns (None: there is none).
    """

    models: tuple[str, ...]
    mode: str
    swaps_per_day: float
    first_wait_s: Mapping[str, float]
    delayed: Mapping[str, float]
    swapping: float
    host_bytes: int
    saves_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Naive:
    """The usual sizing: each model alone, FP16, full context x 16 slots, on the fleet's largest cards."""

    gpu: str
    cards: int
    cost_per_hour: float | None
    cards_ratio: float
    cost_ratio: float | None
    by_model: Mapping[str, str]  # name -> a sentence


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Where nothing fits: what one model lacks, and what would make it fit (each checked)."""

    model: str
    shortfall_bytes: int
    reason: str
    remedies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanRound:
    """A plan that was tried and replayed, `replays` times with `requests` in all. `attainment` is the least share
    0..1 of each model's requests within its SLO over the replayed scenes; `tightened` says what was asked of the
    next round for those who missed."""

    number: int
    cards: int
    cost_per_hour: float | None
    lower_bound: float
    attainment: Mapping[str, float]
    missed: tuple[str, ...]
    tightened: tuple[str, ...]
    replays: int
    requests: int


@dataclass(frozen=True, slots=True)
class Starved:
    """A model that misses its SLO where all peaks come at once, and the neighbour that takes most of the time of
    its cards (`share` of it; "" where it has none)."""

    model: str
    attainment: float
    neighbour: str
    share: float


@dataclass(frozen=True, slots=True)
class Strained:
    """A model whose `targets` (``TTFT``, ``TPOT``) hold alone and break while all its `neighbours` are at their
    peak, by the roofline."""

    model: str
    targets: tuple[str, ...]
    neighbours: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to a fleet. `feasible` is false when `shortfalls` says what is missing; `replicas` and
    `gpus` then hold the nearest plan. `promises_held` is None where the plan was not replayed; else `rounds` tell
    how it was found, and `starved` who would miss its SLO if all peaks came at once."""

    feasible: bool
    replicas: tuple[ReplicaPlan, ...]
    gpus: tuple[GpuPlan, ...]
    cost_per_hour: float | None
    objective_value: float  # the cost, or the number of cards where a price is missing; so is the bound
    lower_bound: float
    gap: float | None
    deterministic: bool
    headroom: float
    naive: Naive | None
    shortfalls: tuple[Shortfall, ...] = ()
    warnings: tuple[str, ...] = ()
    input_hash: str = ""
    fleet: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)  # the file it answers
    rounds: tuple[PlanRound, ...] = ()
    promises_held: bool | None = None
    starved: tuple[Starved, ...] = ()
    strained: tuple[Strained, ...] = ()
    turns: tuple[Turns, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()  # what wishes cost; where models have no place, what to give up
    migration: Migration | None = None  # where the plan was made from one that runs
    calibration: str | None = None  # names the measurements that its estimates follow
