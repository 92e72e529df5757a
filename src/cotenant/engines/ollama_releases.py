"""What changed where in Ollama, read from its tagged sources (0.6.0 to 0.32.15).

0.1 to 0.24   llama.cpp in its own runner, at a commit of its choice    Makefile.sync, llama/README.md
0.6 to 0.24   its own engine (Go) for the architectures that it lists   fs/ggml/ggml.go, OllamaEngineRequired
0.30 on       upstream's llama-server, at a tagged build, for everything
                                                                        llm/llama_server.go, LLAMA_CPP_VERSION
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import ModelSpec
from cotenant.engines.llama_cpp.builds import BuildRules
from cotenant.units import GIB, MIB

Release = tuple[int, ...]

SERVER_SINCE: Release = (0, 30)

# Release -> llama.cpp build: before 0.30 the number of commits up to the one that it carries (llm/llama.cpp,
# llama/vendoring, Makefile.sync).
BUILDS = (
    ((0, 1, 30), 2527), ((0, 1, 32), 2679), ((0, 1, 33), 2770), ((0, 1, 39), 2986), ((0, 1, 40), 3051),
    ((0, 1, 45), 3171), ((0, 2), 3337), ((0, 2, 8), 3440), ((0, 3, 1), 3485), ((0, 3, 4), 3535),
    ((0, 3, 10), 3661), ((0, 3, 14), 3862), ((0, 5, 2), 4260), ((0, 5, 3), 4327), ((0, 5, 5), 4419),
    ((0, 5, 13), 4779), ((0, 6, 6), 5125), ((0, 6, 7), 5162), ((0, 6, 8), 5237), ((0, 7), 5359),
    ((0, 11, 5), 6121), ((0, 12, 4), 6646), ((0, 12, 6), 6752), ((0, 12, 11), 6840), ((0, 13, 2), 7209),
    ((0, 13, 3), 7345), ((0, 13, 5), 7437), ((0, 30), 9452), ((0, 30, 1), 9479), ((0, 30, 4), 9493),
    ((0, 30, 5), 9509), ((0, 30, 9), 9626), ((0, 30, 10), 9672), ((0, 30, 11), 9781), ((0, 31), 9840),
    ((0, 31, 2), 9888), ((0, 32, 2), 10069), ((0, 32, 3), 10091), ((0, 32, 6), 10242), ((0, 32, 8), 10353),
    ((0, 32, 10), 10380), ((0, 32, 14), 10434), ((0, 32, 15), 10488),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OwnEngine:
    """An architecture that its own engine runs: since when, and since when with flash attention unasked (None:
    never). `kept`: tokens that a sliding layer keeps at least, whatever its window (kvcache.NewSWAMemCache)."""

    since: Release
    flash: Release | None = None
    kept: int = 0


# By letters of its family and architecture; the first that matches counts, so longer names stand first.
_OWN = (
    ("gemma3n", OwnEngine((0, 9, 5))),
    ("gemma3", OwnEngine((0, 6), (0, 12, 6))),
    ("gemma4", OwnEngine((0, 20), (0, 20, 4), 4096)),
    ("gptoss", OwnEngine((0, 11), (0, 11, 8), 4096)),
    ("llama4", OwnEngine((0, 6, 7))),
    ("mistral3", OwnEngine((0, 6, 5), (0, 13, 2))),
    ("mllama", OwnEngine((0, 7))),
    ("qwen25vl", OwnEngine((0, 7))),
    ("qwen3vl", OwnEngine((0, 12, 7), (0, 12, 8))),
    ("qwen3next", OwnEngine((0, 15, 5), (0, 15, 5))),
    ("qwen35", OwnEngine((0, 17, 1), (0, 17, 1))),
    ("qwen3moe", OwnEngine((0, 12, 2), (0, 12, 4))),
    ("qwen3", OwnEngine((0, 12), (0, 12, 4))),
    ("deepseekv2for", OwnEngine((0, 13))),
    ("deepseekv3for", OwnEngine((0, 13))),
    ("deepseek2", OwnEngine((0, 13))),
    ("olmo3", OwnEngine((0, 13, 4), (0, 13, 4))),
    ("glm4moelite", OwnEngine((0, 14, 3), (0, 14, 3))),
    ("lfm2", OwnEngine((0, 14, 3), (0, 14, 3))),
    ("nemotronh", OwnEngine((0, 17, 1), (0, 17, 1))),
    ("laguna", OwnEngine((0, 22), (0, 22))),
)


def own_engine(model: ModelSpec, release: Release) -> OwnEngine | None:
    """How Ollama's own engine runs that model, or None where llama.cpp does."""
    if release >= SERVER_SINCE:
        return None
    letters = "".join(one for one in f"{model.family}{model.architecture}".lower() if one.isalnum())
    found = next((own for mark, own in _OWN if mark in letters), None)
    return found if found is not None and release >= found.since else None


_CAST_MASK: Release = (0, 12, 7)  # the mask is filled in as f32 and cast where it is needed (kvcache/causal.go)
_OFFLOADS: Release = (0, 12, 8)  # products of layers on the host may go to the GPU (ml/backend/ggml, op_offload)
_STORES_ROWS: Release = (0, 13)  # keys and values are stored by row index (SetRows)
_PAD_256: Release = (0, 13, 2)  # a cache in steps of 256 cells without flash attention too (CacheConfig)


def own_build(build: BuildRules, release: Release) -> BuildRules:
    """How its own engine builds graphs: each layer as llama.cpp does, keys before values, a row of logits a slot,
    nothing reserved that is not read (runner/ollamarunner/runner.go, reserveWorstCaseGraph)."""
    return replace(
        build, own_engine=True, capped_outputs=True, late_outputs=False, values_first=False, vectors=0, glu=True,
        windows=True, half_mask=release < _CAST_MASK, offloads=release >= _OFFLOADS,
        row_stores=release >= _STORES_ROWS, pad_plain=256 if release >= _PAD_256 else 32,
    )  # fmt: skip


def build_number(release: Release) -> int:
    """The llama.cpp build of a release."""
    return max((build for since, build in BUILDS if release >= since), default=BUILDS[0][1])


# server/sched.go: generationBatchForContext, and the share of the free memory that weights and cache may take so
# that a batch of that size is used.
_SMALL, _MEDIUM, _LARGE = 512, 1024, 2048
_HEADROOM = {_MEDIUM: (0.75, 768 * MIB), _LARGE: (0.60, 2 * GIB)}
_MOST = 0.80


def automatic_batch(model: ModelSpec, options: LlamaCppOptions, weights_bytes: float, free_bytes: int) -> int:
    """num_batch where nobody set it, since 0.30: 512 tokens, 1,024 in contexts above 4,096 and 2,048 above 32,768,
    fewer where weights and cache (as Ollama counts it: f16, every layer alike) leave too little of the card. Of a
    card of unknown size (0 bytes) the most that the context allows."""
    if options.flash_attn is False:
        return _SMALL
    context = options.n_ctx or 0
    batch = _LARGE if context > 32768 else _MEDIUM if context > 4096 else _SMALL
    predicted = weights_bytes + _predicted_cache(model, context)
    while free_bytes and batch > _SMALL and not _fits(batch, predicted, free_bytes):
        batch = _MEDIUM if batch > _MEDIUM else _SMALL
    return batch


def _predicted_cache(model: ModelSpec, context: int) -> float:
    """llm.PredictServerVRAM: the fewest key-value heads of any layer, and hidden size / heads as their width."""
    kv_heads = min((group.kv_heads for group in model.layer_groups if group.kv_heads), default=1)
    heads = max((group.query_heads for group in model.layer_groups), default=0)
    width = model.hidden_size // heads if heads else 0
    return 4.0 * model.num_layers * kv_heads * width * context


def _fits(batch: int, predicted: float, free_bytes: int) -> bool:
    share, surcharge = _HEADROOM[batch]
    return predicted <= min(share, _MOST) * free_bytes and predicted + surcharge <= _MOST * free_bytes
