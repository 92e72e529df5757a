"""How long a model takes to fall asleep, to wake and to start anew, from its bytes and the paths that they take.

What vLLM does when it wakes (device_allocator/cumem.py): every region that it gave back is created and mapped
again, weights and KV cache alike, and at level 1 the weights are copied from pinned host memory; at level 2 they
are read again from their files (`reload_weights`). None of the figures below comes from the blog that announced it
(2025-10-26), which is what they are compared with.
"""

from __future__ import annotations

from typing import Final

from cotenant.domain.gpu import GpuSpec
from cotenant.estimation.step_constants import HOST_BANDWIDTH
from cotenant.estimation.step_time import load_s

MAP_BANDWIDTH: Final = 70.41 * 2**30 / 0.273
"""Bytes/s at which regions are created and mapped: 69.23 GiB of KV cache and 1.18 GiB of weights (that others held
already, so that nothing was copied) in 0.273 s, vLLM 0.26 on a B200 (srtctl, its page on failover, 2026-09-17)."""

PINNED_SHARE: Final = 0.80
"""Of a link's rate, what a copy from pinned memory reaches: 25.3 GB/s of PCIe 4.0 x16's 31.5, on an L20
(fzyzcjy/torch_memory_saver, issue 111)."""

CACHED_READ_BANDWIDTH: Final = 3.5e9
"""Bytes/s at which a rank reads weights that its host has read before, so that storage is no limit: the median of
the 17 loads in public vLLM and SGLang logs that were faster than 2 GB/s (2.4 to 7.0)."""


def swap_seconds(weights_bytes: int, gpu: GpuSpec, kv_cache_bytes: int = 0) -> dict[str, tuple[float, float]]:
    """Seconds to (fall asleep, wake) of one rank, by policy; ranks move side by side.

    swap: weights to host memory and back (sleep level 1). swap-2: weights dropped and read again (level 2).
    restart: the process is stopped and started (llama-swap). The KV cache is dropped in each: whoever sleeps has
    finished its requests. `kv_cache_bytes` is what the rank had reserved, and maps again.
    """
    link = PINNED_SHARE * (gpu.host_bandwidth or HOST_BANDWIDTH)
    mapping = (weights_bytes + kv_cache_bytes) / MAP_BANDWIDTH
    copying, reading = weights_bytes / link, weights_bytes / min(CACHED_READ_BANDWIDTH, link)
    return {
        "swap": (mapping + copying, mapping + copying),
        "swap-2": (mapping, mapping + reading),
        "restart": (0.0, load_s(weights_bytes, gpu)[1]),
    }


def process_swap_seconds(footprint_bytes: int, gpu: GpuSpec) -> float:
    """Seconds to bring a whole process back onto its card, KV cache and all, as Run:ai and cuda-checkpoint do:
    what is in its memory they do not know, so they move every byte."""
    return footprint_bytes / (PINNED_SHARE * (gpu.host_bandwidth or HOST_BANDWIDTH))
