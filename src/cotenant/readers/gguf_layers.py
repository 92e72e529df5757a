"""What each block of a GGUF model keeps of the past: the rules of llama.cpp, by architecture.

Source: ``load_arch_hparams`` of each architecture, src/llama-hparams.cpp and ``create_memory`` in
https://github.com/ggml-org/llama.cpp (read at 00342301, 01b77b57 and, for what came in 2026, at build 11434). What
a file says for itself (``attention.sliding_window_pattern``, per-layer head counts) goes before its architecture's
rule.
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
        "afmoe": WindowRule(4, optional=True),
        "cohere2moe": WindowRule(4, full_first=True),
        "exaone-moe": WindowRule(4),
        "granite_swa": WindowRule(None),
        "laguna": WindowRule(4, optional=True, full_first=True),
        "maple": WindowRule(None),
        "mellum": WindowRule(4, optional=True),
        "muse-glimmer": WindowRule(4),
        "plamo3": WindowRule(8, optional=True),
        "spark2_5": WindowRule(None),
        "step35": WindowRule(None),
    }
)

FULL = frozenset(
    """
    llama mistral3 deci qwen qwen2 qwen2vl qwen2moe qwen3 qwen3moe qwen3vl qwen3vlmoe phi2 phi3 phimoe gemma
    starcoder starcoder2 granite granitemoe command-r olmo olmoe glm4 chatglm glm4moe stablelm internlm2 exaone
    falcon gpt2 gptneox baichuan minicpm smollm3 nemotron seed_oss ernie4_5 ernie4_5-moe dots1 hunyuan-dense
    hunyuan-moe arcee apertus bailingmoe bailingmoe2 dbrx openelm bloom mpt orion xverse deepseek refact arctic
    grok codeshell minimax-m2 minimax-m3 bitnet chameleon cogvlm deepseek2-ocr grovemoe hunyuan_vl hy_v3 jais jais2
    llama-embed maincoder minicpm3 paddleocr pangu-embedded plamo plm talkie
    """.split()  # noqa: SIM905 - a list that people read
)
DELTA_LATENT = frozenset({"kimi-linear", "kimi-k3", "bailingmoe3", "glm5-next"})  # KDA between layers of MLA
INDEXED = frozenset({"deepseek32", "glm-dsa", "hy_v4", "glm5-next"})  # MLA with DeepSeek's indexer
LATENT = frozenset({"deepseek2", "mistral4"}) | DELTA_LATENT | INDEXED
RWKV = frozenset({"rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
STATE_SPACE = frozenset({"mamba", "mamba2"}) | RWKV
BY_KV_HEADS = (
    frozenset(  # a layer without key-value heads recurs
        {"jamba", "granitehybrid", "plamo2", "nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe"}
    )
    | DELTA_LATENT
)
BY_INTERVAL = MappingProxyType(  # every so many layers one attends
    {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "qwen4exp": 4, "minimax-01": 8}
)
BOTH = frozenset({"falcon-h1"})  # attention and a state in every layer
ENCODERS = frozenset({"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "neo-bert"})
ENCODERS |= {"modern-bert", "gemma-embedding", "eurobert"}

KNOWN = FULL | LATENT | STATE_SPACE | BY_KV_HEADS | BY_INTERVAL.keys() | BOTH | ENCODERS | WINDOWS.keys()


def num_layers(keys: GgufKeys) -> int:
    """Layers that run for every token: drafts among its blocks (``nextn_predict_layers``) are not."""
    drafts = keys.size("nextn_predict_layers")
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
        usual = BY_INTERVAL[keys.architecture]
        interval = keys.size("full_attention_interval", usual) or usual
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
        return _latent_groups(keys, attending) + states
    return _attention_groups(keys, attending) + states


def is_latent(keys: GgufKeys) -> bool:
    """Whether llama.cpp caches MLA's compressed row: only files that state the head widths of MLA (2025 on)."""
    return keys.architecture in LATENT and bool(keys.size("attention.key_length_mla"))


def _latent_groups(keys: GgufKeys, layers: Sequence[int]) -> tuple[LayerGroup, ...]:
    """One row of kv_lora_rank + rope dimensions a token, shared by all heads; beside it a key of the indexer."""
    width = keys.required("attention.kv_lora_rank") + keys.required("rope.dimension_count")
    heads = max(keys.per_layer("attention.head_count", 0))
    indexed = _indexed_layers(keys, layers)
    found = []
    for chosen, index in ((tuple(i for i in layers if i not in indexed), 0), (indexed, INDEX_BYTES)):
        if chosen:
            found.append(LayerGroup(AttentionKind.LATENT, chosen, heads, 1, width, index_width=index))
    return tuple(found)


INDEX_WIDTH = 128
INDEX_BYTES = INDEX_WIDTH + 4  # in FP8 with a scale, as config.json's readers count it
_SHORT_CONTEXT = 2**20  # GLM-5 and 5.1 end below: every layer has an indexer; 5.2 shares one among four
_GLM_52 = (0, 1)  # layers with one of their own beside every fourth from the third on


def _indexed_layers(keys: GgufKeys, layers: Sequence[int]) -> tuple[int, ...]:
    """Layers that keep keys of an indexer of their own (src/models/deepseek32.cpp, glm-dsa.cpp, hy-v4.cpp)."""
    if keys.architecture not in INDEXED or not keys.size("attention.indexer.top_k"):
        return ()
    _index_width(keys)
    kinds = keys.flags("attention.indexer.types") if keys.architecture != "deepseek32" else None
    if kinds is not None:
        return tuple(i for i in layers if kinds[i])
    if keys.architecture == "glm-dsa" and keys.required("context_length") >= _SHORT_CONTEXT:
        return tuple(i for i in layers if i in _GLM_52 or i % 4 == 2)
    return tuple(layers)


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
            alike = LayerGroup(kind, (), queries[i], kv_heads[i], key, value, windows[i], _sparse_index(keys, i))
        found.setdefault(alike, []).append(i)
    return tuple(replace(group, layers=tuple(members)) for group, members in found.items())


def _sparse_index(keys: GgufKeys, layer: int) -> int:
    """Bytes of the indexer's key in 16 bits: in the layers of MiniMax M3 that are not dense, in all of Qwen4-Exp
    that attend (src/models/minimax-m3.cpp, qwen4exp.cpp)."""
    if keys.architecture == "qwen4exp":
        return 2 * _index_width(keys)
    if keys.architecture != "minimax-m3" or layer < keys.size("leading_dense_block_count"):
        return 0
    return 2 * keys.required("attention.indexer.key_length")


def _index_width(keys: GgufKeys) -> int:
    if (width := keys.required("attention.indexer.key_length")) != INDEX_WIDTH:
        raise FormatError(f"GGUF header: the indexer's keys have {width} elements, those known {INDEX_WIDTH}")
    return width


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
    """What llama.cpp keeps of a recurrent layer, fp32 (src/llama-hparams.cpp, n_embd_r and n_embd_s)."""
    if not layers:
        return ()
    conv, state = _state_elements(keys)
    kept = RecurrentState(conv, state, "fp32") if state else RecurrentState(conv, 0)
    return (LayerGroup(AttentionKind.RECURRENT, tuple(sorted(layers)), state=kept), *_memory_groups(keys))


def _memory_groups(keys: GgufKeys) -> tuple[LayerGroup, ...]:
    """Last inputs of the n-gram memory of Qwen4-Exp, beside its layer's own state (llama-hparams.cpp)."""
    layers = keys.raw("ple.layers") if keys.architecture == "qwen4exp" else None
    if not isinstance(layers, tuple) or not layers:
        return ()
    steps = (keys.required("ple.conv_kernel") - 1) * keys.required("ple.ngram_size")
    wide = keys.required("hyper_connection.count") * keys.required("embedding_length")
    kept = RecurrentState(steps * wide, 0, conv_steps=max(1, steps))
    return (LayerGroup(AttentionKind.RECURRENT, layers, state=kept),)


def _state_elements(keys: GgufKeys) -> tuple[int, int]:
    """(elements of the last inputs, elements of the state) of one layer."""
    heads = max(keys.per_layer("attention.head_count", 0))
    if keys.architecture in RWKV:
        hidden = keys.required("embedding_length")
        return keys.size("token_shift_count", 2) * hidden, hidden * keys.required("wkv.head_size")
    if keys.architecture in DELTA_LATENT:
        width, kernel = keys.required("kda.head_dim"), keys.required("ssm.conv_kernel")
        return 3 * max(1, kernel - 1) * heads * width, width * width * heads
    if keys.architecture == "minimax-01":
        width, _ = _widths(keys, keys.per_layer("attention.head_count", 0), swa=False)
        return 0, width * width * heads
    if keys.architecture.startswith("lfm2"):
        return keys.required("embedding_length") * (max(1, keys.required("shortconv.l_cache")) - 1), 0
    inner, width = keys.required("ssm.inner_size"), keys.required("ssm.state_size")
    conv = (max(1, keys.required("ssm.conv_kernel")) - 1) * (inner + 2 * keys.size("ssm.group_count") * width)
    return conv, width * inner
