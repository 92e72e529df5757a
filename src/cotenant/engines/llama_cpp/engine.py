"""llama.cpp's server by build: its defaults, what it refuses, and how it is told.

It has no share of the card: it allocates what its options ask for and leaves the rest alone, so its budget is all
that others leave. Read from ggml-org/llama.cpp: common/common.h and common/arg.cpp (defaults and flags),
tools/server/server.cpp (slots), src/llama-context.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.llama_cpp import ALL_LAYERS, LlamaCppOptions
from cotenant.domain.model import ModelSpec
from cotenant.domain.workload import Adapter
from cotenant.engines.llama_cpp.builds import NEWEST, OLDEST, BuildRules, build_rules
from cotenant.engines.llama_cpp.cache import TYPES, cells
from cotenant.engines.refusals import refuse_newer
from cotenant.engines.rules import (
    Allocation,
    CacheRules,
    Capacity,
    ExpertPadding,
    MemoryRules,
    ProfileRules,
    RuntimeRules,
    TensorBytes,
)
from cotenant.errors import UnsupportedError

# No profile run, no pool, no graphs before the first request: the general formulas are not asked.
_NO_PROFILE = ProfileRules(logit_bytes=4.0, logit_bytes_low=4.0, logit_bytes_small=4.0, compiled=False)
_NO_RUNTIME = RuntimeRules(
    context_in_budget=True, communicators_in_budget=True, graphs_in_budget=True, others_in_budget=False,
    start_check=False, graph_modes=1, largest_graph=0,
)  # fmt: skip
_ALL_LAYERS = 999
_SPEC_TYPES = 9131  # pull 22964 (May 2026): --spec-type, and other names for what a draft is told


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """The rules of llama-server."""

    name: str = "llama.cpp"
    title: str = "llama.cpp"
    newest: Version = NEWEST
    oldest: Version = OLDEST

    def rules(self, version: Version, gpu: GpuSpec | None = None) -> MemoryRules:
        """Memory rules of a build; the same object for the same build."""
        return _rules(build_rules(version))

    def profile(self, model: ModelSpec, version: Version, gpu: GpuSpec | None = None) -> ProfileRules:
        """There is no profile run: the graph itself is reserved for."""
        return _NO_PROFILE

    def expert_padding(self, format_name: str, gpu: GpuSpec) -> ExpertPadding | None:
        """Matrices stay as the file holds them."""
        return None

    def resolve(
        self, model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, version: Version
    ) -> EngineSettings:
        """Defaults of llama-server of that build. Raises UnsupportedError where it refuses."""
        build = build_rules(version)
        _refuse_unknown(settings, build.number)
        return resolved(model, settings, build)

    def budget(self, capacity: Interval, settings: EngineSettings) -> Interval:
        """All of the card; what others hold is taken off by who knows it."""
        return capacity

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
        """``llama-server -m FILE.gguf -ngl 99 -c ... -np ...``; a hub id is given with -hf. Before b4470 -hf does
        not find a file by itself, and a file of the model's name is said instead."""
        build = build_rules(version)
        argv = ["llama-server", *_source(model_path, build.number)]
        if served_name:
            argv += ["--alias", served_name]
        if port is not None:
            argv += ["--port", str(port)]
        argv += _flags(settings, build)
        for adapter in adapters:
            argv += ["--lora", adapter.source or adapter.name]
        return tuple(argv)


LLAMA_CPP = LlamaCpp()


def allocate(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    tensors: Sequence[TensorBytes],
    *,
    build: BuildRules,
) -> Allocation:
    """Every buffer of one server of that build; the graphs' own modules are imported when they are needed."""
    from cotenant.engines.llama_cpp.buffers import allocation

    return allocation(model, gpu, settings, tensors, build=build)


@lru_cache(maxsize=256)
def _rules(build: BuildRules) -> MemoryRules:
    return MemoryRules(
        capacity=Capacity.CUDA,
        cache=CacheRules(block_size=1, latent_block_size=1, hybrid=build.windows, state_alignment=1),
        profile=_NO_PROFILE,
        runtime=_NO_RUNTIME,
        has_cache_bytes=False,
        adapters_on_vocabulary=False,
        allocate=partial(allocate, build=build),
    )


def resolved(model: ModelSpec, settings: EngineSettings, build: BuildRules) -> EngineSettings:
    """Every default filled in: `max_model_len` is what one slot may use, `n_ctx` what all slots share."""
    asked = settings.llama_cpp or LlamaCppOptions()
    _refuse(settings)
    named = asked.n_parallel or settings.max_num_seqs
    slots = named or build.auto_slots
    unified = asked.kv_unified
    if unified is None:  # -np auto shares one cache; told a number, each slot gets its part
        unified = (named is None and build.auto_slots > 1) or not build.streams
    unsaid = model.max_model_len if asked.n_ctx == 0 else build.default_context or model.max_model_len
    length = settings.max_model_len or unsaid
    total = asked.n_ctx or (length * slots if settings.max_model_len and named else length)
    cache_type = _cache_type(settings.kv_cache_dtype)
    options = replace(
        asked,
        n_ctx=total,
        n_parallel=slots,
        n_batch=asked.n_batch or 2048,
        n_ubatch=asked.n_ubatch or settings.max_num_batched_tokens or build.micro_batch,
        n_gpu_layers=_ALL_LAYERS if asked.n_gpu_layers is None else asked.n_gpu_layers,
        kv_unified=unified,
        type_k=cache_type or asked.type_k,
        type_v=cache_type or asked.type_v,
    )
    options = replace(options, flash_attn=_flash(model, options, build))
    size = cells(model, options, build)
    options = with_draft(replace(options, n_ctx=size.full * size.streams), settings, build)
    return replace(
        settings,
        max_model_len=min(size.full, model.max_model_len),
        max_num_seqs=slots,
        max_num_batched_tokens=min(options.n_ubatch or 1, options.n_ctx or 1),
        pipeline_parallel_size=max(settings.pipeline_parallel_size, len(asked.tensor_split)),
        llama_cpp=options,
    )


def with_draft(options: LlamaCppOptions, settings: EngineSettings, build: BuildRules) -> LlamaCppOptions:
    """Resolved options with those of the contexts that the draft gets beside (tools/server/server.cpp, `ctx_dft`,
    and common/speculative.cpp, `common_base_params_to_speculative`): one for each slot until slots drafted
    together, then one as large as the target's. Its layers go to the GPUs unless -ngld says otherwise."""
    asks = settings.speculation
    if asks is None or (asks.draft is None and asks.method != "mtp"):
        return options if options.draft is None else replace(options, draft=None)
    asked, slots = options.draft or LlamaCppOptions(), options.n_parallel or 1
    draft = replace(
        options, draft=None, draft_model="", draft_tokens=0, draft_bytes=0, mmproj_bytes=0, n_rs_seq=0,
        n_cpu_moe=0,
        type_k=asked.type_k, type_v=asked.type_v,
        n_gpu_layers=_ALL_LAYERS if asked.n_gpu_layers is None else asked.n_gpu_layers,
    )  # fmt: skip
    tokens = asks.tokens
    if asks.method == "mtp":  # states of recurrent layers are kept to be rolled back
        return replace(options, draft=draft, draft_contexts=1, draft_tokens=tokens, n_rs_seq=tokens)
    if build.drafts_together:
        return replace(options, draft=draft, draft_contexts=1, draft_tokens=tokens)
    length = asked.n_ctx or (options.n_ctx or 0) // slots
    draft = replace(draft, n_ctx=length, n_batch=length, n_parallel=1)
    return replace(options, draft=draft, draft_contexts=slots, draft_tokens=tokens)


def _flash(model: ModelSpec, options: LlamaCppOptions, build: BuildRules) -> bool:
    """``auto`` is on where the backend has a kernel for the heads: all that CUDA serves but a few odd widths."""
    if options.flash_attn is None:
        return build.flash_auto
    if not options.flash_attn and options.type_v not in ("f32", "f16", "bf16"):
        raise UnsupportedError(
            f"llama.cpp refuses a V cache of {options.type_v} without flash attention", hint="-fa on"
        )
    return options.flash_attn


def _cache_type(dtype: str) -> str:
    """A common name of a cache type as llama.cpp's own; "" where the options decide."""
    name = {"float16": "f16", "fp16": "f16", "bfloat16": "bf16", "auto": ""}.get(dtype, dtype)
    if name and name not in TYPES:
        raise UnsupportedError(f"llama.cpp has no cache type {dtype}", hint=f"one of {', '.join(TYPES)}")
    return name


def _refuse(settings: EngineSettings) -> None:
    if settings.gpu_memory_utilization is not None or settings.kv_cache_memory_bytes is not None:
        raise UnsupportedError(
            "llama.cpp takes no share of the card: it allocates what its options ask for",
            hint="set the context with -c and the slots with -np",
        )
    for name in ("block_size",):
        if getattr(settings, name) is not None:
            raise UnsupportedError(f"llama.cpp has no {name}: its cache is not paged")


def _refuse_unknown(settings: EngineSettings, build: int) -> None:
    """Raise UnsupportedError for what the server of that build has no flag for. Found by bisecting
    examples/server/server.cpp and common/ of ggml-org/llama.cpp by number of commits."""
    asked = settings.llama_cpp or LlamaCppOptions()
    asks, typed = settings.speculation, _cache_type(settings.kv_cache_dtype)
    quantised = {typed or asked.type_k, typed or asked.type_v} != {"f16"}
    refuse_newer(
        "llama.cpp",
        (build,),
        ("-np", (asked.n_parallel or settings.max_num_seqs or 1) > 1, (1413,)),
        ("-ctk and -ctv", quantised, (2251,)),
        ("--no-kv-offload", not asked.kv_offload, (2599,)),
        ("-fa", bool(asked.flash_attn), (2771,)),
        ("-ot", asked.n_cpu_moe > 0, (5028,)),
        ("-md", asks is not None and asks.method == "draft_model", (4164,)),
        ("--spec-type draft-mtp", asks is not None and asks.method == "mtp", (9180,)),
        prefix="b",
    )


def _source(model_path: str, build: int) -> tuple[str, str]:
    if model_path.endswith(".gguf"):
        return "-m", model_path
    return ("-hf", model_path) if build >= 4470 else ("-m", f"{model_path.rpartition('/')[2]}.gguf")


def _experts_on_host(layers: int, build: int) -> list[str]:
    """--cpu-moe since b6051, --n-cpu-moe since b6089; before, the patterns that these stand for."""
    if layers == 0:
        return []
    if layers >= ALL_LAYERS:
        return ["--cpu-moe"] if build >= 6051 else ["-ot", "ffn_(up|down|gate)_exps=CPU"]
    if build >= 6089:
        return ["--n-cpu-moe", str(layers)]
    numbers = "|".join(map(str, range(layers)))
    return ["-ot", rf"blk\.({numbers})\.ffn_(up|down|gate)_exps=CPU"]


def _flags(settings: EngineSettings, build: BuildRules) -> list[str]:
    """Flags in a fixed order; what is the build's own default is left out."""
    options = settings.llama_cpp or LlamaCppOptions()
    valued: tuple[tuple[str, object], ...] = (
        ("-ngl", options.n_gpu_layers),
        ("-c", options.n_ctx),
        ("-np", options.n_parallel if build.number >= 1413 else None),
        ("-b", options.n_batch if options.n_batch not in (None, 2048) else None),
        ("-ub", options.n_ubatch if options.n_ubatch != build.micro_batch and build.number >= 2413 else None),
        ("-ctk", options.type_k if options.type_k != "f16" else None),
        ("-ctv", options.type_v if options.type_v != "f16" else None),
        ("-ts", ",".join(f"{share:g}" for share in options.tensor_split) or None),
    )
    argv = [part for name, value in valued if value is not None for part in (name, str(value))]
    argv += _experts_on_host(options.n_cpu_moe, build.number)
    if options.flash_attn is not None and build.flash_auto:
        argv += ["-fa", "on" if options.flash_attn else "off"]
    elif options.flash_attn:
        argv += ["-fa"]
    argv += ["--kv-unified"] if options.kv_unified and build.streams else []
    argv += ["--swa-full"] if options.swa_full and build.windows else []  # before, all layers keep everything
    argv += [] if options.kv_offload else ["--no-kv-offload"]
    argv += _draft_flags(settings, options, build.number)
    argv += ["-fit", "off"] if build.fits_itself else []
    return argv


def _draft_flags(settings: EngineSettings, options: LlamaCppOptions, build: int) -> list[str]:
    """The draft as its server is told of it."""
    asks = settings.speculation
    if asks is None or options.draft is None:
        return []
    named = options.draft_model or (asks.draft.name if asks.draft is not None else "")
    if asks.method == "mtp" or not named:
        return ["--spec-type", "draft-mtp", "--spec-draft-n-max", str(options.draft_tokens)]
    draft = options.draft
    argv = ["-md" if named.endswith(".gguf") else "-hfd", named]
    argv += ["-ngld", str(draft.n_gpu_layers)]
    argv += ["-ctkd", draft.type_k] if draft.type_k != "f16" else []
    argv += ["-ctvd", draft.type_v] if draft.type_v != "f16" else []
    if build >= _SPEC_TYPES:  # without it the draft is loaded and never asked
        argv += ["--spec-type", "draft-simple"]
    return [*argv, "--spec-draft-n-max" if build >= _SPEC_TYPES else "--draft-max", str(options.draft_tokens)]
