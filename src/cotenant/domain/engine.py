"""What an engine is told: its settings, in the words that vLLM uses (each engine file maps its own)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import ModelSpec

_NUMBER = re.compile(r"\d+")


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A release number, compared part by part; suffixes (``rc1``, ``+cu128``) are kept in `text` only."""

    parts: tuple[int, ...]
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read ``0.21``, ``v0.8.5.post1``, ``b9849``. Raises ValueError when no number stands there."""
        head = text.strip().lstrip("vb~").split("+")[0]
        numbers: list[int] = []
        for piece in head.split("."):
            match = _NUMBER.match(piece)
            if match is None:
                break
            numbers.append(int(match.group()))
            if match.group() != piece:
                break
        if not numbers:
            raise ValueError(f"no version number in {text!r}")
        return cls(tuple(numbers), text.strip())

    def __lt__(self, other: Version) -> bool:
        return self._padded(other) < other._padded(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._padded(other) == other._padded(self)

    def __hash__(self) -> int:
        parts = list(self.parts)
        while parts and parts[-1] == 0:
            parts.pop()
        return hash(tuple(parts))

    def _padded(self, other: Version) -> tuple[int, ...]:
        return self.parts + (0,) * (len(other.parts) - len(self.parts))

    def __str__(self) -> str:
        return self.text or ".".join(map(str, self.parts))


def is_as_planned(runs: str, planned: str) -> bool | None:
    """Whether what runs is what was planned: ``0.21.3`` where ``0.21`` was, not where ``0.21.0`` was; builds and
    suffixes apart. None where one of them has no number."""
    try:
        told, wanted = Version.parse(runs), Version.parse(planned)
    except ValueError:
        return None
    return Version(told.parts[: len(wanted.parts)]) == wanted


@dataclass(frozen=True, slots=True)
class AdapterSlots:
    """Room for LoRA adapters in one process: how many at once on the GPU, of what largest rank."""

    max_loras: int
    max_lora_rank: int


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding: `tokens` proposed a step by `method` (mtp, eagle3, dflash, ngram ...). `draft`: the
    structure of a draft with weights of its own; None where the layers are the checkpoint's, or there are none."""

    method: str
    tokens: int
    draft: ModelSpec | None = None


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """One replica's launch settings. None means the engine's own default for its version and card.

    `gpu_memory_utilization` is a fraction 0..1 as the engine reads it (mem_fraction_static, cuda_memory_fraction,
    free_gpu_memory_fraction); `kv_cache_memory_bytes` sets the pool directly where the version knows it, and
    `kv_cache_tokens` caps it (max_total_tokens, kv_cache_config.max_tokens). `max_input_tokens` is TGI's longest
    prompt, `max_graph_batch` the largest batch with a CUDA graph.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    block_size: int | None = None
    enforce_eager: bool = False
    enable_sleep_mode: bool = False
    enable_expert_parallel: bool = False
    adapters: AdapterSlots | None = None
    data_parallel_size: int = 1  # copies of attention in one replica, each with its own cache; experts are shared
    llama_cpp: LlamaCppOptions | None = None  # what llama.cpp and Ollama are told beyond that
    kv_cache_tokens: int | None = None
    max_input_tokens: int | None = None
    max_graph_batch: int | None = None
    speculation: Speculation | None = None
    enable_prefix_caching: bool | None = (
        None  # whether a sequence's past stays for another with the same beginning
    )
    language_model_only: bool = False  # the encoders of images, video and sound are left out
    decode_context_parallel_size: int = 1  # ranks that share out a sequence's cache instead of each keeping it all

    @property
    def works_on_host(self) -> bool:
        """Whether the engine uses no card."""
        return self.llama_cpp is not None and self.llama_cpp.n_gpu_layers == 0

    @property
    def slots(self) -> int | None:
        """Requests that it takes at once, in its own words or in llama-server's; None: the engine's default."""
        return self.max_num_seqs or (None if self.llama_cpp is None else self.llama_cpp.n_parallel) or None
