"""The argument vector of `vllm serve`."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.domain.engine import EngineSettings, Speculation
from cotenant.domain.workload import Adapter
from cotenant.engines.vllm.defaults import lora_rank
from cotenant.engines.vllm.releases import Release

_TEXT_ALONE = ("--language-model-only",)
_NO_MEDIA = ("--limit-mm-per-prompt", '{"image": 0, "video": 0, "audio": 0}')
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "auto": None}


def flags(settings: EngineSettings, release: Release, quantization: str) -> tuple[str, ...]:
    """Flags with a value in a fixed order; numbers as the engine reads them."""
    ranks, stages = settings.tensor_parallel_size, settings.pipeline_parallel_size
    copies, shared = settings.data_parallel_size, settings.decode_context_parallel_size
    valued: tuple[tuple[str, object], ...] = (
        ("--tensor-parallel-size", ranks if ranks > 1 else None),
        ("--pipeline-parallel-size", stages if stages > 1 else None),
        ("--data-parallel-size", copies if copies > 1 else None),
        ("--decode-context-parallel-size", shared if shared > 1 else None),
        ("--dtype", _DTYPES.get(settings.dtype, settings.dtype)),
        ("--quantization", quantization or None),
        ("--kv-cache-dtype", settings.kv_cache_dtype if settings.kv_cache_dtype != "auto" else None),
        ("--max-model-len", settings.max_model_len),
        ("--max-num-seqs", settings.max_num_seqs),
        ("--max-num-batched-tokens", settings.max_num_batched_tokens),
        ("--gpu-memory-utilization", _decimal(settings.gpu_memory_utilization)),
        ("--kv-cache-memory-bytes", settings.kv_cache_memory_bytes),
        ("--block-size", settings.block_size),
    )
    flags = tuple(part for name, value in valued if value is not None for part in (name, str(value)))
    if settings.enforce_eager:
        flags += ("--enforce-eager",)
    if settings.enable_prefix_caching:
        flags += ("--enable-prefix-caching",)
    if settings.enable_prefix_caching is False and release >= (0, 6, 5):  # before, off unless it was switched on
        flags += ("--no-enable-prefix-caching",)
    if settings.language_model_only:
        flags += _TEXT_ALONE if release >= (0, 16) else _NO_MEDIA
    if settings.enable_sleep_mode:
        flags += ("--enable-sleep-mode",)
    if settings.speculation is not None:
        flags += _speculative(settings.speculation, release)
    if settings.enable_expert_parallel and release >= (0, 8):
        flags += ("--enable-expert-parallel",)
    return flags


def _speculative(asked: Speculation, release: Release) -> tuple[str, ...]:
    """One object since 0.8.3; before, a draft by its name, or the model's own layers by their number alone."""
    if release < (0, 8, 3):
        draft = () if asked.draft is None else ("--speculative-model", asked.draft.name)
        return (*draft, "--num-speculative-tokens", str(asked.tokens))
    own = "" if asked.draft is None else f'"model": "{asked.draft.name}", '
    return (
        "--speculative-config",
        f'{{"method": "{asked.method}", {own}"num_speculative_tokens": {asked.tokens}}}',
    )


def _decimal(share: float | None) -> str | None:
    return None if share is None else f"{share:.4f}".rstrip("0").rstrip(".")


def priority_flags(release: Release) -> tuple[str, ...]:
    """Running requests of lower priority give way where the cache is full, and are computed again later.

    The V1 engine does so from 0.9.2 on (vllm-project/vllm#19057); older ones would fall back to the engine before
    it, whose memory is another, so they are not asked to. Lower numbers come first there.
    """
    return ("--scheduling-policy", "priority") if release >= (0, 9, 2) else ()


def adapter_flags(settings: EngineSettings, adapters: Sequence[Adapter]) -> tuple[str, ...]:
    """LoRA: slots, the largest rank, and each adapter as name=path."""
    if settings.adapters is None and not adapters:
        return ()
    slots = settings.adapters.max_loras if settings.adapters else len(adapters)
    rank = settings.adapters.max_lora_rank if settings.adapters else max(adapter.rank for adapter in adapters)
    rank = lora_rank(rank)
    flags: tuple[str, ...] = ("--enable-lora", "--max-loras", str(slots), "--max-lora-rank", str(rank))
    if adapters:
        flags += ("--lora-modules", *(f"{adapter.name}={adapter.source or adapter.name}" for adapter in adapters))
    return flags
