"""Text Generation Inference by version, 0.9 to 3.3.7, read from its tags (files named beside each fact).

    warm-up   prefills max_batch_prefill_tokens and holds cache for its requests: must fit as it is
    pool      what is then free, less (1 - cuda_memory_fraction) of the card; 5 % less since 1.4, 10 % in 2.4, and
              since 3.0 as a factor of the fraction (0.95, 0.93, 0.90)    models/flash_causal_lm.py, globals.py
    logits    of every prompt token, whole on each shard, until 3.0 dropped them (REQUEST_LOGPROBS)
    outside   CUDA graphs, captured after the pool took its room
    defaults  launcher/src/main.rs

It fills the card: max_batch_total_tokens limits what the router admits, not what is allocated, from 0.9.4 on; a
max_total_tokens that the pool cannot hold is refused at start (router/src/main.rs; backends/v3/src/lib.rs,
NotEnoughMemory), one that was not told follows from the pool since 3.0.
Memory that others hold counts as its own, so that a second process needs a larger fraction than the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import floor

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, Role
from cotenant.domain.workload import Adapter
from cotenant.engines.refusals import decimal, refuse_long, refuse_share, refuse_uneven, valued
from cotenant.engines.rules import (
    CacheRules,
    Capacity,
    ExpertPadding,
    MemoryRules,
    PoolRules,
    Printed,
    ProfileRules,
    RuntimeRules,
)
from cotenant.errors import UnsupportedError
from cotenant.units import plural

NEWEST = Version((3, 3, 7), "3.3.7")
OLDEST = Version((0, 9, 0), "0.9.0")

_Release = tuple[int, ...]
CONCURRENT = 128  # max_concurrent_requests
_FALLBACK_TOKENS = 16000  # max_batch_total_tokens where nothing is measured (router/src/main.rs)


WORDS = {
    "num_shard": "tensor_parallel_size",
    "max_total_tokens": "max_model_len",
    "max_input_tokens": "max_input_tokens",
    "max_input_length": "max_input_tokens",
    "max_batch_prefill_tokens": "max_num_batched_tokens",
    "max_concurrent_requests": "max_num_seqs",
    "cuda_memory_fraction": "gpu_memory_utilization",
    "max_batch_total_tokens": "kv_cache_tokens",
    "dtype": "dtype",
    "kv_cache_dtype": "kv_cache_dtype",
    "quantize": "quantization",
    "lora_adapters": "max_loras",
    "max_lora_rank": "max_lora_rank",
}
"""Its options -> the common settings; `lora_adapters` (LORA_ADAPTERS) counts its list."""


@dataclass(frozen=True, slots=True)
class Tgi:
    """The rules of Text Generation Inference."""

    name: str = "tgi"
    title: str = "TGI"
    newest: Version = NEWEST
    oldest: Version = OLDEST

    def rules(self, version: Version, gpu: GpuSpec | None = None) -> MemoryRules:
        """Memory rules of a version; the same object for the same release number."""
        return _rules(_release(version))

    def profile(self, model: ModelSpec, version: Version, gpu: GpuSpec | None = None) -> ProfileRules:
        """The warm-up's own."""
        return _rules(_release(version)).profile

    def expert_padding(self, format_name: str, gpu: GpuSpec) -> ExpertPadding | None:
        """None known."""
        return None

    def resolve(
        self, model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, version: Version
    ) -> EngineSettings:
        """Defaults of the launcher. Raises UnsupportedError for models that it has no paged cache for."""
        release = _release(version)
        _refuse(model, settings, release)
        total = settings.max_model_len or _default_total(model, release)
        prompt = settings.max_input_tokens or _default_prompt(settings, total, release)
        if settings.max_input_tokens is None and prompt is not None and release < (3, 0):
            prompt = min(prompt, settings.max_num_batched_tokens or prompt)  # else the launcher refuses
        if prompt is not None and prompt >= total:
            raise UnsupportedError(
                f"max_input_tokens {prompt} must be below max_total_tokens {total}",
                hint="leave room for at least one token of output",
            )
        batch = settings.max_num_batched_tokens or _default_batch(model, gpu, settings, prompt, total, release)
        if prompt is not None and settings.max_num_batched_tokens and batch < prompt and release < (3, 0):
            raise UnsupportedError(
                f"max_batch_prefill_tokens {batch} must be at least max_input_tokens {prompt}",
                hint="a whole prompt is prefilled at once before 3.0",
            )
        pool = settings.kv_cache_tokens
        if release < (0, 9, 4):  # the pool was what was asked, and ten blocks
            pool = (pool or _FALLBACK_TOKENS) + 160
        return replace(
            settings,
            kv_cache_tokens=pool if release < (0, 9, 4) else None,
            max_model_len=total,
            max_input_tokens=prompt,
            max_num_batched_tokens=batch,
            max_num_seqs=settings.max_num_seqs or CONCURRENT,
            block_size=settings.block_size or _block_size(model, gpu, release),
            gpu_memory_utilization=settings.gpu_memory_utilization or 1.0,
        )

    def budget(self, base: Interval, settings: EngineSettings) -> Interval:
        """cuda_memory_fraction of the card, less the wiggle room where it is part of the fraction."""
        share = settings.gpu_memory_utilization or 1.0
        return Interval(floor(base.low * share), floor(base.value * share), floor(base.high * share))

    def arguments(
        self,
        settings: EngineSettings,
        *,
        version: Version,
        model_path: str,
        port: int | None = None,
        quantization: str = "",
        served_name: str = "",
        adapters: Sequence[Adapter] = (),
    ) -> tuple[str, ...]:
        """``text-generation-launcher --model-id MODEL ...``"""
        release = _release(version)
        argv: tuple[str, ...] = ("text-generation-launcher", "--model-id", model_path)
        if port is not None:
            argv += ("--port", str(port))
        return (*argv, *_flags(settings, release, quantization), *_adapter_flags(release, adapters))


TGI = Tgi()


def _release(version: Version) -> _Release:
    return (*version.parts, 0, 0, 0)[:3]


@lru_cache(maxsize=256)
def _rules(release: _Release) -> MemoryRules:
    usable, kept = _wiggle_room(release)
    return MemoryRules(
        capacity=Capacity.CUDA,
        cache=CacheRules(hybrid=False, printed=Printed.TOKENS, latent_heads_width=192),
        profile=_profile_rules(release),
        runtime=RuntimeRules(
            context_in_budget=True,
            communicators_in_budget=True,
            graphs_in_budget=False,
            others_in_budget=True,
            start_check=False,
            graph_modes=1 if release >= (2, 0) else 0,
            largest_graph=32,
            graph_sizes=(1, 2, 4, 8, 16, 32),
        ),
        has_cache_bytes=False,
        adapters_on_vocabulary=False,  # adapters/lora.py loads linear layers
        pool=PoolRules(
            usable=usable,
            kept=kept,
            warms_cache=True,
            warms_answers=release >= (1, 1, 1),  # before: two tokens each (router/client/src/client.rs)
            of_free=True,
            holds_longest=release >= (0, 9, 4),  # `max_total_tokens` must be <= `max_batch_total_tokens`
            infers_longest=True,
            unspared=_SPARED if (0, 9, 4) <= release < (1, 4, 1) else 0.0,
        ),
        limits=_limits if release >= (2, 0) else _limits_v1,
        notes=_notes(release),
        share_option="cuda_memory_fraction",
    )


def _limits_v1(settings: EngineSettings, tokens: int) -> tuple[str, ...]:
    """Too small: what its router turns away or lets wait (router/src/validation.rs, infer.rs)."""
    prompt, total, requests = settings.max_input_tokens, settings.max_model_len or 1, settings.max_num_seqs or 1
    if prompt is None:  # both follow from the pool, and who set no limits is not told of them
        return ()
    found = (
        f"refused: prompts above {prompt:,} tokens, or {total:,} with the answer (HTTP 422), and more than "
        f"{requests:,} requests at once (HTTP 429)"
    )
    at_once = tokens // total
    if not 0 < at_once < requests:
        return (found,)
    return (
        found,
        f"the pool holds {plural(at_once, 'request')} of {total:,} tokens: others of the {requests:,} wait",
    )


def _limits(settings: EngineSettings, tokens: int) -> tuple[str, ...]:
    """The same since 2.0, where a request need not say how much it may answer."""
    found = _limits_v1(settings, tokens)
    if not found:
        return found
    return (
        f"{found[0]}; an answer of unsaid length is cut at {settings.max_model_len:,} with its prompt",
        *found[1:],
    )


# What 1.4.1 began to spare of what is free ("Leave 5% for some wiggle room", models/flash_causal_lm.py). Before,
# servers whose warm-up had fitted ran out on requests within their limits (issues 653 and 1374: 1.6 GiB reserved
# in blocks of other sizes).
_SPARED = 0.05


def _wiggle_room(release: _Release) -> tuple[float, float]:
    """(part of the fraction that may be used, part of what is left that goes to the pool)."""
    if release >= (3, 3):
        return 0.90, 1.0
    if release >= (3, 1):
        return 0.93, 1.0
    if release >= (3, 0):
        return 0.95, 1.0
    if release >= (2, 4):
        return 1.0, 0.90
    return 1.0, 1.0 - _SPARED if release >= (1, 4, 1) else 1.0


# layers/awq/quantize/qmodule.py: gemm_forward_cuda(..., 8) writes eight partial results; Marlin since 2.2.
_AWQ_SPLITS = 8


def _profile_rules(release: _Release) -> ProfileRules:
    """Logits of all prompt tokens in 16 bits and their log-softmax beside them; in place since 2.4; none since 3.0
    unless REQUEST_LOGPROBS asks for them."""
    prompts = 4.0 if release < (2, 4) else 2.0 if release < (3, 0) else 0.0
    own = ProfileRules(
        logit_bytes=38.0,  # the warm-up's requests sample with top-k and top-p: sorts (utils/logits_process.py)
        logit_bytes_low=14.0,
        logit_bytes_small=38.0,
        compiled=False,
        prompt_logit_bytes=prompts,
        gathered_logits=True,
        whole_prompts=True,
        counts_reserved=True,
        run="warm-up",
    )
    if release >= (2, 2):
        return own
    return replace(own, formats=(("awq", replace(own, output_copies=_AWQ_SPLITS)),))


def _notes(release: _Release) -> tuple[str, ...]:
    if release > NEWEST.parts:
        return (f"rules were read from TGI {NEWEST} and earlier; a newer version may differ",)
    if release < (1, 1, 1):
        return ("this version reports every failure of its warm-up as too little memory",)
    return ()


def _refuse(model: ModelSpec, settings: EngineSettings, release: _Release) -> None:
    refuse_uneven("TGI", model, settings)
    refuse_share("cuda_memory_fraction", settings.gpu_memory_utilization)
    refuse_long("max_total_tokens", model, settings.max_model_len)
    if settings.pipeline_parallel_size > 1 or settings.data_parallel_size > 1:
        raise UnsupportedError("TGI splits a model by tensor parallel alone", hint="use num_shard")
    kinds = {group.kind for group in model.layer_groups}
    if AttentionKind.RECURRENT in kinds:
        raise UnsupportedError(
            f"TGI has no cache for the recurrent layers of {model.name}", hint="use vllm or sglang"
        )
    if model.encoder_only:
        raise UnsupportedError(f"{model.name} generates nothing: TGI does not serve it", hint="use vllm")
    if AttentionKind.CROSS in kinds and Role.VISION not in {group.role for group in model.parameters}:
        raise UnsupportedError(
            f"TGI pages no cache for the encoder-decoder {model.name}",
            hint="it sets max batch total tokens to 16,000, a constant and no measurement",
        )
    if settings.adapters is not None and release < (2, 1):
        raise UnsupportedError("TGI knows LORA_ADAPTERS from 2.1 on")
    if settings.kv_cache_dtype.startswith("fp8") and release < (2, 4):
        raise UnsupportedError("TGI knows --kv-cache-dtype from 2.4 on")


def _default_total(model: ModelSpec, release: _Release) -> int:
    """max_total_tokens; since 3.0 whatever the model takes and the pool holds."""
    if release >= (3, 0):
        return model.max_model_len
    return min(model.max_model_len, 4096) if release >= (2, 0) else min(model.max_model_len, 2048)


def _default_prompt(settings: EngineSettings, total: int, release: _Release) -> int | None:
    """max_input_tokens; None where 3.0 infers it after the warm-up."""
    if release >= (3, 0):
        return None if settings.max_model_len is None else total - 1
    return total - 1 if release >= (2, 0) else min(1024, total - 1)


def _default_batch(
    model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, prompt: int | None, total: int, release: _Release
) -> int:
    """max_batch_prefill_tokens: 4,096; 50 more than a prompt since 2.0; since 3.0 as many as the card computes in
    a second, by the launcher's own tables, within what its memory would hold."""
    if release < (2, 0):
        return max(4096, prompt or 0)
    if release < (3, 0):
        return (prompt or total) + 50
    tokens = min(_optimal_tokens(model, gpu, settings.tensor_parallel_size), model.max_model_len)
    return max(1, min(tokens, _most_tokens(model, gpu, settings)))


# launcher/src/main.rs, f16_flop: 10^12 a second.
_TERAFLOPS = (("4090", 82), ("t4", 65), ("l40s", 363), ("l40", 181), ("l4", 121), ("a10g", 125), ("a40", 149),
              ("a100", 312), ("h100", 900), ("h200", 989))  # fmt: skip
_BATCHES = {"qwen2_vl": 10_000, "qwen2_5_vl": 10_000, "gemma3": 8000}


def _optimal_tokens(model: ModelSpec, gpu: GpuSpec, shards: int) -> int:
    default = next((size for name, size in _BATCHES.items() if name in model.family), 4096)
    name = gpu.name.lower().replace("rtx", "").strip()
    rate = next((flops for known, flops in _TERAFLOPS if known in name.split("-") or known == name), None)
    if rate is None or Role.VISION in {group.role for group in model.parameters}:
        return default
    group = _widest_group(model)
    heads, kv, width = group.query_heads, group.kv_heads, group.key_width
    attention = 2 * model.hidden_size * width * (3 * heads + 2 * kv)
    inner = 6 * model.hidden_size * model.intermediate_size * max(1, model.experts_per_token)
    best = rate * 10**12 * shards // max(1, (attention + inner) * model.num_layers)
    return best if best > 100 else default


def _most_tokens(model: ModelSpec, gpu: GpuSpec, settings: EngineSettings) -> int:
    """What the launcher believes the card to hold (vram_maximum); no limit for quantised models."""
    if model.quantization:
        return model.max_model_len
    group, experts = _widest_group(model), max(1, model.num_experts)
    heads, kv, width, hidden = group.query_heads, group.kv_heads, group.key_width, model.hidden_size
    layer = 3 * model.intermediate_size * experts * hidden + (heads + 2 * kv) * width + heads * width * hidden
    weights = 2 * (layer * model.num_layers + 2 * hidden * model.vocab_size)
    share = settings.gpu_memory_utilization or 1.0
    free = floor(gpu.driver_bytes.value * settings.tensor_parallel_size * share * 0.95) - weights
    token = 4 * kv * width * model.num_layers + 9 * model.intermediate_size * experts
    return free // token if free > 0 else model.max_model_len


def _widest_group(model: ModelSpec) -> LayerGroup:
    return max(model.layer_groups, key=lambda group: (group.query_heads, group.num_layers))


def _block_size(model: ModelSpec, gpu: GpuSpec, release: _Release) -> int:
    """Tokens a block by attention kernel: FlashInfer 1, flash decoding 256, paged 16 (models/globals.py)."""
    if release < (2, 3):
        return 16
    group = _widest_group(model)
    if group.key_width in (64, 128, 256) and group.kind is not AttentionKind.LATENT:
        return 1
    return 256 if (gpu.compute_capability or (8, 0)) >= (8, 0) else 16


_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "auto": None}
_CACHE_DTYPES = {"auto": None, "fp8": "fp8_e4m3fn", "fp8_e4m3": "fp8_e4m3fn"}


def _flags(settings: EngineSettings, release: _Release, quantization: str) -> tuple[str, ...]:
    """max_total_tokens is said only with max_input_tokens: alone 3.0 infers both."""
    shards, share = settings.tensor_parallel_size, settings.gpu_memory_utilization
    prompt = settings.max_input_tokens
    flags = valued(
        (
            ("--num-shard", shards if shards > 1 else None),
            ("--dtype", None if quantization else _DTYPES.get(settings.dtype, settings.dtype)),
            ("--quantize", quantization or None),
            ("--kv-cache-dtype", _CACHE_DTYPES.get(settings.kv_cache_dtype, settings.kv_cache_dtype)),
            ("--max-input-tokens" if release >= (2, 0) else "--max-input-length", prompt),
            ("--max-total-tokens", settings.max_model_len if prompt is not None else None),
            ("--max-batch-prefill-tokens", settings.max_num_batched_tokens),
            ("--max-concurrent-requests", settings.max_num_seqs),
            ("--cuda-memory-fraction", decimal(share) if share is not None and share < 1 else None),
        )
    )
    if settings.enforce_eager and release >= (2, 0):
        flags += ("--cuda-graphs", "0")
    return flags


def _adapter_flags(release: _Release, adapters: Sequence[Adapter]) -> tuple[str, ...]:
    """--lora-adapters (LORA_ADAPTERS): ids, or name=path since 2.2."""
    if not adapters:
        return ()
    named = [f"{one.name}={one.source}" if one.source and release >= (2, 2) else one.source or one.name
             for one in adapters]  # fmt: skip
    return ("--lora-adapters", ",".join(named))
