"""Figures of cards as tools print them: `nvidia-smi`'s CSV, DCGM's gauges in Prometheus text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cotenant.readers.prometheus import samples
from cotenant.units import MIB

# --query-compute-apps=pid,used_gpu_memory,gpu_uuid --format=csv,noheader[,nounits]; MiB, "[N/A]" under WDDM or MIG
_PROCESS = re.compile(r"\s*(\d{1,10})\s*,\s*(\d{1,9})(?: MiB)?\s*(?:,\s*([^\s,]*).*)?")
# docs.nvidia.com/datacenter/dcgm, dcgm-exporter's default counters: framebuffer used in MiB, a line a card
_USED = re.compile(r'DCGM_FI_DEV_FB_USED\{[^}\n]*?\bgpu="(\d{1,4})"[^}\n]*\}[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*')


def smi_processes(text: str) -> tuple[tuple[str, int, int], ...]:
    """(card, pid, bytes) a line; what is no such line, or not available, is left out."""
    found = []
    for line in text.splitlines():
        match = _PROCESS.fullmatch(line)
        if match is not None:
            found.append((match.group(3) or "", int(match.group(1)), int(match.group(2)) * MIB))
    return tuple(found)


def dcgm_used_bytes(text: str) -> Mapping[int, int]:
    """Bytes used of each card by its index; parts of a card (MIG) add up."""
    found: dict[int, int] = {}
    for index, value in samples(text, _USED):
        if value >= 0:
            found[int(index)] = found.get(int(index), 0) + round(value * MIB)
    return found
