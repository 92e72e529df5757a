"""The argument vector of `sglang.launch_server`, by release.

What each release knows: python/sglang/srt/server_args.py of sgl-project/sglang at the tags v0.2.0 to v0.5.11, and
of the package 0.5.23.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.engine import EngineSettings
from cotenant.domain.workload import Adapter
from cotenant.engines.refusals import decimal, refuse_newer, valued
from cotenant.engines.speculative import sglang_flags

_Release = tuple[int, ...]
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "auto": None}
_CACHE_DTYPES = {"auto": None, "fp8": "fp8_e4m3", "bf16": "bf16", "bfloat16": "bf16"}


def tp_size(settings: EngineSettings) -> int:
    """--tp-size counts all GPUs of a stage: with DP attention every copy of attention has a part of them."""
    return settings.tensor_parallel_size * settings.data_parallel_size


def refuse_unknown(settings: EngineSettings, release: _Release) -> None:
    """Raise UnsupportedError for what that release has no flag for."""
    refuse_newer(
        "SGLang",
        release,
        ("--max-total-tokens", settings.kv_cache_tokens is not None, (0, 2, 9)),
        ("--kv-cache-dtype", settings.kv_cache_dtype != "auto", (0, 2, 14)),
        ("--lora-paths", settings.adapters is not None, (0, 3, 2)),
        ("--enable-dp-attention", settings.data_parallel_size > 1, (0, 3, 6)),
        ("--speculative-algorithm", settings.speculation is not None, (0, 4, 2)),
        ("--page-size", settings.block_size is not None, (0, 4, 4)),
        ("--pp-size", settings.pipeline_parallel_size > 1, (0, 4, 6)),  # with its second post-release
    )


def head(release: _Release, model_path: str, served_name: str, port: int | None) -> tuple[str, ...]:
    """``python -m sglang.launch_server`` with the model, and its name where the release can be told one."""
    named = served_name if served_name and release >= (0, 2, 9) else None
    return (
        "python", "-m", "sglang.launch_server",
        *valued((("--model-path", model_path), ("--served-model-name", named), ("--port", port))),
    )  # fmt: skip


def flags(settings: EngineSettings, release: _Release, quantization: str) -> tuple[str, ...]:
    """Flags with a value in a fixed order, then those without."""
    ranks, stages, copies = tp_size(settings), settings.pipeline_parallel_size, settings.data_parallel_size
    graphs = "--cuda-graph-max-bs-decode" if release >= (0, 5, 16) else "--cuda-graph-max-bs"
    eager = settings.enforce_eager
    told = valued(
        (
            ("--tp-size", ranks if ranks > 1 else None),
            ("--pp-size", stages if stages > 1 else None),
            ("--dp-size", copies if copies > 1 else None),
            ("--ep-size", ranks if settings.enable_expert_parallel and release >= (0, 5) else None),
            ("--dtype", _DTYPES.get(settings.dtype, settings.dtype)),
            ("--quantization", quantization or None),
            ("--kv-cache-dtype", _CACHE_DTYPES.get(settings.kv_cache_dtype, settings.kv_cache_dtype)),
            ("--context-length", settings.max_model_len),
            ("--max-running-requests", settings.max_num_seqs),
            ("--chunked-prefill-size", settings.max_num_batched_tokens if release >= (0, 2, 7) else None),
            ("--mem-fraction-static", decimal(settings.gpu_memory_utilization)),
            ("--max-total-tokens", settings.kv_cache_tokens),
            ("--page-size", settings.block_size),
            (graphs, None if eager or release < (0, 3, 5) else settings.max_graph_batch),
        )
    )
    told += ("--enable-dp-attention",) if copies > 1 else ()
    if settings.speculation is not None:
        drafted = settings.speculation.draft
        told += sglang_flags(
            settings.speculation.method, settings.speculation.tokens, "" if drafted is None else drafted.name
        )
    return (*told, "--disable-cuda-graph") if eager else told


def adapter_flags(settings: EngineSettings, release: _Release, adapters: Sequence[Adapter]) -> tuple[str, ...]:
    """LoRA: adapters as name=path, slots, and the largest rank where the version can be told (0.4.9.post3)."""
    slots = settings.adapters
    if slots is None and not adapters:
        return ()
    many = slots.max_loras if slots else len(adapters)
    rank = slots.max_lora_rank if slots else max(adapter.rank for adapter in adapters)
    told: tuple[str, ...] = ("--max-loras-per-batch", str(many))
    if release >= (0, 4, 10):
        told += ("--enable-lora", "--max-lora-rank", str(rank))
    if adapters:
        told += ("--lora-paths", *(f"{adapter.name}={adapter.source or adapter.name}" for adapter in adapters))
    return told
