"""SGLang by version, 0.2 to 0.5.23, read from its released packages (files named beside each fact).

    budget    mem_fraction_static x what is free once the process and its communicators stand: weights and pool
    pool      budget - weights                     model_executor/model_runner.py, profile_max_num_token
    outside   the rest of the card: activations (no profile run), CUDA graphs, a table of token numbers a slot
    windows   a pool of their own with swa_full_tokens_ratio of the tokens, for architectures that it lists
    states    a pool of their own of mamba_full_memory_ratio times the bytes of the other
    defaults  server_args.py, from what nvidia-smi calls the card's memory in MiB

Its "GB" are GiB. The pool is told in tokens: max_total_tokens caps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import floor

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import AttentionKind, ModelSpec, Role
from cotenant.domain.workload import Adapter
from cotenant.engines.held import Loaded
from cotenant.engines.refusals import refuse_long, refuse_share, refuse_uneven
from cotenant.engines.rules import (
    Base,
    CacheRules,
    Capacity,
    ExpertPadding,
    MemoryRules,
    Online,
    PoolRules,
    Printed,
    ProfileRules,
    RuntimeRules,
)
from cotenant.engines.sglang_arguments import adapter_flags, flags, head, refuse_unknown, tp_size
from cotenant.units import MIB

NEWEST = Version((0, 5, 23), "0.5.23")
OLDEST = Version((0, 2, 0), "0.2.0")

_Release = tuple[int, ...]
REQUESTS = 2048  # max_running_requests, until a pool of more than four longest sequences raises it (4096 at most)
_STATES = 3  # of every running request with the radix cache on (model_runner_kv_cache_mixin.py)


WORDS = {
    "tp_size": "tensor_parallel_size", "tp": "tensor_parallel_size", "pp_size": "pipeline_parallel_size",
    "context_length": "max_model_len", "max_running_requests": "max_num_seqs",
    "chunked_prefill_size": "max_num_batched_tokens", "mem_fraction_static": "gpu_memory_utilization",
    "max_total_tokens": "kv_cache_tokens", "page_size": "block_size", "cuda_graph_max_bs": "max_graph_batch",
    "cuda_graph_max_bs_decode": "max_graph_batch", "disable_cuda_graph": "enforce_eager", "dtype": "dtype",
    "kv_cache_dtype": "kv_cache_dtype", "quantization": "quantization", "max_loras_per_batch": "max_loras",
    "lora_paths": "max_loras", "max_lora_rank": "max_lora_rank",
}  # fmt: skip
"""Its options -> the common settings."""


@dataclass(frozen=True, slots=True)
class Sglang:
    """The rules of SGLang."""

    name: str = "sglang"
    title: str = "SGLang"
    newest: Version = NEWEST
    oldest: Version = OLDEST

    def rules(self, version: Version, gpu: GpuSpec | None = None) -> MemoryRules:
        """Memory rules of a version; the same object for the same release number."""
        return _rules(_release(version))

    def profile(self, model: ModelSpec, version: Version, gpu: GpuSpec | None = None) -> ProfileRules:
        """There is no profile run: what a full prefill batch, or the largest graph, will need."""
        return _rules(_release(version)).profile

    def expert_padding(self, format_name: str, gpu: GpuSpec) -> ExpertPadding | None:
        """None known."""
        return None

    def resolve(
        self, model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, version: Version
    ) -> EngineSettings:
        """Defaults of `sglang.launch_server` of that version on that card."""
        release = _release(version)
        refuse_uneven(self.title, model, settings)
        refuse_share("mem_fraction_static", settings.gpu_memory_utilization)
        refuse_long("context_length", model, settings.max_model_len)
        refuse_unknown(settings, release)
        card = _Card.of(gpu, settings, release)
        tokens = settings.max_num_batched_tokens or card.chunk
        graphs = settings.max_graph_batch or card.graphs
        requests = settings.max_num_seqs or REQUESTS
        share = settings.gpu_memory_utilization
        return replace(
            settings,
            kv_cache_dtype=_cache_dtype(model, gpu, settings, release),
            max_model_len=settings.max_model_len or model.max_model_len,
            max_num_batched_tokens=tokens,
            max_num_seqs=requests,
            max_graph_batch=min(graphs, requests),  # no larger batch is captured than may run
            gpu_memory_utilization=_default_share(model, card, tokens, graphs) if share is None else share,
        )

    def budget(self, base: Interval, settings: EngineSettings) -> Interval:
        """mem_fraction_static of what was free before the weights were loaded."""
        share = settings.gpu_memory_utilization or 0.0
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
        """``python -m sglang.launch_server --model-path MODEL ...``"""
        release = _release(version)
        argv = head(release, model_path, served_name, port)
        return (*argv, *flags(settings, release, quantization), *adapter_flags(settings, release, adapters))


SGLANG = Sglang()


def _release(version: Version) -> _Release:
    return (*version.parts, 0, 0, 0)[:3]


@lru_cache(maxsize=256)
def _rules(release: _Release) -> MemoryRules:
    return MemoryRules(
        capacity=Capacity.CUDA,
        cache=CacheRules(
            block_size=1,
            latent_block_size=1,
            hybrid=True,
            printed=Printed.TOKENS,
            own_pools=True,
            window_ratio=0.8,
            state_ratio=0.9,
            state_blocks=_STATES,
            own_windows=_own_windows(release),
        ),
        profile=ProfileRules(
            logit_bytes=10.0, logit_bytes_low=6.0, logit_bytes_small=10.0, compiled=False, run="a full prefill"
        ),
        runtime=RuntimeRules(
            context_in_budget=False,
            communicators_in_budget=False,
            graphs_in_budget=False,
            others_in_budget=False,
            start_check=False,
            graph_modes=1,
            largest_graph=512,
            graph_sizes=_GRAPH_SIZES,
            # captured prefills, as it reckons with them itself (server_args.py, reserve_for_graph_mb)
            prefill_sizes=_PREFILL_SIZES if release >= (0, 5, 12) else (),
            prefill_bytes=8 * MIB,
            latent_prefill_bytes=1536 * MIB,
            copy_bytes=3 * MIB,  # the same: DP attention pads, "much more" for large batches
            # not derived: its source names no bound. Logs print 0.26 GiB and less beside the middle; one of a 1B
            # model on a card that another used printed 3.97, DeepSeek 5 to 6 for its first graph (issue 16143)
            graph_slack_bytes=512 * MIB,
            slot_bytes=4,  # req_to_token: int32 (memory_pool.py)
            # kv_indices or a page table, and a mask of a byte (layers/attention: init_cuda_graph_state); FA3 has
            # four bytes a page, FlashInfer five a token, Triton nine since 0.5
            index_bytes=(0, 4, 9 if release >= (0, 5) else 5),
            default_slots=(REQUESTS, 4096 if release >= (0, 3) else 5120),
        ),
        has_cache_bytes=False,
        has_cache_tokens=True,
        adapters_on_vocabulary=False,
        pool=PoolRules(base=Base.AT_START, activations_inside=False, of_free=True, holds_longest=False),
        notes=_notes(release),
        share_option="mem_fraction_static",
        copies_share=frozenset({Role.EXPERT, Role.MLP, Role.HEAD}),  # DP attention alone is replicated
        load_slack_bytes=160 * MIB,
        # model_loader prints what get_available_gpu_memory lost; its own rotary layers keep tables in fp32, those
        # of Gemma 3 none until models/gemma3_causal.py took get_rope between 0.5.9 and 0.5.12
        loaded=Loaded(
            segments=True,
            rotary_dtype="fp32" if release >= (0, 4, 2) else "bf16",
            untabled=("Gemma3For",) if release < (0, 5, 10) else (),
        ),
        online=(("fp8", Online.WHOLE),),  # model_loader/loader.py, load_weights_and_postprocess
    )


# server_args.py, _generate_cuda_graph_batch_sizes
_GRAPH_SIZES = (1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), 512)

# server_args.py, _generate_prefill_cuda_graph_batch_sizes
_PREFILL_SIZES = (*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64),
                  *range(1280, 4097, 256), *range(4608, 32769, 512))  # fmt: skip

# Architectures whose windows have a pool of their own (configs/model_config.py, is_hybrid_swa_model); others keep
# every token in every layer.
_WINDOWED = (
    ((0, 5, 16), frozenset({"Gemma4UnifiedForConditionalGeneration", "Step3p7ForConditionalGeneration"})),
    ((0, 5, 12), frozenset({"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "LagunaForCausalLM",
                            "DeepseekV4ForCausalLM", "MiMoV2ForCausalLM"})),
    ((0, 5, 8), frozenset({"Step3p5ForCausalLM"})),
    ((0, 5, 4), frozenset({"Llama4ForConditionalGeneration", "GptOssForCausalLM", "MiMoV2FlashForCausalLM"})),
)  # fmt: skip


def _own_windows(release: _Release) -> frozenset[str]:
    return frozenset().union(*(names for since, names in _WINDOWED if release >= since))


def _notes(release: _Release) -> tuple[str, ...]:
    if release > NEWEST.parts:
        return (f"rules were read from SGLang {NEWEST} and earlier; a newer version may differ",)
    return ()


@dataclass(frozen=True, slots=True)
class _Card:
    """What the defaults look at: the card's memory in MiB as nvidia-smi prints it, and the GPUs of a replica."""

    mib: float
    ranks: int
    stages: int
    copies: int
    release: _Release

    @classmethod
    def of(cls, gpu: GpuSpec, settings: EngineSettings, release: _Release) -> _Card:
        return cls(
            gpu.driver_bytes.value / MIB, tp_size(settings), settings.pipeline_parallel_size,
            settings.data_parallel_size, release,
        )  # fmt: skip

    @property
    def chunk(self) -> int:
        """chunked_prefill_size."""
        if self.release < (0, 4, 7):
            whole = 2048 if self.mib < 25_000 and self.release >= (0, 3) else 8192
        else:
            whole = next(tokens for below, tokens in _chunks(self.release) if self.mib < below * 1024)
        return whole // self.copies if self.copies > 1 else whole

    @property
    def graphs(self) -> int:
        """cuda_graph_max_bs."""
        if self.release < (0, 5):
            small = self.mib < (25_000 if self.release < (0, 4, 7) else 35 * 1024)
            return (80 if self.ranks >= 4 else 8) if small else 160
        few, many = next(sizes for below, sizes in _graph_limits(self.release) if self.mib < below * 1024)
        return many if self.ranks >= 4 else few


_EVERY = float("inf")


def _chunks(release: _Release) -> tuple[tuple[float, int], ...]:
    if release >= (0, 5, 23):
        return ((20, 2048), (60, 4096), (160, 8192), (_EVERY, 16384))
    if release >= (0, 5):
        return ((35, 2048), (60, 4096), (160, 8192), (_EVERY, 16384))
    return ((35, 2048), (160, 8192), (_EVERY, 16384))


def _graph_limits(release: _Release) -> tuple[tuple[float, tuple[int, int]], ...]:
    small = (48, 160) if release >= (0, 5, 23) else (24, 80) if release >= (0, 5, 6) else (16, 80)
    return ((20, (8, 8)), (35, small), (60, (32, 160)), (160, (256, 512)), (_EVERY, (512, 512)))


def _default_share(model: ModelSpec, card: _Card, tokens: int, graphs: int) -> float:
    """mem_fraction_static where it is not given, with what images need taken off: a twentieth, from 0.4.5 a tenth
    (model_runner.py), by the encoder's size since 0.4.10."""
    if card.release < (0, 4, 7):
        share = _share_by_ranks(card)
    elif card.release < (0, 5):
        share = round((card.mib - _reserved_by_card(card)) / card.mib, 3)
    else:
        latent = any(group.kind is AttentionKind.LATENT for group in model.layer_groups)
        share = round((card.mib - _reserved_by_batch(card, tokens, graphs, latent)) / card.mib, 3)
    if next(model.parameters_of(Role.VISION), None) is None:
        return share
    if card.release < (0, 4, 10):
        return share * (0.95 if card.release < (0, 4, 5) else 0.9)
    return share * _image_factor(model)


def _share_by_ranks(card: _Card) -> float:
    """By tensor parallel alone; from 0.4.6 on cards above 80 GiB take 0.88 and more."""
    ranks = card.ranks * card.stages
    if card.release >= (0, 4, 6) and card.mib > 81920:
        most = (card.mib - 18 * 1024) / card.mib
        return min(0.88 + 48 * 1024 * 0.12 / card.mib, most) if card.mib > 96 * 1024 else 0.88
    eight = 0.81 if card.release >= (0, 4) else 0.82 if card.release >= (0, 3) else 0.83
    return next(
        share for least, share in ((16, 0.79), (8, eight), (4, 0.85), (2, 0.87), (1, 0.88)) if ranks >= least
    )


def _reserved_by_card(card: _Card) -> float:
    """MiB left to activations and graphs, 0.4.7 to 0.4.10."""
    ranks = card.ranks * card.stages
    if card.mib < 35 * 1024:
        return (2.8 + ranks / 10) * 1024
    if card.mib >= 160 * 1024:
        return 32 * 1024
    return ((9.5 if card.mib < 90 * 1024 else 12) + ranks / 2) * 1024


def _reserved_by_batch(card: _Card, tokens: int, graphs: int, latent: bool) -> float:
    """MiB by prefill chunk and graphs since 0.5; since 0.5.12 also for pieces of the prefill, 8 MiB a graph."""
    reserved = 512 + max(tokens, 2048) * 1.5 + graphs * 2 + card.ranks * card.stages / 8 * 1024
    if card.copies > 1:
        reserved += graphs * card.copies * (4.5 if graphs > 300 else 3)
    if card.release >= (0, 5, 12):
        reserved += 1536 if latent else 8 * _prefill_pieces(tokens)
    return max(reserved, 10 * 1024) if card.mib > 60 * 1024 else reserved


def _prefill_pieces(tokens: int) -> int:
    """How many prefill graphs are captured."""
    return sum(size <= tokens for size in _PREFILL_SIZES)


def _image_factor(model: ModelSpec) -> float:
    """adjust_mem_fraction_for_vlm: 0.95, less a tenth for every doubling of the encoder over ViT-L/14."""
    weights = [group for group in model.parameters_of(Role.VISION) if len(group.shape) == 2 and group.layers]
    width = max((min(group.shape) for group in weights), default=1024)
    layers = max((len(group.layers) for group in weights), default=24)
    score = layers * width**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (score - 1.0)))


def _cache_dtype(model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, release: _Release) -> str:
    """Sparse MLA caches fp8 by itself on Blackwell (server_args.py), ModelOpt's checkpoints what they say
    (configure_kv_cache_dtype), both since 0.5.3."""
    sparse = any(group.kind is AttentionKind.LATENT and group.index_width for group in model.layer_groups)
    blackwell = (gpu.compute_capability or (8, 0))[0] == 10
    if settings.kv_cache_dtype == "auto" and sparse and blackwell and release >= (0, 5, 3):
        return "fp8"
    made = model.quantization in _MODELOPT and model.cache_dtype == "fp8"
    if settings.kv_cache_dtype == "auto" and made and release >= (0, 5, 3):
        return "fp8"
    return settings.kv_cache_dtype


_MODELOPT = ("nvfp4", "mixed-nvfp4-fp8")
