"""Out of memory as PyTorch, CUDA and HIP say it, whatever the engine.

Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 1.13 to 2.9.
"""

from __future__ import annotations

from cotenant.engines.logs.line import EngineLog, LogLine

_SIZE = r"(?P<{0}><N>) (?P<{0}_unit>[KMGT]?i?B|bytes)"


def _size(name: str) -> str:
    return _SIZE.replace("{0}", name)


TORCH = EngineLog(
    engine="",
    title="PyTorch",
    lines=(
        LogLine(
            "out of memory. Tried to allocate",
            rf"out of memory\. Tried to allocate {_size('asked')}"
            rf"(?:.{{0,40}}?GPU (?P<oom_gpu>\d+)?(?: has a total capacity of {_size('oom_capacity')}|;))?"
            rf"(?:.{{0,40}}?of which {_size('oom_free')} is free)?"
            rf"(?:.{{0,200}}?{_size('oom_process')} memory in use)?"
            rf"(?:.{{0,200}}?Of the allocated memory {_size('oom_allocated')} is allocated by PyTorch)?"
            rf"(?:.{{0,200}}?and {_size('oom_reserved_unallocated')} is reserved by PyTorch)?"
            rf"(?:.{{0,5}}?{_size('oom_capacity_old')} total capacity; "
            rf"{_size('oom_allocated_old')} already allocated; {_size('oom_free_old')} free)?",
            failure="out_of_memory",
        ),
        LogLine("error: out of memory", r"(?:CUDA|HIP) error: out of memory", failure="out_of_memory"),
        LogLine("CUBLAS_STATUS_ALLOC_FAILED", "", failure="out_of_memory"),
        LogLine("NCCL error", r"NCCL error.{0,200}?out of memory", failure="out_of_memory"),
    ),
)
