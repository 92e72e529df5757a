"""How fast bytes travel between storage, host memory and cards, where a card or a host says nothing else."""

from __future__ import annotations

from typing import Final

from cotenant.domain.gpu import GpuSpec

HOST_BANDWIDTH: Final = 32e9
"""Bytes/s of PCIe 4.0 x16, one direction, where a card's own figure is missing."""

PINNED_SHARE: Final = 0.80
"""Of a link's rate, what a copy from pinned memory reaches: 25.3 GB/s of PCIe 4.0 x16's 31.5, on an L20
(fzyzcjy/torch_memory_saver, issue 111)."""

STORAGE_BANDWIDTH: Final = 2e9
"""Bytes/s from local NVMe through the loader."""

CACHED_READ_BANDWIDTH: Final = 3.5e9
"""Bytes/s at which a rank reads weights that its host has read before, so that storage is no limit: the median of
the 17 loads in public vLLM and SGLang logs that were faster than 2 GB/s (2.4 to 7.0)."""


def link_rate(gpu: GpuSpec | None) -> float:
    """Bytes/s between host memory and the card, one direction; None: a card that nobody knows."""
    return PINNED_SHARE * ((gpu.host_bandwidth if gpu is not None else None) or HOST_BANDWIDTH)
