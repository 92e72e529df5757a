"""vLLM as an engine: what estimates and plans ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec
from cotenant.domain.workload import Adapter
from cotenant.engines.rules import ExpertPadding, MemoryRules, ProfileRules
from cotenant.engines.vllm.arguments import adapter_flags, flags
from cotenant.engines.vllm.defaults import (
    batch_defaults,
    cache_dtype,
    lora_rank,
    refuse,
    refuse_unknown,
    utilization,
)
from cotenant.engines.vllm.memory import has_second_runner, memory_rules, rules_of, second_profile
from cotenant.engines.vllm.releases import NEWEST, OLDEST, release_of, short


@dataclass(frozen=True, slots=True)
class Vllm:
    """The rules of vLLM."""

    name: str = "vllm"
    title: str = "vLLM"
    newest: Version = NEWEST
    oldest: Version = OLDEST

    def rules(self, version: Version, gpu: GpuSpec | None = None) -> MemoryRules:
        """Memory rules of a version; the same object for the same release number and generation."""
        hopper = gpu is not None and gpu.compute_capability == (9, 0)
        return rules_of(release_of(version, gpu), short(version), hopper=hopper)

    def profile(self, model: ModelSpec, version: Version, gpu: GpuSpec | None = None) -> ProfileRules:
        """The second model runner where the version uses it for that model, else the version's own."""
        release = release_of(version, gpu)
        return second_profile(release) if has_second_runner(model, release) else memory_rules(release).profile

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
        release = release_of(version, gpu)
        refuse(model, settings, release)
        refuse_unknown(settings, short(version))
        length = settings.max_model_len or model.max_model_len
        tokens, seqs = batch_defaults(model, gpu, length, release, settings.adapters is not None)
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
            slots = replace(slots, max_lora_rank=lora_rank(slots.max_lora_rank))
        return replace(
            settings,
            adapters=slots,
            kv_cache_dtype=cache_dtype(model, gpu, settings, release),
            max_model_len=length,
            max_num_batched_tokens=tokens,
            max_num_seqs=seqs,
            gpu_memory_utilization=utilization(settings, release),
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
        release = short(version)
        argv = ["vllm", "serve", model_path]
        if release < (0, 5, 4):
            argv = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", model_path]
        if served_name:
            argv += ["--served-model-name", served_name]
        if port is not None:
            argv += ["--port", str(port)]
        return (*argv, *flags(settings, release, quantization), *adapter_flags(settings, adapters))


VLLM = Vllm()
