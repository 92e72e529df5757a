"""A card: two capacities, bandwidth, peaks, links, price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.domain.interval import Interval


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One type of card.

    `driver_bytes` is what NVML reports as total, `cuda_bytes` what CUDA reports (smaller: the driver keeps
    some); engines take their fractions of one or the other. Rates are per second: `memory_bandwidth` and
    `link_bandwidth` (all links, both directions) in bytes, `host_bandwidth` (one direction) in bytes,
    `peak_flops` dense operations by precision ("fp16", "bf16", "fp8", "int8", "fp4").
    """

    name: str
    vendor: str
    architecture: str
    driver_bytes: Interval
    cuda_bytes: Interval
    cuda_measured: bool
    memory_bandwidth: float
    peak_flops: Mapping[str, float]
    compute_capability: tuple[int, int] | None
    gfx: str | None
    link_bandwidth: float | None
    host_bandwidth: float | None
    price_per_hour: float | None = None
    price_source: str = ""
    aliases: tuple[str, ...] = ()
    sources: Mapping[str, str] | None = None

    def has_native(self, precision: str) -> bool:
        """Whether the card multiplies in that precision in hardware."""
        return precision in self.peak_flops
