"""What a replay assumes besides plan and traffic: clients that leave, replicas that fail, and who decides what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outage:
    """A replica that is away for `for_s` seconds from `at_s` on."""

    replica: str
    at_s: float
    for_s: float


@dataclass(frozen=True, slots=True)
class Breakdowns:
    """Every replica fails by chance, `mean_s` seconds after it came up on average, and is away for `for_s`."""

    mean_s: float
    for_s: float


@dataclass(frozen=True, slots=True)
class Conditions:
    """`timeout_s`: how long a client waits for its whole answer (None: for ever). `residency_s`: how long a model
    that takes turns stays at least; `hold_s`: how long a request waits before an idle one makes room. `dispatch`:
    least-loaded, round-robin or best-fit. `preempt`: latest (as engines do) or cheapest (to bring back).
    `swap_bytes`: host memory of each rank that takes the cache of who gives way (None: it is computed again)."""

    timeout_s: float | None = None
    outages: tuple[Outage, ...] = ()
    breakdowns: Breakdowns | None = None
    residency_s: float = 5.0
    dispatch: str = "least-loaded"
    preempt: str = "latest"
    hold_s: float = 0.0
    swap_bytes: int | None = None

    @property
    def fails(self) -> bool:
        """Whether any replica may be away."""
        return bool(self.outages) or self.breakdowns is not None


USUAL = Conditions()
"""Nobody leaves, nothing fails, engines do as they do."""
