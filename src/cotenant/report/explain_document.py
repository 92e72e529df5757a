"""An explained log and a measurement as JSON, in the field names of the published records."""

from __future__ import annotations

from math import prod
from typing import Any

from cotenant.domain.explanation import Change, DeviceShare, Explanation
from cotenant.domain.measurement import COUNT_FIGURES, GIB_FIGURES, Figure, Measurement
from cotenant.report.document import Document, estimate_document, header

# The records' words -> ours.
_INPUTS = {
    "tensor_parallel": "tensor_parallel_size", "pipeline_parallel": "pipeline_parallel_size",
    "data_parallel": "data_parallel_size", "expert_parallel": "enable_expert_parallel", "dtype": "dtype",
    "quantization": "quantization", "kv_cache_dtype": "kv_cache_dtype", "max_model_len": "max_model_len",
    "max_num_seqs": "max_num_seqs", "max_num_batched_tokens": "max_num_batched_tokens",
    "gpu_memory_utilization": "gpu_memory_utilization", "block_size": "block_size",
    "enforce_eager": "enforce_eager", "lora": "enable_lora",
}  # fmt: skip
_LLAMA_INPUTS = (
    "n_ctx", "n_ctx_seq", "n_parallel", "kv_unified", "n_batch", "n_ubatch", "n_gpu_layers", "flash_attn",
    "type_k", "type_v",
)  # fmt: skip
_COUNTS = ("kv_cache_tokens", "gpu_blocks", "max_concurrency_len", "needed_kv_seq_len", "estimated_max_len")
_BY_DEVICE = ("model_buffer_mib", "kv_buffer_mib", "rs_buffer_mib", "compute_buffer_mib", "output_buffer_mib")
_BREAKDOWN = ("total", "free", "self", "model", "context", "compute", "unaccounted")
LLAMA_ENGINES = ("llama.cpp", "ollama")


def explain_document(explanation: Explanation, *, catalogue: str) -> Document:
    """The whole answer to a log."""
    predicted = explanation.predicted
    return {
        **header("explain", catalogue=catalogue, input_hash=explanation.input_hash),
        "engine": explanation.measurement.engine,
        "verdict": explanation.verdict,
        "cause": explanation.cause,
        "shortfall_bytes": explanation.shortfall_bytes,
        "measured": measurement_document(explanation.measurement),
        "predicted": None if predicted is None else estimate_document(predicted, catalogue=catalogue),
        "per_gpu": [_share(share) for share in explanation.shares],
        "host": {f"{term}_bytes": size for term, size in explanation.host.items()},
        "changes": [_change(change, catalogue) for change in explanation.changes],
        "advice": list(explanation.advice),
        "assumed": list(explanation.assumed),
        "others": [measurement_document(other) for other in explanation.others],
    }


def measurement_document(found: Measurement) -> Document:
    """What was measured. A GPU engine's figures stand at the top level, llama.cpp's and Ollama's under `measured`
    in MiB by device; null: the log does not say."""
    document: Document = {
        "engine": found.engine,
        "engine_version": found.engine_version,
        "model": found.model,
        "gpu": found.gpu,
        "gpu_mem_gib": found.value("gpu_mem_gib"),
        "outcome": None if found.outcome is None else str(found.outcome),
        "source": found.source,
        "ranks": list(found.ranks),
        "notes": list(found.notes),
        "failures": [
            {"kind": one.kind, "line": one.line, "text": one.text, "figures": dict(one.figures)}
            for one in found.failures
        ],
    }
    if found.engine in LLAMA_ENGINES:
        inputs = {name: found.settings.get(name) for name in _LLAMA_INPUTS}
        return {**document, **inputs, "measured": _llama(found)}
    inputs = {name: found.settings.get(ours) for name, ours in _INPUTS.items()}
    return {**document, "num_gpus": _num_gpus(found), **inputs, "adapters": _adapters(found), **_figures(found)}


def _num_gpus(found: Measurement) -> int | None:
    """GPUs of the replica, where the log says over how many it is split."""
    sizes = [
        found.settings.get(_INPUTS[name]) for name in ("tensor_parallel", "pipeline_parallel", "data_parallel")
    ]
    if not isinstance(sizes[0], int):
        return None
    return prod(size for size in sizes if isinstance(size, int))


def _adapters(found: Measurement) -> Document | None:
    slots = {name: found.settings[name] for name in ("max_loras", "max_lora_rank") if name in found.settings}
    return slots if found.settings.get("enable_lora") else None


def _figures(found: Measurement) -> Document:
    figures: Document = {}
    for name in (*GIB_FIGURES, *COUNT_FIGURES):
        value = _headline(found, name)
        figures[name] = int(value) if value is not None and name in _COUNTS else value
    return figures


def _headline(found: Measurement, name: str) -> float | None:
    """The rank that binds for the pool, the first for the rest."""
    figure = found.smallest(name) if name == "available_kv_gib" else found.first(name)
    return None if figure is None else round(figure.value, 4)


def _llama(found: Measurement) -> Document:
    caches = [figure for figure in found.every("kv_cache_mib", None) if figure.section != "draft"]
    buffers: Document = {name: _by_device(found, name) for name in _BY_DEVICE}
    kv = buffers["kv_buffer_mib"]
    total = _sum(caches) if caches else (round(sum(kv.values()), 2) if kv else None)
    return {
        **buffers,
        "kv_total_mib": total,
        "kv_full_mib": _section(found, "full"),
        "kv_swa_mib": _section(found, "swa"),
        "kv_indexer_mib": _section(found, "indexer"),
        "kv_caches": [_cache(found, figure) for figure in caches] or None,
        "rs_total_mib": found.value("rs_total_mib"),
        "draft": _draft(found),
        "mmproj": _mmproj(found),
        "breakdown": _breakdown(found),
        "fit": _fit(found),
        "ollama_estimate": _ollama(found),
        "device_used_mib_nvidia_smi": found.value("device_used_mib"),
        "ollama_total_mib": _mib(found.value("ollama_total_gib")),
        "failed_alloc": [one.text for one in found.failures] or None,
    }


def _mib(gib: float | None) -> float | None:
    return None if gib is None else round(gib * 1024, 1)


def _sum(figures: list[Figure]) -> float | None:
    return round(sum(figure.value for figure in figures), 2) if figures else None


def _by_device(found: Measurement, name: str) -> dict[str, float] | None:
    devices: dict[str, float] = {}
    for figure in found.every(name, None):
        if figure.section not in ("draft", "mmproj"):
            devices[figure.device] = round(devices.get(figure.device, 0.0) + figure.value, 2)
    return devices or None


def _section(found: Measurement, section: str) -> float | None:
    buffers = list(found.every("kv_buffer_mib", section))
    return _sum(buffers or list(found.every("kv_cache_mib", section)))


def _cache(found: Measurement, figure: Figure) -> Document:
    on_line = {other.name: other.value for other in found.figures if other.line == figure.line}
    labels = figure.labels
    return {
        "section": figure.section or None,
        "mib": figure.value,
        "cells": _whole(on_line.get("cells")),
        "layers": _whole(on_line.get("layers")),
        "seqs": labels.get("seqs"),
        "type_k": labels.get("type_k"),
        "type_v": labels.get("type_v") or labels.get("type_c"),
        "k_mib": on_line.get("k_mib"),
        "v_mib": on_line.get("v_mib") if "v_mib" in on_line else on_line.get("c_mib"),
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _draft(found: Measurement) -> Document | None:
    caches = list(found.every("kv_cache_mib", "draft"))
    compute = {figure.device: figure.value for figure in found.every("compute_buffer_mib", "draft")}
    if not caches and not compute:
        return None
    return {"kv_mib": {"total": _sum(caches)}, "compute_mib": compute}


def _mmproj(found: Measurement) -> Document | None:
    compute = {figure.device: figure.value for figure in found.every("compute_buffer_mib", "mmproj")}
    weights = next((figure.value for figure in found.every("projector_mib", "mmproj")), None)
    return {"weights_mib": weights, "compute_mib": compute} if compute or weights else None


def _breakdown(found: Measurement) -> list[Document] | None:
    """The last breakdown that was printed, a row a device."""
    rows: dict[str, Document] = {}
    for figure in found.figures:
        if figure.name.startswith("bd_"):
            row = rows.setdefault(figure.device, {"device": figure.device, **dict.fromkeys(_BREAKDOWN)})
            size = int(figure.value)
            row[figure.name.removeprefix("bd_")] = size if abs(size) < 2**40 else None  # a wrapped subtraction
    return list(rows.values()) or None


def _fit(found: Measurement) -> Document | None:
    projected, free = found.value("fit_projected_mib"), found.value("fit_free_mib")
    return None if projected is None or free is None else {"projected_mib": int(projected), "free_mib": int(free)}


def _ollama(found: Measurement) -> dict[str, float] | None:
    """Its own estimate, in GiB."""
    start = "ollama_"
    names = dict.fromkeys(
        figure.name for figure in found.figures
        if figure.name.startswith((f"{start}memory_", f"{start}projector_"))
    )  # fmt: skip
    return {name.removeprefix(start): round(found.value(name) or 0.0, 6) for name in names} or None


def _share(share: DeviceShare) -> Document:
    terms: dict[str, Any] = {}
    for name, pair in share.terms.items():
        predicted = pair.predicted
        terms[f"{name}_bytes"] = {
            "printed": pair.printed_bytes,
            "predicted": None if predicted is None else predicted.value,
            "interval": None if predicted is None else [predicted.low, predicted.high],
        }
    return {
        "name": share.name,
        "capacity_bytes": share.capacity_bytes,
        "used_bytes": share.used_bytes,
        "budget_bytes": share.budget_bytes,
        **terms,
        "left_bytes": share.left_bytes,
    }


def _change(change: Change, catalogue: str) -> Document:
    return {
        "flag": change.flag,
        "argument": change.argument,
        "was": change.was,
        "becomes": change.becomes,
        "spare_bytes": change.spare_bytes,
        "max_concurrency": change.max_concurrency,
        "estimate": estimate_document(change.estimate, catalogue=catalogue),
    }
