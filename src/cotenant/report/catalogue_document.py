"""Facts and matrices as the JSON documents of the contract: cards, models, a model taken apart, precisions."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.catalogue.models import ModelEntry
from cotenant.domain.anatomy import Anatomy, GroupCache
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.matrix import PrecisionMatrix
from cotenant.domain.quantization import PrecisionChoice
from cotenant.report.document import Document, header


def gpus_document(gpus: Sequence[GpuSpec], *, catalogue: str) -> Document:
    """The catalogue of cards; rates are per second."""
    return {**header("gpus", catalogue=catalogue), "gpus": [_gpu_spec(gpu) for gpu in gpus]}


def _gpu_spec(gpu: GpuSpec) -> Document:
    capability = gpu.compute_capability
    return {
        "name": gpu.name,
        "aliases": list(gpu.aliases),
        "vendor": gpu.vendor,
        "architecture": gpu.architecture,
        "driver_bytes": gpu.driver_bytes.value,
        "cuda_bytes": gpu.cuda_bytes.value,
        "cuda_measured": gpu.cuda_measured,
        "intervals": {
            "driver_bytes": [gpu.driver_bytes.low, gpu.driver_bytes.high],
            "cuda_bytes": [gpu.cuda_bytes.low, gpu.cuda_bytes.high],
        },
        "memory_bandwidth": gpu.memory_bandwidth,
        "peak_flops": dict(gpu.peak_flops),
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else gpu.gfx,
        "link_bandwidth": gpu.link_bandwidth,
        "host_bandwidth": gpu.host_bandwidth,
        "price_per_hour": gpu.price_per_hour,
        "price_source": gpu.price_source,
        "sources": dict(gpu.sources or {}),
    }


def inspect_document(anatomy: Anatomy, *, catalogue: str, input_hash: str = "") -> Document:
    """What a model is made of."""
    loaded, model = anatomy.model, anatomy.model.spec
    return {
        **header("inspect", catalogue=catalogue, input_hash=input_hash),
        "model": model.name,
        "model_id": loaded.model_id,
        "source": model.source or loaded.source,
        "architecture": model.architecture,
        "family": model.family,
        "task": loaded.task,
        "quantization": anatomy.format,
        "parameters": model.num_parameters,
        "draft_parameters": model.num_draft_parameters,
        "active_parameters": anatomy.active_parameters,
        "parameters_by_role": {str(role): count for role, count in anatomy.parameters_by_role.items()},
        "weights_bytes": anatomy.weights_bytes,
        "weights_bytes_by_format": dict(anatomy.bytes_by_format),
        "kv_bytes_per_token": anatomy.kv_bytes_per_token,
        "kv_bytes_per_sequence": anatomy.kv_bytes_per_sequence,
        "layer_groups": [_layer_group(part) for part in anatomy.groups],
        "modalities": list(model.modalities),
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "max_model_len": model.max_model_len,
        "num_experts": model.num_experts,
        "experts_per_token": model.experts_per_token,
        "checkpoints": dict(loaded.checkpoints),
        "notes": list(model.notes),
    }


def _layer_group(part: GroupCache) -> Document:
    group = part.group
    return {
        "kind": str(group.kind),
        "num_layers": group.num_layers,
        "layers": list(group.layers),
        "query_heads": group.query_heads,
        "kv_heads": group.kv_heads,
        "key_width": group.key_width,
        "value_width": group.value_width,
        "window": group.window,
        "kv_bytes_per_token": part.bytes_per_token,
        "kv_bytes_per_sequence": part.bytes_per_sequence,
    }


def models_document(entries: Sequence[ModelEntry], *, catalogue: str) -> Document:
    """The catalogue of models, with what is published of each."""
    return {
        **header("models", catalogue=catalogue),
        "models": [
            {
                "id": entry.id,
                "aliases": list(entry.aliases),
                "parameters": entry.published.parameters,
                "parameters_exact": entry.published.exact,
                "parameters_source": entry.published.source,
                "config_source": entry.config_source,
                "checkpoints": dict(entry.checkpoints),
                "license": entry.license,
                "task": entry.task,
            }
            for entry in entries
        ],
    }


def quantize_document(matrix: PrecisionMatrix, *, catalogue: str, input_hash: str = "") -> Document:
    """The decision matrix, best first."""
    version = f"@{matrix.engine_version}" if matrix.engine_version else ""
    return {
        **header("quantize", catalogue=catalogue, input_hash=input_hash),
        "model": matrix.model,
        "gpu": matrix.gpu,
        "engine": f"{matrix.engine}{version}",
        "task": matrix.task,
        "max_loss_percent": matrix.max_loss_percent,
        "choices": [_choice(choice, matrix.bytes_by_format.get(choice.format)) for choice in matrix.choices],
    }


def _choice(choice: PrecisionChoice, size: int | None) -> Document:
    kernel, figure = choice.kernel, choice.quality
    return {
        "rank": choice.rank,
        "format": choice.format,
        "title": choice.title,
        "advice": str(choice.advice),
        "reason": choice.reason,
        "warning": choice.warning,
        "weights_bytes": size,
        "kernel": kernel.kernel if kernel else None,
        "speed": str(kernel.speed) if kernel else None,
        "kernel_source": kernel.source if kernel else None,
        "memory_only": choice.memory_only,
        "checkpoint": choice.checkpoint or None,
        "online": choice.online,
        "quality_known": choice.quality_known,
        "quality": None
        if figure is None
        else {
            "loss_percent": figure.loss_percent,
            "model": figure.model,
            "task": figure.task,
            "metric": figure.metric,
            "source": figure.source,
        },
    }
