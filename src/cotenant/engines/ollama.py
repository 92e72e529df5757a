"""Ollama by version: llama.cpp in its runner, its own engine, or llama-server, told by a Modelfile and by the
environment.

    context   num_ctx for each of OLLAMA_NUM_PARALLEL slots: n_ctx is their product
    cache     OLLAMA_KV_CACHE_TYPE for K and V alike; sliding layers keep the whole context in llama.cpp's runner,
              which takes the library's own defaults (swa_full on) and not those of llama-server; its own engine
              keeps the window, or 4,096 tokens, a slot, and one batch
    compute   a row of logits for every token of a batch, since llama.cpp's runner sets no cap; a row a slot in its
              own engine
    offload   num_gpu layers; without it as many as Ollama's own estimate says fit
    0.30 on   llama-server, at a tagged build, with its own defaults: windows, capped rows, a part of the context
              for each slot; num_batch by the context and by the room that weights leave

Read from ollama/ollama: llama/llama.go (NewContextParams), runner/ollamarunner/runner.go (reserveWorstCaseGraph),
kvcache/causal.go, envconfig/config.go, docs/context-length.mdx, llm/llama_server.go (startLlamaServer),
server/sched.go (automaticGenerationBatch). What its own engine (Go, until 0.24) computes with: ollama_own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Term
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.domain.workload import Adapter
from cotenant.engines.llama_cpp.builds import BuildRules, build_rules
from cotenant.engines.llama_cpp.engine import LLAMA_CPP, allocate, resolved
from cotenant.engines.llama_cpp.options import cache_type, read_words, switch, whole
from cotenant.engines.ollama_releases import (
    SERVER_SINCE,
    OwnEngine,
    Release,
    automatic_batch,
    build_number,
    own_build,
    own_engine,
)
from cotenant.engines.rules import Allocation, ExpertPadding, MemoryRules, ProfileRules, TensorBytes
from cotenant.errors import UnsupportedError
from cotenant.units import GIB

NEWEST = Version((0, 32, 15), "0.32.15")
OLDEST = Version((0, 1, 30), "0.1.30")

# Slots that nobody set: one, then so many where they fit, then one (server/sched.go, defaultParallel).
_FOUR_SLOTS, _TWO_SLOTS, _ONE_SLOT = (0, 2), (0, 6, 7), (0, 10)
_CONTEXT_4096, _CONTEXT_BY_VRAM = (0, 6, 7), (0, 15, 5)
_LONGER_SINCE = (("gptoss", (0, 11)), ("qwen3vl", (0, 12, 7)))  # 8,192 tokens at least, until contexts go by VRAM
_FLASH_AUTO = (0, 13, 4)  # its llama.cpp runner leaves it to llama.cpp unless told (llm/server.go)
_MICRO_BATCH = (0, 13, 3)  # num_batch is the micro-batch; before, llama.cpp's own 512 (llama/llama.go)


def _duration(value: object) -> str:
    """As Go writes spans of time (5m, 1h30m, -1), or a number of seconds."""
    text = str(value).strip()
    if not re.fullmatch(r"-?(?:\d+(?:\.\d+)?(?:ns|us|ms|s|m|h)?)+", text) or len(text) > 40:
        raise ValueError("a span of time such as 5m, 0 or -1")
    return text


WORDS = {
    "num_ctx": ("n_ctx_slot", whole(1, 2**31)),
    "num_gpu": ("n_gpu_layers", whole(0, 100_000)),
    "num_batch": ("n_ubatch", whole(1, 2**31)),
    "OLLAMA_NUM_PARALLEL": ("n_parallel", whole(1, 256)),
    "OLLAMA_CONTEXT_LENGTH": ("n_ctx_slot", whole(1, 2**31)),
    "OLLAMA_KV_CACHE_TYPE": ("type_k", cache_type),
    "OLLAMA_FLASH_ATTENTION": ("flash_attn", switch),
    "OLLAMA_KEEP_ALIVE": ("keep_alive", _duration),
    "keep_alive": ("keep_alive", _duration),
}
_EVERY_LAYER = 999  # what nobody has set
_CACHE_TYPES = ("f16", "q8_0", "q4_0")


def options_from(words: Mapping[str, Any]) -> LlamaCppOptions:
    """Modelfile parameters and variables of the environment, as options."""
    found = read_words(words, WORDS, {}, "Ollama")
    return replace(found, type_v=found.type_k)


@dataclass(frozen=True, slots=True)
class Ollama:
    """The rules of Ollama."""

    name: str = "ollama"
    title: str = "Ollama"
    newest: Version = NEWEST
    oldest: Version = OLDEST

    def rules(self, version: Version, gpu: GpuSpec | None = None) -> MemoryRules:
        """Those of the llama.cpp build that the release carries."""
        return _rules(_release(version))

    def profile(self, model: ModelSpec, version: Version, gpu: GpuSpec | None = None) -> ProfileRules:
        """There is no profile run."""
        return LLAMA_CPP.profile(model, version, gpu)

    def expert_padding(self, format_name: str, gpu: GpuSpec) -> ExpertPadding | None:
        """Matrices stay as the file holds them."""
        return None

    def resolve(
        self, model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, version: Version
    ) -> EngineSettings:
        """Defaults of that release on that card. Raises UnsupportedError where it refuses."""
        release = _release(version)
        asked = settings.llama_cpp or LlamaCppOptions()
        slots = asked.n_parallel or settings.max_num_seqs or (1 if model.encoder_only else default_slots(version))
        vram = gpu.driver_bytes.value * settings.pipeline_parallel_size * settings.tensor_parallel_size
        length = asked.n_ctx_slot or settings.max_model_len or _context(vram, release)
        length = min(max(length, _least_context(model, vram, release)), model.max_model_len)
        asked = replace(asked, n_ctx=length * slots, n_ctx_slot=length, n_parallel=slots)
        told = _as_server if release >= SERVER_SINCE else _as_runner
        options = told(model, settings, asked, release)
        return resolved(model, replace(settings, max_model_len=None, llama_cpp=options), _build(release))

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
        """The environment and ``ollama serve``; the model's own parameters are `modelfile`'s."""
        return (*(f"{name}={value}" for name, value in environment(settings, port).items()), "ollama", "serve")


OLLAMA = Ollama()


def _as_runner(
    model: ModelSpec, settings: EngineSettings, asked: LlamaCppOptions, release: Release
) -> LlamaCppOptions:
    """What its own runners, llama.cpp's and the Go engine's, are told until 0.24."""
    if asked.type_k not in _CACHE_TYPES:
        raise UnsupportedError(
            f"Ollama {'.'.join(map(str, release))} has no cache type {asked.type_k}",
            hint=f"OLLAMA_KV_CACHE_TYPE is {', '.join(_CACHE_TYPES)}",
        )
    own = own_engine(model, release)
    flash = _flash(model, asked.flash_attn, own, release)
    # without flash attention it falls back to f16 (and is started with flash attention said where it has it)
    type_name = asked.type_k if asked.type_k != "f16" and flash else "f16"
    slots = asked.n_parallel or 1
    settled = asked.n_batch // slots if asked.n_batch else None
    batch = settled or asked.n_ubatch or settings.max_num_batched_tokens or 512
    every = batch * slots
    micro = batch if own is not None or release >= _MICRO_BATCH else min(512, every)
    return replace(
        asked, n_ubatch=micro, n_batch=every, flash_attn=flash, type_k=type_name,
        type_v=type_name, kv_unified=own is not None, swa_full=own is None,
        window_memory=window_memory(model, own, slots) if own is not None else 0,
    )  # fmt: skip


def _flash(model: ModelSpec, asked: bool | None, own: OwnEngine | None, release: Release) -> bool:
    """Whether it runs flash attention (llm/server.go; fs/ggml/ggml.go, SupportsFlashAttention)."""
    if asked is None:
        since = own.flash if own is not None else _FLASH_AUTO
        return since is not None and release >= since
    apart = any(group.kind is AttentionKind.LATENT for group in model.layer_groups)
    return asked and not apart and "gemma2" not in f"{model.family} {model.architecture}".lower()


def window_memory(model: ModelSpec, own: OwnEngine, slots: int) -> int:
    """Tokens that a sliding layer keeps for each slot: one more than its window where several share the cache
    (kvcache/causal.go, Init)."""
    window = max((group.window or 0 for group in model.layer_groups), default=0)
    return max(own.kept, window + (slots > 1)) if window else own.kept


def _as_server(
    model: ModelSpec, settings: EngineSettings, asked: LlamaCppOptions, release: Release
) -> LlamaCppOptions:
    """What llama-server is told since 0.30: both batches alike, and a part of the context for each slot."""
    given = None if asked.auto_batch else asked.n_ubatch or settings.max_num_batched_tokens
    asked = replace(asked, auto_batch=given is None)
    batch = given or automatic_batch(model, asked, 0, 0)
    return replace(asked, n_ubatch=batch, n_batch=batch, type_v=asked.type_k, kv_unified=asked.n_parallel == 1)


def environment(settings: EngineSettings, port: int | None = None) -> dict[str, str]:
    """What the server's environment must say, sorted as it is read."""
    options = settings.llama_cpp or LlamaCppOptions()
    slots = options.n_parallel or 1
    found = {
        "OLLAMA_NUM_PARALLEL": str(slots),
        "OLLAMA_CONTEXT_LENGTH": str((options.n_ctx or 0) // slots),
        "OLLAMA_FLASH_ATTENTION": "1" if options.flash_attn else "0",
    }
    if options.type_k != "f16":
        found["OLLAMA_KV_CACHE_TYPE"] = options.type_k
    if options.keep_alive:
        found["OLLAMA_KEEP_ALIVE"] = options.keep_alive
    if port is not None:
        found["OLLAMA_HOST"] = f"127.0.0.1:{port}"
    return found


def modelfile(settings: EngineSettings, model_path: str, adapters: Sequence[Adapter] = ()) -> str:
    """The Modelfile that creates the model with these parameters; a hub id is pulled from hf.co.

    Raises UnsupportedError for a name with characters that a Modelfile cannot hold.
    """
    options = settings.llama_cpp or LlamaCppOptions()
    slots = options.n_parallel or 1
    batch = options.n_ubatch
    if batch and (options.n_batch or 0) > batch:  # its runner takes num_batch of every slot at once
        batch = (options.n_batch or 0) // slots
    parameters = {
        "num_ctx": (options.n_ctx or 0) // slots,
        "num_batch": None if options.auto_batch else batch,
        "num_gpu": options.n_gpu_layers,
    }
    lines = [
        f"FROM {_quoted(source_of(model_path))}",
        *(f"ADAPTER {_quoted(adapter.source or f'./{adapter.name}')}" for adapter in adapters),
        *(f"PARAMETER {name} {value}" for name, value in parameters.items() if value is not None),
    ]
    return "\n".join(lines) + "\n"


def source_of(model_path: str) -> str:
    """What FROM says: a file as it is, ``owner/name`` (one slash, no host) as a repository of the hub."""
    owner, slash, name = model_path.partition("/")
    is_file = model_path.startswith((".", "/", "~")) or model_path.endswith(".gguf")
    is_hub_id = bool(slash) and "/" not in name and not is_file and "." not in owner.partition(":")[0]
    return f"hf.co/{model_path}" if is_hub_id else model_path


def _quoted(text: str) -> str:
    """One value of a Modelfile (parser/parser.go): nothing is escaped there; outer blanks and a leading quotation
    mark need quotes, and what does not print is dropped, so it is refused here."""
    if not text.isprintable():
        raise UnsupportedError(
            f"a Modelfile cannot hold the name {text[:60]!r}", hint="rename it without control characters"
        )
    return f'"""{text}"""' if text != text.strip() or text.startswith('"') else text


def _release(version: Version) -> Release:
    return (*version.parts, 0, 0, 0)[:3]


def default_slots(version: Version) -> int:
    """OLLAMA_NUM_PARALLEL where nothing says it; an encoder has one."""
    release = _release(version)
    if not _FOUR_SLOTS <= release < _ONE_SLOT:
        return 1
    return 4 if release < _TWO_SLOTS else 2


def _context(vram_bytes: float, release: Release) -> int:
    """The default context: 2,048, then 4,096, then by the memory of all cards (envconfig, server/routes.go)."""
    if release < _CONTEXT_4096:
        return 2048
    if release < _CONTEXT_BY_VRAM or vram_bytes < 23 * GIB:
        return 4096
    return 32768 if vram_bytes < 47 * GIB else 262144


def _least_context(model: ModelSpec, vram_bytes: float, release: Release) -> int:
    """Tokens that some models get whatever was asked for, on 20 GiB or more (server/routes.go, scheduleRunner)."""
    letters = "".join(filter(str.isalnum, f"{model.family}{model.architecture}".lower()))
    longer = any(mark in letters and release >= since for mark, since in _LONGER_SINCE)
    return 8192 if longer and release < _CONTEXT_BY_VRAM and vram_bytes >= 20 * GIB else 0


@lru_cache(maxsize=128)
def _build(release: Release) -> BuildRules:
    rules = replace(build_rules(Version((build_number(release),))), auto_slots=1, fits_itself=False)
    return rules if release >= SERVER_SINCE else replace(rules, capped_outputs=False)


@lru_cache(maxsize=128)
def _rules(release: Release) -> MemoryRules:
    build = _build(release)

    def buffers(
        model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, tensors: Sequence[TensorBytes]
    ) -> Allocation:
        if own_engine(model, release) is not None:
            found = _own(model, gpu, settings, tensors, release, own_build(build, release))
        else:
            found = allocate(model, gpu, _with_batch(model, gpu, settings, tensors), tensors, build=build)
        return replace(found, notes=(*found.notes, *_told_elsewhere(settings.llama_cpp or LlamaCppOptions())))

    return replace(LLAMA_CPP.rules(Version((build.number,))), allocate=buffers)


def _told_elsewhere(options: LlamaCppOptions) -> tuple[str, ...]:
    """What the server's environment cannot say, and how long an idle model holds its memory."""
    found = []
    if (layers := options.n_gpu_layers) is not None and layers < _EVERY_LAYER:
        found.append(f"num_gpu {layers} is told by the Modelfile (PARAMETER num_gpu {layers}) or in a request")
    if options.keep_alive:
        span = options.keep_alive
        if span.startswith("-"):
            found.append("its memory is kept for good (OLLAMA_KEEP_ALIVE; 5m where nothing says it)")
        elif not set(span) & set("123456789"):
            found.append("its memory is given back after each request, and the model loaded anew for the next")
        else:
            found.append(f"its memory is kept for {span} after the last request, then others may have it")
    return tuple(found)


def _with_batch(
    model: ModelSpec, gpu: GpuSpec, settings: EngineSettings, tensors: Sequence[TensorBytes]
) -> EngineSettings:
    """The settings with the batch that Ollama settles on once it knows the size of the file."""
    options = settings.llama_cpp
    if options is None or not options.auto_batch:
        return settings
    weights = sum(part.bytes * max(1, len(part.layers)) for part in tensors if not part.tied)
    free = gpu.driver_bytes.value * settings.tensor_parallel_size * settings.pipeline_parallel_size
    batch = min(options.n_ubatch or 512, automatic_batch(model, options, weights, free))
    return replace(settings, llama_cpp=replace(options, n_ubatch=batch, n_batch=batch))


def _own(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    tensors: Sequence[TensorBytes],
    release: Release,
    build: BuildRules,
) -> Allocation:
    """Its own engine's buffers: llama.cpp's, with its own graphs and what kernels take beside them."""
    from cotenant.engines.llama_cpp.buffers import element_bytes, placed
    from cotenant.engines.ollama_own import own_compute, own_host, own_vendor

    found = allocate(model, gpu, settings, tensors, build=build)
    options = settings.llama_cpp or LlamaCppOptions()
    placement = placed(model, settings, build)
    vendor, gfx = own_vendor(gpu)
    devices = []
    for number, part in enumerate(found.devices):
        size = own_compute(
            model, options, release, build, placement, number, head_bytes=0,
            weight_bytes=element_bytes(model, tensors), vendor=vendor, gfx=gfx,
        )  # fmt: skip
        why = f"{part.compute.why}, and the kernels' pool" if vendor in ("nvidia", "amd") else part.compute.why
        devices.append(replace(part, compute=Term(size, why)))
    host = own_host(model, options, release, build, placement)
    others = replace(found.host, compute=host.value, computed=host)
    note = "Ollama's own engine (Go) runs this family"
    return replace(found, devices=tuple(devices), host=others, notes=(*found.notes, note))
