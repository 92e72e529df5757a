"""One way to serve a model, and whether a plan may choose it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Way:
    """A format on a type of card, in groups of `tensor_parallel_size` x `pipeline_parallel_size` cards,
    `replicas` of them (0: not sized).
    `claim_bytes` are of one card; `busy` and `slack` as in the planner's problem (None: none, or not sized).
    Where it is not `offered`, `reason` says what is better, or what forbids it."""

    model: str
    format: str
    gpu: str
    kv_cache_dtype: str
    tensor_parallel_size: int
    replicas: int
    claim_bytes: int
    busy: float | None
    slack: float | None
    offered: bool
    reason: str
    pipeline_parallel_size: int = 1
    expert_parallel: bool = False
    max_num_batched_tokens: int | None = None  # None: not sized
    step_share: float = 1.0  # that number over the engine's own
