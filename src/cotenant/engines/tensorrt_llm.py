"""TensorRT-LLM by version, 0.8 to 1.2.1: the PyTorch backend (the default since 1.0) and built engines before.

    pool      free_gpu_memory_fraction x (total - peak + the trial's own pool)
                                                   _torch/pyexecutor/_util.py, KvCacheCreator._cal_max_memory
    peak      torch's peak over a trial run (weights, max_num_tokens of dummy prompts, the trial's pool) and all
              that the card holds outside of torch then, others' included: NCCL, CUDA graphs of the warm-up
                                                   configure_kv_cache_capacity
    cap       kv_cache_config.max_tokens and, where it is told, max_gpu_total_bytes: the smaller counts
    engine    before 0.17: weights with a head of their own, an execution context, and buffers of runtime and
              decoder by max_batch_size, vocabulary and max_seq_len; the pool is of what is then free
    defaults  llmapi/llm_args.py, commands/serve.py: 2,048 requests, 8,192 tokens, 0.9

The fraction is of what is *free*: two engines that start one after the other never ask for the same bytes, and the
second gets its fraction of what the first left. What has no flag of trtllm-serve goes into a file of YAML:
`extra_options` gives its fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.domain.workload import Adapter
from cotenant.engines.refusals import decimal, refuse_long, refuse_share, refuse_uneven, valued
from cotenant.engines.rules import (
    Base,
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
from cotenant.units import MIB

NEWEST = Version((1, 2, 1), "1.2.1")
OLDEST = Version((0, 8, 0), "0.8.0")
EXTRA_OPTIONS_FILE = "extra_llm_api_options.yaml"

_Release = tuple[int, ...]
# Its library of compiled kernels is loaded with the process, and attention and all-reduce keep workspaces outside
# of torch. No source tells their size: it is measured at start ("Memory used outside torch"). The one log at hand
# (an H200) says 2.5 GiB with the CUDA context; the lower end is PyTorch's own, the interval a judgement, no rule.
_LIBRARIES = Interval(300 * MIB, 1500 * MIB, 2600 * MIB)

# A built engine keeps less of it: two logs of 0.12 and 0.14 leave 0.7 and 0.8 GiB beside all that they name, with
# the CUDA context.
_ENGINE_LIBRARIES = Interval(100 * MIB, 300 * MIB, 800 * MIB)
OPTIONS_SINCE = (0, 19)  # trtllm-serve takes --ep_size and a file of options (NVIDIA's page of 0.18.2 has neither)
_TORCH_SINCE = (0, 17)  # `--backend pytorch`; before, engines built by trtllm-build


WORDS = {
    "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "max_seq_len": "max_model_len",
    "max_batch_size": "max_num_seqs", "max_num_tokens": "max_num_batched_tokens",
    "kv_cache_free_gpu_memory_fraction": "gpu_memory_utilization",
    "free_gpu_memory_fraction": "gpu_memory_utilization", "max_tokens": "kv_cache_tokens",
    "tokens_per_block": "block_size", "kv_cache_dtype": "kv_cache_dtype", "max_loras": "max_loras",
    "max_lora_rank": "max_lora_rank",
}  # fmt: skip
"""Its options, and the fields of kv_cache_config -> the common settings."""


@dataclass(frozen=True, slots=True)
class TensorRtLlm:
    """The rules of TensorRT-LLM."""

    name: str = "tensorrt-llm"
    title: str = "TensorRT-LLM"
    newest: Version = NEWEST
    oldest: Version = OLDEST

    def rules(self, version: Version, gpu: GpuSpec | None = None) -> MemoryRules:
        """Memory rules of a version; the same object for the same release number."""
        return _rules(_release(version))

    def profile(self, model: ModelSpec, version: Version, gpu: GpuSpec | None = None) -> ProfileRules:
        """The estimation's own run of dummy prompts."""
        return _rules(_release(version)).profile

    def expert_padding(self, format_name: str, gpu: GpuSpec) -> ExpertPadding | None:
        """MXFP4 experts (_torch/modules/fused_moe/quantization.py): both sides to 128, the hidden one to 512 for
        the kernels of compute capability 10. How Hopper's pad is not known here."""
        major = (gpu.compute_capability or (0, 0))[0]
        if format_name != "mxfp4" or major < 10:
            return None
        return ExpertPadding(inner=128, hidden=512 if major == 10 else 128)

    def resolve(
        self, model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, version: Version
    ) -> EngineSettings:
        """Defaults of trtllm-serve."""
        if gpu.vendor.lower() != "nvidia":
            raise UnsupportedError(
                f"TensorRT-LLM runs on NVIDIA cards, not on {gpu.name}", hint="use vllm or sglang"
            )
        if any(group.kind is AttentionKind.RECURRENT for group in model.layer_groups):
            raise UnsupportedError(
                f"TensorRT-LLM: how the states of {model.name} share memory with its cache is not known here",
                hint="use vllm or sglang",
            )
        refuse_uneven(self.title, model, settings)
        refuse_share("free_gpu_memory_fraction", settings.gpu_memory_utilization)
        refuse_long("max_seq_len", model, settings.max_model_len)
        return replace(
            settings,
            max_model_len=settings.max_model_len or model.max_model_len,
            max_num_batched_tokens=settings.max_num_batched_tokens or 8192,
            max_num_seqs=settings.max_num_seqs or default_slots(version),
            gpu_memory_utilization=settings.gpu_memory_utilization or 0.9,
        )

    def budget(self, base: Interval, settings: EngineSettings) -> Interval:
        """None of its own: the pool follows from what is free."""
        return base

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
        """``trtllm-serve MODEL ...``; formats are read from the checkpoint."""
        argv: tuple[str, ...] = ("trtllm-serve", model_path)
        if port is not None:
            argv += ("--port", str(port))
        release = _release(version)
        argv += _flags(settings, release)
        beside = release >= OPTIONS_SINCE and extra_options(settings, adapters)
        return (*argv, "--extra_llm_api_options", EXTRA_OPTIONS_FILE) if beside else argv


TENSORRT_LLM = TensorRtLlm()


def extra_options(settings: EngineSettings, adapters: Sequence[Adapter] = ()) -> Mapping[str, object]:
    """The fields of the YAML file that `--extra_llm_api_options` names: what trtllm-serve has no flag for."""
    cache: dict[str, object] = {}
    if settings.kv_cache_tokens is not None:
        cache["max_tokens"] = settings.kv_cache_tokens
    if settings.block_size is not None:
        cache["tokens_per_block"] = settings.block_size
    if settings.kv_cache_dtype != "auto":
        cache["dtype"] = "fp8" if settings.kv_cache_dtype.startswith("fp8") else settings.kv_cache_dtype
    fields: dict[str, object] = {"kv_cache_config": cache} if cache else {}
    if settings.enforce_eager:
        fields["cuda_graph_config"] = None
    elif settings.max_graph_batch is not None:
        fields["cuda_graph_config"] = {"max_batch_size": settings.max_graph_batch}
    if settings.data_parallel_size > 1:
        fields["enable_attention_dp"] = True
    slots = settings.adapters
    if slots is not None or adapters:
        many = slots.max_loras if slots else len(adapters)
        rank = slots.max_lora_rank if slots else max(one.rank for one in adapters)
        fields["lora_config"] = {
            "max_loras": many, "max_lora_rank": rank, "lora_dir": [one.source or one.name for one in adapters],
        }  # fmt: skip
    return fields


def default_slots(version: Version) -> int:
    """max_batch_size where nothing says it."""
    return 2048 if _release(version) >= (0, 14) else 256


def _release(version: Version) -> _Release:
    return (*version.parts, 0, 0, 0)[:3]


_TORCH_RUN = ProfileRules(
    logit_bytes=6.0, logit_bytes_low=4.0, logit_bytes_small=6.0, whole_prompts=True, run="dummy prompts"
)
# A built engine holds its execution context and, for all its slots, the buffers of runtime and decoder. The
# decoder has logits, probabilities and ids, both sorted, and the sort's own space for each (slot, token of the
# vocabulary) (cpp/tensorrt_llm/layers/topPSamplingLayer.cu); the runtime its logits in 32 bits (4 B) and tables of
# beams, masks and ids for each (slot, token of max_seq_len). Three public logs print 19.9 to 23.1 B of the first,
# and 22.6 to 24 B of tables.
_ENGINE_RUN = replace(
    _TORCH_RUN, compiled=False, slot_logit_bytes=2.0 + 4.0 + 21.5, slot_token_bytes=23.0, run="execution context"
)


@lru_cache(maxsize=256)
def _rules(release: _Release) -> MemoryRules:
    return MemoryRules(
        capacity=Capacity.CUDA,
        cache=CacheRules(
            block_size=32 if release >= (0, 17) else 64,
            latent_block_size=32 if release >= (0, 17) else 64,
            hybrid=False,
            printed=Printed.TOKENS,
            stored_dtype=True,  # "Using checkpoint KV quantization."
        ),
        profile=_ENGINE_RUN if release < _TORCH_SINCE else _TORCH_RUN,
        runtime=RuntimeRules(
            context_in_budget=True,
            communicators_in_budget=True,
            graphs_in_budget=True,
            others_in_budget=False,  # a part of what is free is asked for, whoever holds the rest
            start_check=False,
            graph_modes=1 if release >= (1, 0) else 0,
            largest_graph=128,
            graph_sizes=_GRAPH_SIZES,
            libraries=_ENGINE_LIBRARIES if release < _TORCH_SINCE else _LIBRARIES,
        ),
        has_cache_bytes=False,
        adapters_on_vocabulary=False,
        unties_head=release < _TORCH_SINCE,  # a built engine has the head as a layer of its own
        pool=PoolRules(base=Base.REST, of_free=True, holds_longest=False),
        notes=_notes(release),
        share_option="free_gpu_memory_fraction",
        load_slack_bytes=160 * MIB,
    )


# llmapi/llm_args.py, _generate_cuda_graph_batch_sizes
_GRAPH_SIZES = (*range(1, 32), 32, 64, 128)


def _notes(release: _Release) -> tuple[str, ...]:
    if release > NEWEST.parts:
        return (f"rules were read from TensorRT-LLM {NEWEST} and earlier; a newer version may differ",)
    return (_BUILT,) if release < _TORCH_SINCE else ()


_BUILT = (
    "max_batch_size, max_num_tokens and max_seq_len are fixed when the engine is built (trtllm-build), with the "
    "memory that follows from them; the pool's share is said when it starts"
)


def _flags(settings: EngineSettings, release: _Release) -> tuple[str, ...]:
    ranks, stages = settings.tensor_parallel_size, settings.pipeline_parallel_size
    return valued(
        (
            ("--backend", "pytorch" if release >= (0, 17) else None),
            ("--tp_size", ranks if ranks > 1 else None),
            ("--pp_size", stages if stages > 1 else None),
            ("--ep_size", ranks if settings.enable_expert_parallel and release >= OPTIONS_SINCE else None),
            ("--max_seq_len", settings.max_model_len),
            ("--max_batch_size", settings.max_num_seqs),
            ("--max_num_tokens", settings.max_num_batched_tokens),
            ("--kv_cache_free_gpu_memory_fraction", decimal(settings.gpu_memory_utilization)),
        )
    )
