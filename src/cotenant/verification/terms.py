"""The four terms as they were measured: from the engine's own log where it prints them, else from the kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.domain.interval import Interval, total
from cotenant.domain.measurement import Measurement
from cotenant.domain.verification import Held, Reading, Term
from cotenant.engines.logs.llama_cpp import is_host
from cotenant.verification.subject import Subject

_LLAMA = {
    "weights": ("model_buffer_mib",),
    "kv_cache": ("kv_buffer_mib", "rs_buffer_mib"),
    "activations": ("compute_buffer_mib", "output_buffer_mib"),
}
_POOLED = {
    "weights": ("weights_gib",),
    "kv_cache": ("available_kv_gib",),
    "activations": ("activation_peak_gib",),
    "runtime": ("non_torch_gib", "cudagraph_gib"),
}
# Beyond an interval that is a point: rounding of what is printed, pages half used.
_SLACK = {"weights": 0.01, "kv_cache": 0.01, "activations": 0.05, "runtime": 0.1, "total": 0.05}


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes and who says so."""

    bytes: int
    source: str


def printed(log: Measurement | None, rank: int | None = None) -> dict[str, Measured]:
    """What the engine's log says of each term; nothing for what it does not say. `rank`: the card, of those that
    the engine uses, whose bytes are asked for; None: it works from host memory, all of it."""
    if log is None:
        return {}
    if log.engine in ("llama.cpp", "ollama"):
        sizes = _buffers(log, rank)
    else:
        sizes = {
            term: sum(log.size_bytes(name) or 0 for name in names)
            for term, names in _POOLED.items()
            if any(log.first(name) for name in names)
        }
    return {term: Measured(size, "its log") for term, size in sizes.items()}


def _buffers(log: Measurement, rank: int | None) -> dict[str, int]:
    """llama.cpp's buffers by term: of all devices, or of the `rank`-th card. A card without a cache's or a graph's
    buffer holds none; where no card has one (another backend's names), nothing is known."""
    told = [
        (term, figure)
        for term, names in _LLAMA.items()
        for name in names
        for figure in log.every(name, None)
        if figure.section not in ("draft", "mmproj")
    ]
    found: dict[str, int] = {}
    if rank is not None:
        cards = sorted({figure.device for _, figure in told if not is_host(figure.device)}, key=_number)
        if rank >= len(cards):
            return {}
        told = [(term, figure) for term, figure in told if figure.device == cards[rank]]
    for term, figure in told:
        found[term] = found.get(term, 0) + figure.bytes
    return found


def _number(device: str) -> tuple[int, str]:
    """CUDA2 stands before CUDA10."""
    digits = re.search(r"\d+$", device)
    return (int(digits[0]) if digits else 0), device


def measured(subject: Subject, log: Measurement | None, readings: Mapping[str, Reading]) -> dict[str, Measured]:
    """Each term's bytes, and the total at its fullest."""
    found = printed(log, None if subject.on_host else subject.rank)
    loaded = readings.get("loaded")
    peak = max(readings.values(), key=lambda one: one.total_bytes, default=None)
    if loaded is None or peak is None:
        return found
    if subject.on_host and "weights" not in found and loaded.model_file_bytes:
        found["weights"] = Measured(loaded.model_file_bytes, "pages of its file")
    if peak.total_bytes:
        found["total"] = Measured(peak.total_bytes, "the kernel" if subject.on_host else "the driver")
    if subject.on_host and "runtime" not in found and {"weights", "kv_cache"} <= set(found):
        rest = loaded.total_bytes - found["weights"].bytes - found["kv_cache"].bytes
        if rest > 0:  # compute buffers are not touched before they are used
            found["runtime"] = Measured(rest, "the kernel, the rest")
    if loaded.device_bytes and "runtime" not in found and {"weights", "kv_cache", "activations"} <= set(found):
        rest = loaded.device_bytes - sum(found[name].bytes for name in ("weights", "kv_cache", "activations"))
        if rest > 0:
            found["runtime"] = Measured(rest, "the driver, the rest")
    return found


def compare(subject: Subject, found: Mapping[str, Measured]) -> tuple[Term, ...]:
    """Each term and the total, predicted beside measured."""
    predicted = subject.predicted | {"total": total(subject.terms)}
    return tuple(_term(name, expected, found.get(name)) for name, expected in predicted.items())


def _term(name: str, expected: Interval, given: Measured | None) -> Term:
    if given is None:
        return Term(name, expected, None, Held.UNKNOWN, "nothing tells it apart")
    slack = round(_SLACK[name] * expected.value)
    low, high = min(expected.low, expected.value - slack), max(expected.high, expected.value + slack)
    return Term(name, expected, given.bytes, Held.YES if low <= given.bytes <= high else Held.NO, given.source)
