"""vLLM by version, 0.3 to 0.33, read from its released sources (files named beside each fact).

    budget      CUDA's total x gpu_memory_utilization              worker/worker.py, v1/worker/gpu_worker.py
    pool        budget - weights - profile run's peak - non-torch [- graph estimate]
                                                                   utils/mem_utils.py, memory_profiling
    pages       v1/kv_cache_interface.py, v1/core/kv_cache_utils.py; state pages: platforms/interface.py
    defaults    engine/arg_utils.py, config/cache.py, config.py (V0)
    sampler     v1/sample/ops/topk_topp_sampler.py; dummy rows: v1/worker/gpu_model_runner.py

V1 is taken from 0.8 on, where it became the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from cotenant.domain.engine import EngineSettings, Speculation, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.domain.workload import Adapter
from cotenant.engines.rules import (
    CacheRules,
    Capacity,
    ExpertPadding,
    MemoryRules,
    Printed,
    ProfileRules,
    RuntimeRules,
)
from cotenant.errors import UnsupportedError
from cotenant.units import GIB, MIB

# The last release whose files were read.
NEWEST = Version((0, 33, 0), "0.33.0")
OLDEST = Version((0, 3, 0), "0.3.0")

# Bytes alive per logit at the sampler's peak. Sorting (top-k and top-p together, as the dummy run asks):
# logits in the model's dtype 2, in fp32 4, sorted values 4, their int64 indices 8, and the sort's own buffers:
# two of (segment, index) pairs 8 + 8 and a copy of the keys 4 (PyTorch's Sort.cu). Without a sort (a Triton
# kernel that works in place, or FlashInfer followed by the native draw): 2 + 4, probabilities 4, noise 4.
_SORTING, _IN_PLACE = 38.0, 14.0
_TRITON_ROWS = 8  # apply_top_k_top_p takes the kernel from 8 rows on


@dataclass(frozen=True, slots=True)
class Vllm:
    """The rules of vLLM."""

    name: str = "vllm"
    title: str = "vLLM"
    aliases: tuple[str, ...] = ("vllm-openai",)
    newest: Version = NEWEST
    oldest: Version = OLDEST

    def rules(self, version: Version, gpu: GpuSpec | None = None) -> MemoryRules:
        """Memory rules of a version; the same object for the same release number and generation."""
        return _rules(_release(version, gpu))

    def profile(self, model: ModelSpec, version: Version, gpu: GpuSpec | None = None) -> ProfileRules:
        """The second model runner where the version uses it for that model, else the version's own."""
        release = _release(version, gpu)
        return _second_profile(release) if _has_second_runner(model, release) else _rules(release).profile

    def expert_padding(self, format_name: str, gpu: GpuSpec) -> ExpertPadding | None:
        """MXFP4 experts (model_executor/layers/quantization/mxfp4.py): Blackwell's kernel pads both sides to 256,
        Hopper's swizzled layout the packed inputs to 256, Marlin the inner width to 128 and the hidden to 256."""
        if format_name != "mxfp4" or gpu.vendor.lower() != "nvidia":
            return None
        capability = gpu.compute_capability or (8, 0)
        if capability[0] == 10:
            return ExpertPadding(inner=256, hidden=256)
        return ExpertPadding(inputs=256) if capability[0] == 9 else ExpertPadding(inner=128, hidden=256)

    def resolve(
        self, model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, version: Version
    ) -> EngineSettings:
        """Defaults of `vllm serve` of that version on that card. Raises UnsupportedError where it refuses."""
        release = _release(version, gpu)
        _refuse(model, settings, release)
        length = settings.max_model_len or model.max_model_len
        tokens, seqs = _batch_defaults(model, gpu, length, release, settings.adapters is not None)
        if settings.max_num_batched_tokens is not None:
            tokens = settings.max_num_batched_tokens
        if settings.max_num_seqs is not None:
            seqs = settings.max_num_seqs
        if settings.max_num_batched_tokens is None and release >= (0, 8):
            tokens = min(tokens, seqs * length)
        if settings.max_num_seqs is None:
            seqs = min(seqs, tokens)
        slots = settings.adapters
        if slots is not None:
            slots = replace(slots, max_lora_rank=_lora_rank(slots.max_lora_rank))
        return replace(
            settings,
            adapters=slots,
            max_model_len=length,
            max_num_batched_tokens=tokens,
            max_num_seqs=seqs,
            gpu_memory_utilization=_utilization(settings, release),
        )

    def budget(self, capacity: Interval, settings: EngineSettings) -> Interval:
        """CUDA's total times the utilisation, rounded up (v1/worker/utils.py, request_memory)."""
        share = settings.gpu_memory_utilization or 0.0
        return Interval(ceil(capacity.low * share), ceil(capacity.value * share), ceil(capacity.high * share))

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
        """``vllm serve MODEL --flag value ...``; before 0.5.4 the module of the API server."""
        release = _short(version)
        argv = ["vllm", "serve", model_path]
        if release < (0, 5, 4):
            argv = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", model_path]
        if served_name:
            argv += ["--served-model-name", served_name]
        if port is not None:
            argv += ["--port", str(port)]
        return (*argv, *_flags(settings, release, quantization), *_adapter_flags(settings, adapters))


VLLM = Vllm()

_Release = tuple[int, ...]
_LAST_V0 = (0, 7, 3)


def _release(version: Version, gpu: GpuSpec | None) -> _Release:
    """The release whose rules count: cards before Ampere stayed on V0 until 0.10.1 (engine/arg_utils.py,
    _is_v1_supported_oracle)."""
    release = _short(version)
    if gpu is not None and (0, 8) <= release < (0, 10, 1) and (gpu.compute_capability or (8, 0)) < (8, 0):
        return _LAST_V0
    return release


def _short(version: Version) -> _Release:
    """(major, minor, patch): rules never differ below that."""
    return (*version.parts, 0, 0, 0)[:3]


@lru_cache(maxsize=256)
def _rules(release: _Release) -> MemoryRules:
    return MemoryRules(
        capacity=Capacity.CUDA,
        cache=_cache_rules(release),
        profile=_profile_rules(release),
        runtime=_runtime_rules(release),
        has_cache_bytes=release >= (0, 10, 2),
        adapters_on_vocabulary=True,
        unsplit_weights=release >= (0, 21),  # v1/worker/gpu_worker.py, _scoped_allocator_max_split
        notes=_notes(release),
    )


# DeepSeek-V4 always caches in fp8_ds_mla: 448 B + 64 rotary elements of 2 B + 8 B of scales for a row of 512
# (models/deepseek_v4/attention.py).
_PACKED = (("DeepseekV4ForCausalLM", 584 / 512),)


def _cache_rules(release: _Release) -> CacheRules:
    """The hybrid manager came on by default in 0.9.2; the padding rule in 0.12 (1.25), widened in 0.18 (1.5)."""
    ratio = 1.5 if release >= (0, 18) else 1.25 if release >= (0, 12) else 1.0
    return CacheRules(
        latent_block_size=64 if release >= (0, 8) else 16,
        hybrid=release >= (0, 9, 2),
        hybrid_chunks=release >= (0, 14),  # VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE (envs.py)
        padding_ratio=ratio,
        batches_in_flight=2 if release >= (0, 26) else 1,
        state_blocks=2 if release >= (0, 26) else 1,  # prefix caching of hybrids, on by default since
        printed=Printed.CONCURRENCY if release >= (0, 21) else Printed.BLOCKS,
        rest_on_last_stage=release < (0, 8),
        packed=_PACKED,
    )


def _profile_rules(release: _Release) -> ProfileRules:
    """0.8 to 0.11 sampled with FlashInfer where it was installed, as it is in the official image of 0.9.1 on and a
    requirement since 0.11.1; 0.12 made it an opt-in, so the sort came back until the Triton kernel of 0.16;
    FlashInfer is the default again since 0.21, and the native draw that is warmed after it has the same peak."""
    triton, maybe = release >= (0, 16), (0, 9, 1) <= release < (0, 11, 1)
    in_place = triton or (0, 11, 1) <= release < (0, 12)
    return ProfileRules(
        logit_bytes=_IN_PLACE if in_place else _SORTING,
        logit_bytes_low=_IN_PLACE if in_place or maybe else _SORTING,
        logit_bytes_small=_SORTING,
        small_rows=_TRITON_ROWS if triton else 0,
        compiled=release >= (0, 8),
        moe_chunk_tokens=32768 if release >= (0, 6) else 65536,
        latent_workspace_tokens=65536 if release >= (0, 9) else 0,
        index_workspace_rows=40,  # v1/attention/backends/mla/indexer.py, get_max_prefill_buffer_size
        index_logit_bytes=512 * MIB if release >= (0, 20) else 0,  # VLLM_SPARSE_INDEXER_MAX_LOGITS_MB
    )


# Architectures that the second model runner took first (config/vllm.py); none else before 0.25.
_SECOND_RUNNER = (
    ((0, 24), frozenset({"Qwen3ForCausalLM", "DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM",
                         "GraniteMoeForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"})),
    ((0, 23), frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"})),
    ((0, 22), frozenset({"Qwen3ForCausalLM"})),
)  # fmt: skip
_SECOND_RUNNER_EXPERTS = frozenset(
    {"DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM", "DeepseekV4ForCausalLM"}
)


def _has_second_runner(model: ModelSpec, release: _Release) -> bool:
    """Whether the release runs that model with its second runner: all from 0.29 on, dense ones without a state
    from 0.25, a list before (use_v2_model_runner)."""
    if model.encoder_only or release < (0, 22):
        return False
    if release >= (0, 29):
        return True
    if release >= (0, 25):
        stateful = any(group.kind is AttentionKind.RECURRENT for group in model.layer_groups)
        return not stateful and (not model.num_experts or model.architecture in _SECOND_RUNNER_EXPERTS)
    known = next(names for since, names in _SECOND_RUNNER if release >= since)
    return model.architecture in known and (release >= (0, 24) or not model.quantization)


@lru_cache(maxsize=256)
def _second_profile(release: _Release) -> ProfileRules:
    """Its dummy run draws without copies: logits in 16 bits, and their gathered parts. It keeps a count of every
    token for every slot (int32) and a bit mask of the prompt (v1/worker/gpu/sample/penalties.py); since 0.27 the
    budget pays for what is allocated between loading and profiling."""
    return replace(
        _rules(release).profile,
        logit_bytes=2.5,
        logit_bytes_low=2.0,
        logit_bytes_small=2.5,
        resident_logit_bytes=4.125 if release >= (0, 27) else 0.0,
    )


def _runtime_rules(release: _Release) -> RuntimeRules:
    """0.8 and 0.9.0-0.9.1 charged everything on the card to the newcomer; from 0.9.2 on a snapshot at start
    is subtracted, and from 0.11 it is taken after NCCL started. 0.6.4 did as 0.8."""
    whole_card = (0, 8) <= release < (0, 9, 2) or (0, 6, 4) <= release < (0, 6, 5)
    return RuntimeRules(
        context_in_budget=whole_card,
        communicators_in_budget=release < (0, 11),
        graphs_in_budget=release >= (0, 20),
        others_in_budget=whole_card,
        start_check=release >= (0, 9, 2),
        graph_modes=2 if release >= (0, 11) else 1,
        largest_graph=512 if release >= (0, 8) else 256,
    )


def _notes(release: _Release) -> tuple[str, ...]:
    if release > NEWEST.parts:
        return (f"rules were read from vLLM {NEWEST} and earlier; a newer version may differ",)
    return ()


def _utilization(settings: EngineSettings, release: _Release) -> float:
    if settings.gpu_memory_utilization is not None:
        return settings.gpu_memory_utilization
    return 0.92 if release >= (0, 20) else 0.9


def _batch_defaults(
    model: ModelSpec, gpu: GpuSpec, length: int, release: _Release, adapters: bool
) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) of the API server when neither is given."""
    if release < (0, 8):
        return _batch_defaults_v0(model, length, release, adapters), 256
    large = gpu.driver_bytes.value >= 70 * GIB
    if release >= (0, 9):
        large = large and "a100" not in gpu.name.lower()
    # GB10: NVML tells no memory size, which counts as a small card; excluded by name since 0.33.
    large = large and gpu.compute_capability != (12, 1)
    tokens, seqs = (8192, 1024) if large else (2048, 256)
    if release >= (0, 28) and gpu.driver_bytes.value >= 160 * GIB:
        tokens = 16384
    if release < (0, 8, 4):
        seqs = 1024
    if model.encoder_only:  # no chunked prefill
        tokens = max(tokens, length)
    return tokens, seqs


def _batch_defaults_v0(model: ModelSpec, length: int, release: _Release, adapters: bool) -> int:
    """V0 batched whole prompts, and chunked them by itself only for long contexts of plain text models."""
    windowed = any(group.window is not None for group in model.layer_groups)
    text = set(model.modalities) <= {"text"}
    if release >= (0, 5, 4) and length > 32768 and text and not windowed and not adapters:
        return 2048 if release >= (0, 6, 5) else 512
    return max(length, 2048)


def _refuse(model: ModelSpec, settings: EngineSettings, release: _Release) -> None:
    ranks = settings.tensor_parallel_size
    for group in model.layer_groups:
        if group.query_heads % ranks:
            raise UnsupportedError(
                f"vLLM cannot split {group.query_heads} attention heads of {model.name} over {ranks} GPUs",
                hint="tensor_parallel_size must divide the number of attention heads",
            )
        if group.kv_heads and group.kind is not AttentionKind.LATENT:
            many, few = max(group.kv_heads, ranks), min(group.kv_heads, ranks)
            if many % few:
                raise UnsupportedError(
                    f"vLLM cannot split {group.kv_heads} key-value heads of {model.name} over {ranks} GPUs",
                    hint="one of the two numbers must divide the other",
                )
    if settings.pipeline_parallel_size > model.num_layers:
        raise UnsupportedError(
            f"{settings.pipeline_parallel_size} pipeline stages are more than the {model.num_layers} layers"
        )
    if settings.kv_cache_memory_bytes is not None and release < (0, 10, 2):
        raise UnsupportedError(
            "vLLM knows --kv-cache-memory-bytes from 0.10.2 on", hint="give gpu_memory_utilization instead"
        )
    if settings.gpu_memory_utilization is not None and not 0 < settings.gpu_memory_utilization <= 1:
        raise UnsupportedError(f"gpu_memory_utilization {settings.gpu_memory_utilization} is not in (0, 1]")
    if settings.max_model_len is not None and settings.max_model_len > model.max_model_len:
        raise UnsupportedError(
            f"max_model_len {settings.max_model_len} is above the {model.max_model_len} of {model.name}",
            hint="vLLM refuses it, since longer positions were never learned",
        )


_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "auto": None}


def _flags(settings: EngineSettings, release: _Release, quantization: str) -> tuple[str, ...]:
    """Flags with a value in a fixed order; numbers as the engine reads them."""
    ranks, stages = settings.tensor_parallel_size, settings.pipeline_parallel_size
    copies = settings.data_parallel_size
    valued: tuple[tuple[str, object], ...] = (
        ("--tensor-parallel-size", ranks if ranks > 1 else None),
        ("--pipeline-parallel-size", stages if stages > 1 else None),
        ("--data-parallel-size", copies if copies > 1 else None),
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
    if settings.speculation is not None:
        flags += ("--speculative-config", _speculative(settings.speculation))
    if settings.enable_expert_parallel and release >= (0, 8):
        flags += ("--enable-expert-parallel",)
    return flags


def _speculative(asked: Speculation) -> str:
    own = "" if asked.draft is None else f'"model": "{asked.draft.name}", '
    return f'{{"method": "{asked.method}", {own}"num_speculative_tokens": {asked.tokens}}}'


def _decimal(share: float | None) -> str | None:
    return None if share is None else f"{share:.4f}".rstrip("0").rstrip(".")


def _lora_rank(rank: int) -> int:
    """The smallest rank that vLLM accepts for its slots and that holds `rank` (config, LoRAConfig)."""
    found = next((allowed for allowed in _LORA_RANKS if allowed >= rank), None)
    if found is None:
        raise UnsupportedError(f"LoRA rank {rank} is above {_LORA_RANKS[-1]}, the most that vLLM takes")
    return found


_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


def _adapter_flags(settings: EngineSettings, adapters: Sequence[Adapter]) -> tuple[str, ...]:
    """LoRA: slots, the largest rank, and each adapter as name=path."""
    if settings.adapters is None and not adapters:
        return ()
    slots = settings.adapters.max_loras if settings.adapters else len(adapters)
    rank = settings.adapters.max_lora_rank if settings.adapters else max(adapter.rank for adapter in adapters)
    rank = _lora_rank(rank)
    flags: tuple[str, ...] = ("--enable-lora", "--max-loras", str(slots), "--max-lora-rank", str(rank))
    if adapters:
        flags += ("--lora-modules", *(f"{adapter.name}={adapter.source or adapter.name}" for adapter in adapters))
    return flags
