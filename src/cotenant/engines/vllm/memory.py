"""Pages, profile run and runtime by release, as data."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.engines.held import Held, Loaded
from cotenant.engines.rules import (
    AdapterPlace,
    CacheRules,
    Capacity,
    MemoryRules,
    Online,
    Packing,
    Printed,
    ProfileRules,
    RuntimeRules,
)
from cotenant.engines.vllm.defaults import STORED_SINCE
from cotenant.engines.vllm.releases import NEWEST, Release
from cotenant.units import MIB

# Bytes alive per logit at the sampler's peak. Sorting (top-k and top-p together, as the dummy run asks):
# logits in the model's dtype 2, in fp32 4, sorted values 4, their int64 indices 8, and the sort's own buffers:
# two of (segment, index) pairs 8 + 8 and a copy of the keys 4 (PyTorch's Sort.cu). Without a sort (a Triton
# kernel that works in place, or FlashInfer followed by the native draw): 2 + 4, probabilities 4, noise 4.
_SORTING, _IN_PLACE = 38.0, 14.0
_TRITON_ROWS = 8  # apply_top_k_top_p takes the kernel from 8 rows on


@lru_cache(maxsize=256)
def memory_rules(release: Release) -> MemoryRules:
    """Everything that the estimate must know of a release; the same object for the same release."""
    return MemoryRules(
        capacity=Capacity.CUDA,
        cache=_cache_rules(release),
        profile=_profile_rules(release),
        runtime=_runtime_rules(release),
        has_cache_bytes=release >= (0, 10, 2),
        adapters_on_vocabulary=True,
        adapters=_adapters(release),
        loaded=Loaded(
            unsplit=release >= (0, 21),  # v1/worker/gpu_worker.py, _scoped_allocator_max_split
            video_positions=4 if release >= (0, 7) else 1,  # layers/rotary_embedding, cache_max_position_num
        ),
        notes=_notes(release),
        online=(("fp8", _online(release)),),
    )


# The scales' own quantisation is undone while loading: 32 bits for 64 weights and a table of 16 values
# (model_loader/bitsandbytes_loader.py, dequantize_dq).
_NF4, _NF4_SINCE = Held("bnb-nf4", bits=4 + 32 / 64, tensor_bits=16 * 32), (0, 9, 2)
# Machete, which is Hopper's alone, keeps zero points times scales in 16 bits (kernels/linear/mixed_precision/
# machete.py); AWQ checkpoints reach it since the kernel is chosen by what the card has (awq_marlin.py).
_MACHETE, _MACHETE_SINCE = Held("awq-int4", zero_bits=16), (0, 19)


@lru_cache(maxsize=256)
def rules_of(release: Release, loader: Release, *, hopper: bool) -> MemoryRules:
    """`memory_rules` of a core, with the formats that kernels hold otherwise; the same object for the same three.
    `loader`: the release that reads the weights, whichever core it runs. Hopper is compute capability 9.0."""
    held: tuple[Held, ...] = (_NF4,) if loader >= _NF4_SINCE else ()
    held += (_MACHETE,) if hopper and loader >= _MACHETE_SINCE else ()
    return replace(memory_rules(release), held=held) if held else memory_rules(release)


def _adapters(release: Release) -> AdapterPlace:
    """Until 0.7 load_model read off the weights before it made the slots (worker/model_runner.py). 0.6 charged
    what the process then held; 0.7 adds the weights read off, the growth of torch's peak over the profile run and
    what lies outside torch (utils.py, memory_profiling): the slots are in none of them. From 0.8 on both cores
    make them first, the older one that stands as 0.7.4 here too."""
    if release >= (0, 7, 4):
        return AdapterPlace.WEIGHTS
    return AdapterPlace.NOWHERE if release >= (0, 7) else AdapterPlace.BUDGET


def _online(release: Release) -> Online:
    """--quantization fp8 on a 16-bit checkpoint: all of it first until 0.12; 0.13 quantised layer by layer but
    kept the originals to the end (pull 29196, issue 31805); mended in 0.15 (pull 31914). bitsandbytes was always
    streamed (model_loader/bitsandbytes_loader.py)."""
    if release >= (0, 15):
        return Online.STREAMED
    return Online.HELD if release >= (0, 13) else Online.WHOLE


# DeepSeek-V4 always caches in fp8_ds_mla: 448 B + 64 rotary elements of 2 B + 8 B of scales for a row of 512
# (models/deepseek_v4/attention.py).
_PACKED = (("DeepseekV4ForCausalLM", 584 / 512),)


_PACKED_SINCE = (0, 24)

# mamba_cache_mode "all": SupportsMambaPrefixCaching in their models' files, until 0.28 took "align" for all
# (models/config.py, MambaModelConfig; block sizes: platforms/interface.py).
_EVERY_STATE = frozenset(
    {"NemotronHForCausalLM", "JambaForCausalLM", "MambaForCausalLM", "FalconMambaForCausalLM", "Mamba2ForCausalLM",
     "Zamba2ForCausalLM", "GraniteMoeHybridForCausalLM", "FalconH1ForCausalLM"}
)  # fmt: skip


def _cache_rules(release: Release) -> CacheRules:
    """The hybrid manager came on by default in 0.9.2; the padding rule in 0.12 (1.25), widened in 0.18 (1.5)."""
    ratio = 1.5 if release >= (0, 18) else 1.25 if release >= (0, 12) else 1.0
    return CacheRules(
        latent_block_size=64 if release >= (0, 8) else 16,
        hybrid=release >= (0, 9, 2),
        hybrid_chunks=release >= (0, 14),  # VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE (envs.py)
        padding_ratio=ratio,
        batches_in_flight=2 if release >= (0, 26) else 1,
        caches_states=release >= (0, 28),  # prefix caching of hybrids, an opt-in until then (engine/arg_utils.py)
        cached_states=1 if release >= (0, 15) else 0,  # mamba_cache_mode "align"
        every_state=_EVERY_STATE if (0, 15) <= release < (0, 28) else frozenset(),
        draft_states=release >= (0, 15),  # v1/kv_cache_interface.py, MambaSpec.max_memory_usage_bytes
        printed=Printed.CONCURRENCY if release >= (0, 21) else Printed.BLOCKS,
        stored_dtype=release >= STORED_SINCE,
        rest_on_last_stage=release < (0, 8),
        # v1/core/kv_cache_utils.py, get_kv_cache_configs: the merged layers of all workers against the least room;
        # worker by worker until 0.13 and again since 0.17
        checks_whole_model=(0, 14) <= release < (0, 17),
        packed=_PACKED,
        packing=_packing(release),
        latent_heads_width=0 if release >= (0, 7, 1) else 256,  # models/deepseek_v2.py, before MLA's own backends
        sparse_fp8_bytes=0,  # the packed form of FlashMLA is named apart (defaults.py)
    )


def _packing(release: Release) -> Packing:
    """How DeepSeek-V4's pages share blocks: v1/core/kv_cache_utils.py; since 0.33 v1/core/kv_cache_planning.py."""
    if release >= (0, 30):
        return Packing.LARGEST
    return Packing.SLOTS if release >= _PACKED_SINCE else Packing.TUPLES


def _profile_rules(release: Release) -> ProfileRules:
    """0.8 to 0.11.0 sampled with FlashInfer where it was installed, as it is in the official image of 0.9.1 on;
    0.11.1 made it an opt-in, so the sort came back until the Triton kernel of 0.17 (v1/sample/ops/
    topk_topp_sampler.py; topk_topp_triton.py, which 0.16.0 lacks); FlashInfer is the default again since 0.21, and
    the native draw that is warmed after it has the same peak."""
    triton, maybe = release >= (0, 17), (0, 9, 1) <= release < (0, 11, 1)
    return ProfileRules(
        logit_bytes=_IN_PLACE if triton else _SORTING,
        logit_bytes_low=_IN_PLACE if triton or maybe else _SORTING,
        logit_bytes_small=_SORTING,
        small_rows=_TRITON_ROWS if triton else 0,
        compiled=release >= (0, 8),
        moe_chunk_tokens=32768 if release >= (0, 6) else 65536,
        video_frames=0 if release < (0, 8) else 16 if release < (0, 11) else 14,  # _MAX_FRAMES_PER_VIDEO
        video_stamps=12.5 if (0, 11) <= release < (0, 14) else 0.0,  # models/qwen3_vl.py, get_max_video_tokens
        latent_workspace_tokens=65536 if release >= (0, 9) else 0,
        index_workspace_rows=40,  # v1/attention/backends/mla/indexer.py, get_max_prefill_buffer_size
        index_logit_bytes=512 * MIB if release >= (0, 20) else 0,  # VLLM_SPARSE_INDEXER_MAX_LOGITS_MB
        padded_heads=("DeepseekV4", 64),  # models/deepseek_v4/nvidia/flashmla.py, get_padded_num_q_heads
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


def has_second_runner(model: ModelSpec, release: Release) -> bool:
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
def second_profile(release: Release) -> ProfileRules:
    """Its dummy run draws without copies: logits in 16 bits, and their gathered parts. It keeps a count of every
    token for every slot (int32) and a bit mask of the prompt (v1/worker/gpu/sample/penalties.py); since 0.27 the
    budget pays for what is allocated between loading and profiling. Until 0.28 its estimate of graphs was 0
    (profile_cudagraph_memory; issue 49224, pull 53682): the pool takes their room, and they come on top."""
    return replace(
        memory_rules(release).profile,
        logit_bytes=2.5,
        logit_bytes_low=2.0,
        logit_bytes_small=2.5,
        resident_logit_bytes=4.125 if release >= (0, 27) else 0.0,
        reserves_graphs=release >= (0, 29),
    )


def _runtime_rules(release: Release) -> RuntimeRules:
    """0.8 and 0.9.0-0.9.1 charged everything on the card to the newcomer; from 0.9.2 on a snapshot at start
    is subtracted, and from 0.11 it is taken after NCCL started. 0.6.4 did as 0.8."""
    whole_card = (0, 8) <= release < (0, 9, 2) or (0, 6, 4) <= release < (0, 6, 5)
    return RuntimeRules(
        context_in_budget=whole_card,
        communicators_in_budget=release < (0, 11),
        graphs_in_budget=release >= (0, 20),
        graphs_estimated=release >= (0, 20),
        others_in_budget=whole_card,
        start_check=release >= (0, 9, 2),
        graph_modes=2 if release >= (0, 11) else 1,
        largest_graph=512 if release >= (0, 8) else 256 if release < (0, 6, 5) else 8192,
        graph_sizes=_graph_sizes(release),
        graph_slots=_graph_slots(release),
        graph_sets=(("GptOssForCausalLM", _WIDER_STEPS),) if release >= (0, 10, 1) else (),
        piecewise=release >= (0, 8),
        graphs_hold_states=release >= (0, 20),  # config/compilation.py, resolve_cudagraph_mode_and_sizes
        adapter_graphs=release >= (0, 11, 1),  # cudagraph_specialize_lora
    )


# config.py, _set_cudagraph_sizes; since 0.11.1 config/vllm.py
_STEPS = (1, 2, 4, *range(8, 8193, 8))
_WIDER_STEPS = (1, 2, 4, *range(8, 256, 8), *range(256, 1025, 16))


def _graph_sizes(release: Release) -> tuple[int, ...]:
    """Every eighth size; every sixteenth from 256 on since 0.11.1 (for gpt-oss since 0.10.1)."""
    return _WIDER_STEPS if release >= (0, 11, 1) else _STEPS


def _graph_slots(release: Release) -> int | None:
    """The older core captured up to the first size that holds max_num_seqs; 0.8 and 0.9 all 67 sizes; since 0.10
    twice max_num_seqs bounds them."""
    return 2 if release >= (0, 10) else None if release >= (0, 8) else 1


def _notes(release: Release) -> tuple[str, ...]:
    if release > NEWEST.parts:
        return (f"rules were read from vLLM {NEWEST} and earlier; a newer version may differ",)
    return ()
