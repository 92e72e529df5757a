"""Defaults of `vllm serve` by release and card, and what it refuses."""

from __future__ import annotations

from cotenant.domain.engine import EngineSettings
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.engines.refusals import refuse_newer
from cotenant.engines.vllm.releases import Release
from cotenant.errors import UnsupportedError
from cotenant.units import GIB


def utilization(settings: EngineSettings, release: Release) -> float:
    """gpu_memory_utilization as given, or the release's own."""
    if settings.gpu_memory_utilization is not None:
        return settings.gpu_memory_utilization
    return 0.92 if release >= (0, 20) else 0.9


def least_slots(release: tuple[int, ...]) -> int:
    """max_num_seqs of the API server where it is not given: 1,024 on every card of 0.8.0 to 0.8.3, else 256, and
    more on some cards alone."""
    return 1024 if (0, 8) <= release < (0, 8, 4) else 256


def batch_defaults(
    model: ModelSpec, gpu: GpuSpec, length: int, release: Release, adapters: bool
) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) of the API server when neither is given."""
    if release < (0, 8):
        return _batch_defaults_v0(model, length, release, adapters), least_slots(release)
    large = gpu.driver_bytes.value >= 70 * GIB
    if release >= (0, 9):
        large = large and "a100" not in gpu.name.lower()
    # GB10: NVML tells no memory size, which counts as a small card; excluded by name since 0.33.
    large = large and gpu.compute_capability != (12, 1)
    tokens, seqs = (8192, 1024) if large else (2048, least_slots(release))
    if release >= (0, 28) and gpu.driver_bytes.value >= 160 * GIB:
        tokens = 16384
    if model.encoder_only:  # no chunked prefill
        tokens = max(tokens, length)
    return tokens, seqs


def _batch_defaults_v0(model: ModelSpec, length: int, release: Release, adapters: bool) -> int:
    """V0 batched whole prompts, and chunked them by itself only for long contexts of plain text models."""
    windowed = any(group.window is not None for group in model.layer_groups)
    text = set(model.modalities) <= {"text"}
    if release >= (0, 5, 4) and length > 32768 and text and not windowed and not adapters:
        return 2048 if release >= (0, 6, 5) else 512
    return max(length, 2048)


def cache_dtype(model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, release: Release) -> str:
    """The cache's type of sparse MLA, where the release or the attention backend of the card has one of its own.

    0.11.0 cached fp8_ds_mla unasked (models/config.py, DeepseekV32ForCausalLM). FlashMLA, the only backend before
    0.18 and that of Hopper still, packs any fp8 so; FlashInfer, first for fp8 on SM10x (in 0.18 for at most 16
    heads a rank), keeps plain rows (platforms/cuda.py; layers/attention/mla_attention.py). SM12x knows the packed
    form alone, and GLM asks for fp8 on SM10x since 0.30.
    """
    asked = settings.kv_cache_dtype
    if asked == "auto" and release >= STORED_SINCE:
        asked = model.cache_dtype or asked
    sparse = [group for group in model.layer_groups if group.index_width and group.kind is AttentionKind.LATENT]
    if not sparse or model.architecture.startswith("DeepseekV4") or gpu.vendor.lower() != "nvidia":
        return settings.kv_cache_dtype
    major = (gpu.compute_capability or (9, 0))[0]
    if asked == "auto":
        glm = model.architecture in (
            "GlmMoeDsaForCausalLM",
            "Glm5NextForConditionalGeneration",
            "Glm5NextForCausalLM",
        )
        if major == 10 and glm and release >= (0, 30):
            return "fp8_e4m3"
        unasked = release < (0, 11, 1) or (major == 12 and release >= (0, 24))
        return "fp8_ds_mla" if unasked else asked
    plain = release >= (0, 19) or (
        release >= (0, 18) and sparse[0].query_heads // settings.tensor_parallel_size <= _FEW_HEADS
    )
    packed = asked.startswith("fp8") and "per_token" not in asked and not (major == 10 and plain)
    return "fp8_ds_mla" if packed else settings.kv_cache_dtype


_FEW_HEADS = 16
STORED_SINCE = (0, 12)  # a cache of dtype auto is the checkpoint's (torch_utils.py, kv_cache_dtype_str_to_dtype)


def refuse(model: ModelSpec, settings: EngineSettings, release: Release) -> None:
    """Raise UnsupportedError for what that release does not start with."""
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
    shared = settings.decode_context_parallel_size
    if shared > 1 and (release < (0, 10, 2) or ranks % shared or any(g.window for g in model.layer_groups)):
        raise UnsupportedError(
            f"vLLM cannot share out the cache of {model.name} over {shared} of {ranks} ranks",
            hint="from 0.10.2, a divisor of the tensor-parallel size, and no sliding windows",
        )
    if settings.language_model_only and release < (0, 10, 1):
        raise UnsupportedError(
            "vLLM leaves out a model's encoders from 0.10.1 on",
            hint="name a newer release, or leave the option out",
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


def refuse_unknown(settings: EngineSettings, release: Release) -> None:
    """Raise UnsupportedError for what that release has no flag for (vllm/engine/arg_utils.py at the tags)."""
    asked = settings.speculation
    refuse_newer(
        "vLLM",
        release,
        ("--enable-sleep-mode", settings.enable_sleep_mode, (0, 7)),
        ("--data-parallel-size", settings.data_parallel_size > 1, (0, 8, 3)),
        ("--speculative-config", asked is not None and asked.draft is None and asked.method != "mtp", (0, 8, 3)),
    )


def lora_rank(rank: int) -> int:
    """The smallest rank that vLLM accepts for its slots and that holds `rank` (config, LoRAConfig)."""
    found = next((allowed for allowed in _LORA_RANKS if allowed >= rank), None)
    if found is None:
        raise UnsupportedError(f"LoRA rank {rank} is above {_LORA_RANKS[-1]}, the most that vLLM takes")
    return found


_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
