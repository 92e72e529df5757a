"""Which release's rules count for a version on a card."""

from __future__ import annotations

from cotenant.domain.engine import Version
from cotenant.domain.gpu import GpuSpec

# The last release whose files were read.
NEWEST = Version((0, 33, 0), "0.33.0")
OLDEST = Version((0, 3, 0), "0.3.0")

Release = tuple[int, ...]
_LATER_V0 = (0, 7, 4)  # no release: the older core as 0.8 to 0.10 still held it


def release_of(version: Version, gpu: GpuSpec | None) -> Release:
    """The release whose rules count: cards before Ampere stayed on V0 until 0.10.1 (engine/arg_utils.py,
    _is_v1_supported_oracle)."""
    release = short(version)
    if gpu is not None and (0, 8) <= release < (0, 10, 1) and (gpu.compute_capability or (8, 0)) < (8, 0):
        return _LATER_V0
    return release


def short(version: Version) -> Release:
    """(major, minor, patch): rules never differ below that."""
    return (*version.parts, 0, 0, 0)[:3]
