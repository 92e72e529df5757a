"""What `estimate` may be asked beside model and card: one list, by whom the words concern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from cotenant.domain.workload import Adapter

Percentiles = Mapping[str, int]  # {p50: …, p95: …, max: …}, in tokens


class EngineWords(TypedDict, total=False):
    """Settings that engines share, by vLLM's names. One left out, or None, takes the engine's default or follows
    from the traffic."""

    tensor_parallel_size: int
    pipeline_parallel_size: int
    decode_context_parallel_size: int
    dtype: str
    kv_cache_dtype: str
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    gpu_memory_utilization: float | None
    kv_cache_memory_bytes: int | None
    block_size: int | None
    enforce_eager: bool
    enable_expert_parallel: bool
    enable_prefix_caching: bool | None
    enable_lora: bool
    language_model_only: bool
    max_loras: int | None
    max_lora_rank: int | None


class TrafficWords(TypedDict, total=False):
    """The traffic to size for: `concurrent` with `context_tokens`, or `requests_per_second` with the other two."""

    concurrent: int | None
    requests_per_second: float | None
    context_tokens: Percentiles | None
    input_tokens: Percentiles | None
    output_tokens: Percentiles | None


class Wish(TypedDict, total=False):
    """What latency must keep (``500ms``), at which percentile of the requests."""

    ttft: str | None
    tpot: str | None
    percentile: float


class Asked(EngineWords, TrafficWords, Wish, total=False):
    """Every further word of `estimate`."""

    engine: str
    quantization: str | None
    used: str | int
    speculative_config: Mapping[str, Any] | str | None
    adapters: Sequence[Adapter | Mapping[str, Any]]
    kv_overflow: str
    options: Mapping[str, Any] | None
