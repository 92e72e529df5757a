"""One replica on one type of card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cotenant.api.measured import with_what_is_known
from cotenant.api.sources import load_model
from cotenant.domain.defaults import KV_OVERFLOW

if TYPE_CHECKING:
    from cotenant.api.sources import ModelSource
    from cotenant.domain.estimate import Estimate
    from cotenant.domain.gpu import GpuSpec
    from cotenant.domain.workload import Adapter
    from cotenant.estimation.question import Question


def estimate(
    model: ModelSource,
    *,
    gpu: str | Mapping[str, Any] | GpuSpec,
    engine: str = "vllm",
    quantization: str | None = None,
    used: str | int = 0,
    tensor_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
    decode_context_parallel_size: int = 1,
    dtype: str = "auto",
    kv_cache_dtype: str = "auto",
    max_model_len: int | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    gpu_memory_utilization: float | None = None,
    kv_cache_memory_bytes: int | None = None,
    block_size: int | None = None,
    enforce_eager: bool = False,
    enable_expert_parallel: bool = False,
    enable_prefix_caching: bool | None = None,
    enable_lora: bool = False,
    language_model_only: bool = False,
    max_loras: int | None = None,
    max_lora_rank: int | None = None,
    speculative_config: Mapping[str, Any] | str | None = None,
    adapters: Sequence[Adapter | Mapping[str, Any]] = (),
    concurrent: int | None = None,
    requests_per_second: float | None = None,
    context_tokens: Mapping[str, int] | None = None,
    input_tokens: Mapping[str, int] | None = None,
    output_tokens: Mapping[str, int] | None = None,
    ttft: str | None = None,
    tpot: str | None = None,
    percentile: float = 95.0,
    kv_overflow: str = KV_OVERFLOW,
    options: Mapping[str, Any] | None = None,
    calibration: bool = True,
    aiconfigurator: bool = True,
) -> Estimate:
    """What one replica takes of `gpu`, term by term, and whether it fits.

    `engine` may carry a version (``vllm@0.21``); `quantization` is a format's name, by default the one that the
    model is stored in. `used` (``11GiB``) is held on each card by others. Engine options are read as the engine
    reads them; those left out take its defaults, or follow from the traffic where some is given: `concurrent`
    with `context_tokens`, or `requests_per_second` with `input_tokens` and `output_tokens`, each
    ``{p50: ..., p95: ..., max: ...}``. `options` are the engine's own, in its words:
    ``{mem_fraction_static: 0.85}``, ``{max_input_tokens: 3072, max_total_tokens: 4096}``,
    ``{ctx_size: 32768, parallel: 4}``, ``{num_ctx: 8192, OLLAMA_NUM_PARALLEL: 4}``. `speculative_config` is
    vLLM's: ``{method: mtp, num_speculative_tokens: 2}``, ``{model: OWNER/DRAFT, num_speculative_tokens: 3}``.
    Terms follow what was measured of that engine, version, card and model family (`verify`, `explain --save`),
    unless `calibration` is false; step times are combined with AIConfigurator's where it is installed, unless
    `aiconfigurator` is false. Raises InputErrors and its kin for anything that cannot be used.
    """
    question = _question(
        model,
        gpu,
        engine,
        quantization,
        used,
        common={
            "tensor_parallel_size": tensor_parallel_size, "pipeline_parallel_size": pipeline_parallel_size,
            "decode_context_parallel_size": decode_context_parallel_size, "dtype": dtype,
            "kv_cache_dtype": kv_cache_dtype, "max_model_len": max_model_len, "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens, "gpu_memory_utilization": gpu_memory_utilization,
            "kv_cache_memory_bytes": kv_cache_memory_bytes, "block_size": block_size,
            "enforce_eager": enforce_eager, "enable_expert_parallel": enable_expert_parallel,
            "enable_prefix_caching": enable_prefix_caching, "enable_lora": enable_lora, "max_loras": max_loras,
            "language_model_only": language_model_only,
            "max_lora_rank": max_lora_rank,
        },
        speculative=speculative_config,
        own={} if options is None else options,
        adapters=adapters,
        traffic={
            "concurrent": concurrent, "requests_per_second": requests_per_second,
            "context_tokens": context_tokens, "input_tokens": input_tokens, "output_tokens": output_tokens,
        },
        wish=(ttft, tpot, percentile),
        kv_overflow=kv_overflow,
    )  # fmt: skip
    from cotenant.estimation.question import answer

    return with_what_is_known(lambda: answer(question), calibration, aiconfigurator)


def _question(
    model: ModelSource,
    gpu: str | Mapping[str, Any] | GpuSpec,
    engine: str,
    quantization: str | None,
    used: str | int,
    *,
    common: Mapping[str, Any],
    speculative: Mapping[str, Any] | str | None,
    own: Mapping[str, Any],
    adapters: Sequence[Adapter | Mapping[str, Any]],
    traffic: Mapping[str, Any],
    wish: tuple[str | None, str | None, float],
    kv_overflow: str,
) -> Question:
    """Words to values, and everything opened: `common` are settings that engines share, `own` those in the words
    of this one, `wish` is (TTFT, TPOT, percentile)."""
    from dataclasses import replace

    from cotenant.edge.own_gpus import open_gpu
    from cotenant.engines import find_engine, read_words
    from cotenant.engines.speculative import read_speculative, refuse_elsewhere, split_speculative
    from cotenant.estimation.options import adapters_from, engine_settings, overflow_from, slo_from, traffic_from
    from cotenant.estimation.question import Question
    from cotenant.readers.draft_model import open_speculation
    from cotenant.units import parse_bytes

    rules, version = find_engine(engine)
    tuned = adapters_from(adapters)
    drafting, words = split_speculative(rules.name, own)
    told, llama_cpp = read_words(rules, words)
    stored = told.pop("quantization", None)
    drafting = drafting or read_speculative(speculative)
    settings = engine_settings({**common, **told}, tuned)
    refuse_elsewhere(rules.name, rules.title, drafting, settings)
    loaded = load_model(model)
    drafted = open_speculation(drafting, loaded.spec, load_model)
    return Question(
        settings=replace(settings, llama_cpp=llama_cpp, speculation=drafted), traffic=traffic_from(**traffic),
        slo=slo_from(*wish), overflow=overflow_from(kv_overflow), adapters=tuned, gpu=open_gpu(gpu),
        used_bytes=parse_bytes(used), engine=rules, version=version, quantization=quantization or stored,
        model=loaded,
    )  # fmt: skip
