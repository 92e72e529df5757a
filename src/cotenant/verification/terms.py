"""The four terms as they were measured: from the engine's own log where it prints them, else from the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.domain.interval import Interval, total
from cotenant.domain.measurement import Measurement
from cotenant.domain.verification import Held, Reading, Term
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


def printed(log: Measurement | None) -> dict[str, Measured]:
    """What the engine's log says of each term; nothing for what it does not say."""
    if log is None:
        return {}
    table = _LLAMA if log.engine in ("llama.cpp", "ollama") else _POOLED
    found: dict[str, Measured] = {}
    for term, names in table.items():
        sizes = [
            figure.bytes
            for name in names
            for figure in log.every(name, None)
            if figure.section not in ("draft", "mmproj")
        ]
        if sizes:
            size = sum(sizes) if table is _LLAMA else sum(log.size_bytes(name) or 0 for name in names)
            found[term] = Measured(size, "its log")
    return found


def measured(subject: Subject, log: Measurement | None, readings: Mapping[str, Reading]) -> dict[str, Measured]:
    """Each term's bytes, and the total at its fullest."""
    found = printed(log)
    loaded = readings.get("loaded")
    peak = max(readings.values(), key=lambda one: one.total_bytes, default=None)
    if loaded is None or peak is None:
        return found
    if "weights" not in found and loaded.model_file_bytes:
        found["weights"] = Measured(loaded.model_file_bytes, "pages of its file")
    if peak.total_bytes:
        found["total"] = Measured(peak.total_bytes, "the kernel" if subject.on_host else "the driver")
    if subject.on_host and "runtime" not in found and {"weights", "kv_cache"} <= set(found):
        rest = loaded.total_bytes - found["weights"].bytes - found["kv_cache"].bytes
        if rest > 0:  # compute buffers are not touched before they are used
            found["runtime"] = Measured(rest, "the kernel, the rest")
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
