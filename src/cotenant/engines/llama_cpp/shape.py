"""What llama.cpp's graph of a model depends on, read off its ModelSpec, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, ParameterGroup, Role
from cotenant.engines.llama_cpp.windows import as_run


class Recurrence(Enum):
    """How a recurrent mixer works."""

    DELTA_NET = "gated delta net"
    SCAN = "selective scan"
    CONVOLUTION = "short convolution"
    OTHER = "RWKV or Lightning Attention"  # whose graph is not followed here


@dataclass(frozen=True, slots=True)
class Mixer:
    """How one layer mixes tokens. Heads and widths in elements; `queries` is the query projection's output
    (twice the heads where it carries a gate); `channels` and `inner` belong to a recurrent mixer."""

    kind: AttentionKind
    heads: int = 0
    kv_heads: int = 0
    key_width: int = 0
    value_width: int = 0
    queries: int = 0
    normed: bool = False
    biased: bool = False
    index_width: int = 0
    index_heads: int = 0
    channels: int = 0
    kernel: int = 0
    inner: int = 0
    state: int = 0
    low_rank: int = 0  # MLA: width of the compressed query; 0 = projected at once
    up_width: int = 0  # MLA: a head's value width after decompression
    joined: bool = False  # one matrix makes queries, keys and values
    recurrence: Recurrence = Recurrence.DELTA_NET


@dataclass(frozen=True, slots=True)
class FeedForward:
    """How one layer transforms a token: a dense part, experts, or experts and a shared one."""

    inner: int = 0
    gated: bool = True
    experts: int = 0
    used: int = 0
    expert_inner: int = 0
    grouped: bool = False
    joined: bool = False  # one matrix makes gate and up
    joined_experts: bool = False
    apart: bool = False  # experts and the dense part stand side by side, each between norms of its own
    weighted_first: bool = False  # a token is scaled by its experts' weights before them


@dataclass(frozen=True, slots=True)
class LayerShape:
    """One layer: `norms` is how many norms stand around its two halves (2, 4 with norms behind them, or 1 where
    both take what one norm makes). Where its weights (or its experts) lie with the host, each matrix is copied
    over for the moment that it is needed: `copied` (`copied_experts`) are bytes an element then, `copied_keys` and
    `copied_values` those of its cache, which is copied over for the moment of attention."""

    mixer: Mixer
    forward: FeedForward
    norms: int = 2
    copied: float = 0.0
    copied_experts: float = 0.0
    copied_keys: int = 0
    copied_values: int = 0


@dataclass(frozen=True, slots=True)
class GraphShape:
    """A whole model. `per_layer_width` is that of embeddings fed to every layer (Gemma 3n and 4)."""

    hidden: int
    vocab: int
    layers: tuple[LayerShape, ...]
    per_layer_width: int = 0
    scaled: bool = False  # embeddings are scaled before the first layer
    encoder: bool = False


_QUERY = ("q_proj", "attn_q", "q_b_proj", "attn_q_b")
_QKV = ("qkv_proj", "attn_qkv")
_QUERY_NORM = ("q_norm", "attn_q_norm")
_GATE = ("gate_proj", "ffn_gate", "ffn_gate_shexp")
_UP = ("up_proj", "ffn_up", "fc1", "ffn_up_shexp")
_DOWN = ("down_proj", "ffn_down")
_EXPERT = ("up_proj", "ffn_up_exps", "ffn_gate_up_exps")
_CONV = ("conv1d", "ssm_conv1d")
_STATE_OUT = ("out_proj", "ssm_out")
_SCAN_IN = ("in_proj", "ssm_in")
_INDEX_HEADS = ("weights_proj", "indexer_proj")
_LOW_RANK = ("q_a_proj", "attn_q_a")
# Architectures of files whose matrices are joined, where a config names the parts (src/models/phi3.cpp, glm4.cpp).
_JOINED_QUERIES = ("phi3", "chatglm")
_JOINED_UP = ("phi3", "glm4for", "chatglm", "glmfor")
_GROUPED = ("deepseek", "kimi", "glm")  # experts chosen group by group where the router has groups


@lru_cache(maxsize=32)
def graph_shape(model: ModelSpec) -> GraphShape:
    """The shape of the model's graph; a part that the spec does not tell is left out (width 0)."""
    model = as_run(model)
    by_layer = _by_layer(model)
    layers = []
    groups = {layer: group for group in model.layer_groups for layer in group.layers if not _beside(group)}
    for number in range(model.num_layers):
        parts = by_layer.get(number, [])
        layers.append(
            LayerShape(_mixer(model, groups.get(number), parts), _forward(model, parts), _norms(model, parts))
        )
    family = model.family.lower()
    return GraphShape(
        hidden=model.hidden_size,
        vocab=model.vocab_size,
        layers=tuple(layers),
        per_layer_width=_per_layer(model),
        scaled="gemma" in family,
        encoder=model.encoder_only,
    )


def _beside(group: LayerGroup) -> bool:
    """Whether it is what an n-gram memory keeps beside its layer's own state (Qwen4-Exp)."""
    return group.kind is AttentionKind.RECURRENT and group.state is not None and group.state.conv_steps > 4


def _by_layer(model: ModelSpec) -> dict[int, list[ParameterGroup]]:
    found: dict[int, list[ParameterGroup]] = {}
    for part in model.parameters:
        if not part.draft:
            for layer in part.layers:
                found.setdefault(layer, []).append(part)
    return found


def _named(
    parts: list[ParameterGroup], names: tuple[str, ...], role: Role | None = None
) -> Iterator[ParameterGroup]:
    return (
        part for part in parts if part.name.rpartition(".")[2] in names and (role is None or part.role is role)
    )


def _rows(parts: list[ParameterGroup], names: tuple[str, ...], role: Role | None = None) -> int:
    return sum(part.shape[-2] for part in _named(parts, names, role) if len(part.shape) > 1)


def _mixer(model: ModelSpec, group: LayerGroup | None, parts: list[ParameterGroup]) -> Mixer:
    if group is None:
        return Mixer(AttentionKind.NONE)
    if group.kind is AttentionKind.RECURRENT:
        conv = next((part.shape for part in _named(parts, _CONV) if len(part.shape) > 1), None)
        out = next((part.shape for part in _named(parts, _STATE_OUT)), None)
        state, kernel, channels = group.state, 4, 0
        if conv is not None:
            kernel, channels = min(conv[0], conv[-1]), max(conv)
        elif state is not None:
            channels = state.conv_elements // (kernel - 1)
        inner = out[-1] if out else 0
        return Mixer(
            group.kind, channels=channels, kernel=kernel, inner=inner, state=state.state_elements if state else 0,
            queries=_rows(parts, _SCAN_IN), recurrence=_recurrence(parts),
        )  # fmt: skip
    latent = group.kind is AttentionKind.LATENT
    up = next((part for part in parts if part.name.rpartition(".")[2] in ("o_proj", "attn_output")), None)
    return Mixer(
        group.kind, group.query_heads, group.kv_heads, group.key_width, group.value_width,
        queries=_rows(parts, _QUERY) or (0 if latent else group.query_heads * group.key_width),
        normed=any(True for _ in _named(parts, _QUERY_NORM)),
        biased=any(part.name.endswith(("q_proj.bias", "attn_q.bias")) for part in parts),
        index_width=group.index_width,
        index_heads=_rows(parts, _INDEX_HEADS),
        low_rank=_rows(parts, _LOW_RANK),
        up_width=up.shape[-1] // group.query_heads if up is not None and group.query_heads else 0,
        joined=any(True for _ in _named(parts, _QKV)) or _marked(model, _JOINED_QUERIES),
    )  # fmt: skip


def _recurrence(parts: list[ParameterGroup]) -> Recurrence:
    names = [part.name for part in parts]
    if any(name.endswith(("conv.in_proj", "shortconv.in_proj")) for name in names):
        return Recurrence.CONVOLUTION
    scans = any(name.rpartition(".")[2] in _SCAN_IN for name in names)
    if scans:
        return Recurrence.SCAN
    return Recurrence.DELTA_NET if any("conv1d" in name for name in names) else Recurrence.OTHER


def _forward(model: ModelSpec, parts: list[ParameterGroup]) -> FeedForward:
    dense = _rows(parts, _UP, Role.MLP)
    down = next((part.shape[-1] for part in _named(parts, _DOWN, Role.MLP)), 0)
    gated = bool(_rows(parts, _GATE, Role.MLP))
    joined = _marked(model, _JOINED_UP) or (not gated and dense == 2 * down > 0)
    if joined and not gated:
        dense //= 2
    experts = next((part for part in _named(parts, _EXPERT, Role.EXPERT)), None)
    if not parts and model.intermediate_size:
        dense = model.intermediate_size
    joined_experts = experts is not None and experts.name.endswith("ffn_gate_up_exps")
    return FeedForward(
        inner=dense,
        gated=gated or joined or not parts,
        experts=model.num_experts if experts is not None else 0,
        used=model.experts_per_token,
        expert_inner=experts.shape[-2] // (1 + joined_experts) if experts is not None else 0,
        grouped=any(mark in model.family.lower() for mark in _GROUPED),
        joined=joined,
        joined_experts=joined_experts,
        apart=experts is not None and _marked(model, ("gemma4",)),
        weighted_first=_marked(model, ("llama4",)),
    )


def _marked(model: ModelSpec, marks: tuple[str, ...]) -> bool:
    letters = "".join(filter(str.isalnum, f"{model.family} {model.architecture}".lower()))
    return any(mark in letters for mark in marks)


def _norms(model: ModelSpec, parts: list[ParameterGroup]) -> int:
    """Norms as wide as the model; a config's reader counts them in one group, a GGUF header one by one."""
    wide = [part for part in parts if part.role is Role.NORM and "q_" not in part.name and "k_" not in part.name]
    copies = sum(part.copies for part in wide)
    if copies == 1 and not model.encoder_only:
        roles = {part.role for part in parts}
        return 1 if Role.ATTENTION in roles and roles & {Role.MLP, Role.EXPERT} else 2
    return 4 if copies >= 4 else 2


def _per_layer(model: ModelSpec) -> int:
    for part in model.parameters:
        if part.name.rpartition(".")[2] in ("embed_tokens_per_layer", "per_layer_token_embd"):
            return part.shape[-1]
    return 0
