"""From a plan's replica to what the simulator needs of it: its limits and the times of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.domain.estimate import Estimate
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.plan import ReplicaPlan
from cotenant.domain.step_time import StepTimes
from cotenant.engines import find_engine
from cotenant.engines.hosting import slots_of
from cotenant.engines.starting import starting
from cotenant.estimation.paths import link_rate
from cotenant.estimation.served_format import served_format
from cotenant.estimation.step_time import step_times
from cotenant.estimation.swapping import swap_seconds
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.load import Limits

_BLOCK = 16  # tokens, where the engine leaves it to its kernels
_BATCHED = 2048  # tokens of a step, where an engine has no such limit
_CACHING = ("vllm", "sglang")  # vLLM's V1 engine (vllm/config/cache.py), SGLang's radix cache: on by default


@dataclass(frozen=True, slots=True)
class Hosting:
    """One replica as the simulator sees it. Bytes are of one rank; `link_rate` is of its cards to host memory,
    bytes/s; `swap_s` how long it takes to fall asleep and to wake, by mode (`engines.sleeping`); asleep it
    keeps its runtime (a process with its CUDA context), unless it is stopped."""

    id: str
    model: str
    cards: tuple[tuple[int, int], ...]  # (node, index)
    limits: Limits
    costs: StepCosts
    times: StepTimes
    claimed_bytes: int
    runtime_bytes: int
    kv_cache_bytes: int
    link_rate: float
    swap_s: Mapping[str, tuple[float, float]]
    prefix_caching: bool = False  # whether its engine keeps what prompts begin with, unless told not to


def hosting(request: ModelRequest, replica: ReplicaPlan, estimate: Estimate) -> Hosting:
    """Limits from the estimate's settings and pool, times from the roofline of the format on the card.

    A model without a KV cache reads prompts and is done: its pool is never short.
    """
    settings = estimate.settings
    engine, version = find_engine(f"{replica.engine}@{replica.engine_version}")
    size, seqs = settings.block_size or _BLOCK, slots_of(engine.name, version, settings)
    pool = estimate.kv_cache.tokens if request.model.has_cache else seqs * request.model.max_model_len
    limits = Limits(
        max_num_seqs=seqs,
        max_num_batched_tokens=max(seqs, settings.max_num_batched_tokens or _BATCHED),
        block_size=size,
        num_blocks=max(1, pool // size),
        max_model_len=min(settings.max_model_len or request.model.max_model_len, 2**22),
    )
    loaded = LoadedModel(request.model, request.model_id, request.checkpoints, request.task, "")
    served = served_format(loaded, replica.quantization, estimate.gpu, engine=engine, version=version)
    times = step_times(
        request.model, estimate.gpu, engine=engine.name, version=version, format=served.format,
        tensor_parallel_size=settings.tensor_parallel_size, kv_cache_dtype=settings.kv_cache_dtype,
        kernel=served.kernel, most_sequences=seqs, longest_tokens=limits.max_model_len,
        prompt_tokens=limits.max_num_batched_tokens, held_tokens=limits.num_blocks * size,
    )  # fmt: skip
    cards = tuple((device.node, device.index) for device in replica.devices)
    rank = estimate.per_gpu[0]
    return Hosting(
        replica.id, replica.model, cards, limits, StepCosts.of(times), times,
        claimed_bytes=rank.claimed_bytes,
        runtime_bytes=rank.runtime.bytes.value,
        kv_cache_bytes=rank.kv_cache.bytes.value,
        link_rate=link_rate(estimate.gpu),
        prefix_caching=request.model.has_cache and engine.name in _CACHING,
        swap_s=swap_seconds(
            rank.weights.bytes.value, estimate.gpu, rank.kv_cache.bytes.value,
            starting=starting(engine.name, version, enforce_eager=settings.enforce_eager),
        ),
    )  # fmt: skip
