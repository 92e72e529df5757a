"""What each block of a GGUF model keeps of the past: the rules of llama.cpp, by architecture.

Source: ``load_arch_hparams`` of each architecture and src/llama-hparams.cpp in
https://github.com/ggml-org/llama.cpp (read at 00342301, 01b77b57 and, for gemma4, qwen35, mimo2 and minimax-m2,
as of 2026). What a file states for itself (``attention.sliding_window_pattern``, per-layer head counts) goes
before an architecture's rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from cotenant.domain.model import AttentionKind, LayerGroup, RecurrentState
from cotenant.errors import FormatError
from cotenant.readers.gguf_keys import GgufKeys


@dataclass(frozen=True, slots=True)
class WindowRule:
    """Which layers of an architecture have a window: all but each `period`-th (the last of a period, or the first
    with `full_first`). `period` None: the file must list them. `window` tokens where the file names none; a file
    that must name it and does not is refused, unless `optional`: then no layer has one. `fixed`: the file's own
    figure is ignored. `only_layers`: the rule holds for models of that depth only."""

    period: int | None
    window: int | None = None
    optional: bool = False
    fixed: bool = False
    full_first: bool = False
    chunked: bool = False
    only_layers: int | None = None


WINDOWS = MappingProxyType(
    {
        "gemma2": WindowRule(2, 4096),
        "gemma3": WindowRule(6),
        "gemma3n": WindowRule(5),
        "gemma4": WindowRule(None),
        "gpt-oss": WindowRule(2),
        "mimo2": WindowRule(None),
        "cohere2": WindowRule(4),
        "olmo2": WindowRule(4, optional=True),
        "exaone4": WindowRule(4, 4096, only_layers=64),
        "llama4": WindowRule(4, 8192, fixed=True, chunked=True),
        "smallthinker": WindowRule(4, 4096, optional=True, fixed=True, full_first=True),
    }
)

FULL = frozenset(
    """
    llama mistral3 deci qwen qwen2 qwen2vl qwen2moe qwen3 qwen3moe qwen3vl qwen3vlmoe phi2 phi3 phimoe gemma
    starcoder starcoder2 granite granitemoe command-r olmo olmoe glm4 chatglm glm4moe stablelm internlm2 exaone
    falcon gpt2 gptneox baichuan minicpm smollm3 nemotron seed_oss ernie4_5 ernie4_5-moe dots1 hunyuan-dense
    hunyuan-moe arcee apertus bailingmoe bailingmoe2 dbrx openelm bloom mpt orion xverse deepseek refact arctic
    grok codeshell minimax-m2
    """.split()  # noqa: SIM905 - a list that people read
)
LATENT = frozenset({"deepseek2"})
STATE_SPACE = frozenset({"mamba", "mamba2"})
BY_KV_HEADS = frozenset(  # a layer without key-value heads recurs
    {"jamba", "granitehybrid", "plamo2", "nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe"}
)
BY_INTERVAL = frozenset({"qwen3next", "qwen35", "qwen35moe"})  # every 4th layer attends
BOTH = frozenset({"falcon-h1"})  # attention and a state in every layer
ENCODERS = frozenset({"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "neo-bert"})
ENCODERS |= {"modern-bert", "gemma-embedding"}
WITH_DRAFT = frozenset({"glm4moe", "bailingmoe2", "qwen35", "qwen35moe"})  # block_count includes the draft layers

KNOWN = FULL | LATENT | STATE_SPACE | BY_KV_HEADS | BY_INTERVAL | BOTH | ENCODERS | frozenset(WINDOWS)


def num_layers(keys: GgufKeys) -> int:
    """Layers that run for every token: draft layers (``nextn_predict_layers``) are left out."""
    drafts = keys.size("nextn_predict_layers") if keys.architecture in WITH_DRAFT else 0
    if drafts >= keys.num_blocks:
        raise FormatError(f"GGUF header: {drafts} draft layers of {keys.num_blocks} blocks")
    return keys.num_blocks - drafts


def recurrent_layers(keys: GgufKeys) -> frozenset[int]:
    """The blocks with a recurrent state."""
    layers = range(num_layers(keys))
    if keys.architecture in STATE_SPACE | BOTH:
        return frozenset(layers)
    if keys.architecture in BY_INTERVAL:
        flags = keys.flags("attention.recurrent_layers")
        interval = keys.size("full_attention_interval", 4) or 4
        return frozenset(i for i in layers if (flags[i] if flags else (i + 1) % interval))
    if keys.architecture in BY_KV_HEADS:
        heads = keys.per_layer("attention.head_count_kv", 0)
        widths = keys.per_layer("feed_forward_length", 0)
        mlp_only = keys.architecture.startswith("nemotron_h")  # a layer of it is a mixer or an MLP, never both
        return frozenset(i for i in layers if not heads[i] and not (mlp_only and widths[i]))
    return frozenset()


def layer_groups(keys: GgufKeys) -> tuple[LayerGroup, ...]:
    """Every layer once (falcon-h1: twice), grouped by what it caches. Raises FormatError on a missing key."""
    total = num_layers(keys)
    if keys.architecture in ENCODERS:
        heads = keys.size("attention.head_count", 0) or 0
        width = (keys.size("embedding_length", 0) or 0) // heads if heads else 0
        return (LayerGroup(AttentionKind.NONE, tuple(range(total)), heads, heads, width, width),)
    recurrent = recurrent_layers(keys)
    states = _state_group(keys, recurrent)
    if keys.architecture in STATE_SPACE:
        return states
    attending = [i for i in range(total) if i not in recurrent or keys.architecture in BOTH]
    if is_latent(keys):
        return (_latent_group(keys, attending),)
    return _attention_groups(keys, attending) + states


def is_latent(keys: GgufKeys) -> bool:
    """Whether llama.cpp caches MLA's compressed row: only files that state the head widths of MLA (2025 on)."""
    return keys.architecture in LATENT and bool(keys.size("attention.key_length_mla"))


def _latent_group(keys: GgufKeys, layers: Sequence[int]) -> LayerGroup:
    """One row of kv_lora_rank + rope dimensions a token, shared by all heads."""
    return LayerGroup(
        AttentionKind.LATENT,
        tuple(layers),
        query_heads=keys.required("attention.head_count"),
        kv_heads=1,
        key_width=keys.required("attention.kv_lora_rank") + keys.required("rope.dimension_count"),
    )


def _attention_groups(keys: GgufKeys, layers: Iterable[int]) -> tuple[LayerGroup, ...]:
    queries, windows = keys.per_layer("attention.head_count", 0), _windows(keys)
    kv_heads = keys.per_layer("attention.head_count_kv", 0)
    if keys.raw("attention.head_count_kv") is None:
        kv_heads = queries  # absent: as many as queries
    found: dict[LayerGroup, list[int]] = {}
    for i in layers:
        kind = _kind(keys, i, kv_heads[i], windows[i])
        alike = LayerGroup(kind, ())
        if kind is not AttentionKind.NONE:
            key, value = _widths(keys, queries, swa=windows[i] is not None)
            alike = LayerGroup(kind, (), queries[i], kv_heads[i], key, value, windows[i])
        found.setdefault(alike, []).append(i)
    return tuple(replace(group, layers=tuple(members)) for group, members in found.items())


def _kind(keys: GgufKeys, layer: int, kv_heads: int, window: int | None) -> AttentionKind:
    if kv_heads == 0 or layer >= _layers_with_cache(keys):
        return AttentionKind.NONE
    if window is None:
        return AttentionKind.FULL
    rule = WINDOWS.get(keys.architecture)
    return AttentionKind.CHUNKED if rule is not None and rule.chunked else AttentionKind.SLIDING


def _layers_with_cache(keys: GgufKeys) -> int:
    """The last layers of Gemma 3n and 4 read the cache of earlier ones."""
    total = num_layers(keys)
    shared = keys.size("attention.shared_kv_layers")
    if keys.architecture == "gemma3n" and not shared:
        return min(total, 20)
    return max(0, total - shared)


def _widths(keys: GgufKeys, queries: Sequence[int], *, swa: bool) -> tuple[int, int]:
    """(key, value) elements of one head; hidden / heads of the first layer where the file is silent."""
    default = keys.required("embedding_length") // queries[0] if queries[0] else 0
    ending = "_swa" if swa and keys.raw("attention.key_length_swa") is not None else ""
    key = keys.size(f"attention.key_length{ending}", default)
    value = keys.size(f"attention.value_length{ending}", default)
    if key <= 0 or value <= 0:
        raise FormatError(f"GGUF header: {keys.architecture} states no width of its attention heads")
    return key, value


def _windows(keys: GgufKeys) -> tuple[int | None, ...]:
    """The window of each block in tokens, None for the whole past."""
    rule = WINDOWS.get(keys.architecture)
    window = None if rule is None else _window_tokens(keys, rule)
    if rule is None or window is None:
        return (None,) * keys.num_blocks
    flags = keys.flags("attention.sliding_window_pattern")
    if flags is None:
        period = keys.number("attention.sliding_window_pattern", rule.period)
        if period is None:
            raise FormatError(f"GGUF header has no {keys.architecture}.attention.sliding_window_pattern")
        flags = tuple(_has_window(i, period, rule.full_first) for i in range(keys.num_blocks))
    return tuple(window if flag else None for flag in flags)


def _window_tokens(keys: GgufKeys, rule: WindowRule) -> int | None:
    stated = keys.number("attention.sliding_window")
    if rule.only_layers not in (None, keys.num_blocks) or stated == 0 or (stated is None and rule.optional):
        return None
    if stated is None and rule.window is None:
        raise FormatError(f"GGUF header has no {keys.architecture}.attention.sliding_window")
    return rule.window if rule.fixed or stated is None else stated


def _has_window(layer: int, period: int, full_first: bool) -> bool:
    if period == 0:
        return True
    return layer % period != 0 if full_first else layer % period < period - 1


def _state_group(keys: GgufKeys, layers: frozenset[int]) -> tuple[LayerGroup, ...]:
    """llama.cpp keeps (conv - 1) x (inner + 2 x groups x state) and state x inner elements, both fp32."""
    if not layers:
        return ()
    if keys.architecture.startswith("lfm2"):
        conv = keys.required("embedding_length") * (max(1, keys.required("shortconv.l_cache")) - 1)
        state = RecurrentState(conv_elements=conv, state_elements=0)
    else:
        inner, width = keys.required("ssm.inner_size"), keys.required("ssm.state_size")
        conv = (max(1, keys.required("ssm.conv_kernel")) - 1) * (inner + 2 * keys.size("ssm.group_count") * width)
        state = RecurrentState(conv_elements=conv, state_elements=width * inner, state_dtype="fp32")
    return (LayerGroup(AttentionKind.RECURRENT, tuple(sorted(layers)), state=state),)
