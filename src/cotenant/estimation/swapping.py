"""How long a model takes to fall asleep, to wake and to start anew, from its bytes and the paths that they take.

What vLLM does when it wakes (device_allocator/cumem.py): every region that it gave back is created and mapped
again, weights and KV cache alike, and at level 1 the weights are copied from pinned host memory; at level 2 they
are read again from their files (`reload_weights`). None of the figures below comes from the blog that announced it
(2025-10-26), which is what they are compared with.
"""

from __future__ import annotations

from typing import Final

from cotenant.domain.gpu import GpuSpec
from cotenant.engines.sleeping import RESTART, SLEEP_1, SLEEP_2
from cotenant.engines.starting import Starting
from cotenant.estimation.cold_start import Kept, cold_start
from cotenant.estimation.paths import CACHED_READ_BANDWIDTH, link_rate

MAP_BANDWIDTH: Final = 70.41 * 2**30 / 0.273
"""Bytes/s at which regions are created and mapped: 69.23 GiB of KV cache and 1.18 GiB of weights (that others held
already, so that nothing was copied) in 0.273 s, vLLM 0.26 on a B200 (srtctl, its page on failover, 2026-09-17)."""


def swap_seconds(
    weights_bytes: int, gpu: GpuSpec | None, kv_cache_bytes: int = 0, *, starting: Starting
) -> dict[str, tuple[float, float]]:  # fmt: skip
    """Seconds to (fall asleep, wake) of one rank, by mode (`engines.sleeping`); ranks move side by side.

    sleep-1: weights to host memory and back. sleep-2: weights dropped and read again.
    restart: the process is stopped and started (llama-swap): the same launch once more, so what it compiled and
    read before is kept. The KV cache is dropped in each: whoever sleeps has finished its requests.
    `kv_cache_bytes` is what the rank had reserved, and maps again. `gpu` None: a card that nobody knows.
    """
    link = link_rate(gpu)
    mapping = (weights_bytes + kv_cache_bytes) / MAP_BANDWIDTH
    copying, reading = weights_bytes / link, weights_bytes / min(CACHED_READ_BANDWIDTH, link)
    return {
        SLEEP_1: (mapping + copying, mapping + copying),
        SLEEP_2: (mapping, mapping + reading),
        RESTART: (0.0, cold_start(weights_bytes, starting, kept=Kept.ALL, gpu=gpu).total_s),
    }


def process_swap_seconds(footprint_bytes: int, gpu: GpuSpec) -> float:
    """Seconds to bring a whole process back onto its card, KV cache and all, as Run:ai and cuda-checkpoint do:
    what is in its memory they do not know, so they move every byte."""
    return footprint_bytes / link_rate(gpu)
