"""Building blocks of decoders: from sizes to the tensors of a checkpoint.

Shapes are (outputs, inputs). `Split` follows vLLM's parallel layers: a column-parallel layer divides its outputs
and its bias, a row-parallel one its inputs (its bias stays whole), replicated ones nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cotenant.domain.model import AttentionKind, LayerGroup, ParameterGroup, Role, Split, Stage

Layers = tuple[int, ...]
Groups = tuple[ParameterGroup, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """What a family answers: every tensor, what each layer caches, and the sizes for the ModelSpec.

    `max_model_len` None: the reader derives it from the config's usual keys.
    """

    parameters: Groups
    layer_groups: tuple[LayerGroup, ...]
    num_layers: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_model_len: int | None = None
    num_experts: int = 0
    experts_per_token: int = 0
    modalities: tuple[str, ...] = ("text",)
    encoder_only: bool = False
    notes: tuple[str, ...] = ()

    def extended(self, *groups: ParameterGroup, modalities: tuple[str, ...] | None = None) -> Structure:
        """The same model with more tensors (a vision tower, draft layers)."""
        return replace(
            self,
            parameters=self.parameters + groups,
            modalities=self.modalities if modalities is None else modalities,
        )


def linear(
    name: str,
    outputs: int,
    inputs: int,
    *,
    role: Role,
    layers: Layers = (),
    split: Split = Split.EVEN,
    bias: bool = False,
    row: bool = False,
    kv_heads: int = 0,
    copies: int = 1,
) -> Groups:
    """A matrix and, where asked, its bias; `row`: row-parallel, so the bias is held whole by every rank."""
    weight = ParameterGroup(name, role, (outputs, inputs), split, copies, layers, kv_heads=kv_heads)
    if not bias:
        return (weight,)
    return (weight, replace(weight, name=f"{name}.bias", shape=(outputs,), split=Split.NONE if row else split))


def vector(
    name: str,
    width: int,
    *,
    role: Role = Role.NORM,
    layers: Layers = (),
    copies: int = 1,
    split: Split = Split.NONE,
    stage: Stage = Stage.FIRST,
    dtype: str = "",
) -> Groups:
    """One-dimensional parameters: norm weights, biases, scales."""
    return (ParameterGroup(name, role, (width,), split, copies, layers, stage, dtype=dtype),)


def norm(name: str, width: int, *, layers: Layers = (), bias: bool = False, copies: int = 1) -> Groups:
    """A norm's weight (and bias); one outside the layers is the last before the head."""
    stage = Stage.FIRST if layers else Stage.LAST
    return vector(name, width, layers=layers, copies=copies * (2 if bias else 1), stage=stage)


def vocabulary(
    vocab: int, hidden: int, *, tied: bool, head_bias: bool = False, head_rows: int | None = None
) -> Groups:
    """The input embedding and the output head; a tied head is the same tensor again (pipelines keep two)."""
    rows = vocab if head_rows is None else head_rows
    groups: Groups = (
        ParameterGroup("embed_tokens", Role.EMBEDDING, (vocab, hidden), Split.VOCAB, stage=Stage.FIRST),
        ParameterGroup("lm_head", Role.HEAD, (rows, hidden), Split.VOCAB, stage=Stage.LAST, tied=tied),
    )
    if head_bias:
        groups += (ParameterGroup("lm_head.bias", Role.HEAD, (rows,), Split.VOCAB, stage=Stage.LAST),)
    return groups


def attention(
    layers: Layers,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    value_dim: int | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: str = "",
    norm_bias: bool = False,
    gated: bool = False,
    sinks: bool = False,
    has_keys: bool = True,
    shares_values: bool = False,
) -> Groups:
    """Query, key, value and output projections of grouped-query attention.

    `qk_norm`: "head" = one weight of head_dim for all heads, "full" = one over all heads together.
    `gated`: the query projection also yields an output gate. `sinks`: one learned logit a head.
    `has_keys` False: the layer reads another layer's cache. `shares_values`: values are the keys.
    """
    value_dim = head_dim if value_dim is None else value_dim
    wide = heads * head_dim + (heads * value_dim if gated else 0)
    groups = linear("self_attn.q_proj", wide, hidden, role=Role.ATTENTION, layers=layers, bias=qkv_bias)
    if has_keys:
        widths = [("k", head_dim)] if shares_values else [("k", head_dim), ("v", value_dim)]
        for letter, width in widths:
            groups += linear(
                f"self_attn.{letter}_proj", kv_heads * width, hidden, role=Role.ATTENTION, layers=layers,
                split=Split.KV, bias=qkv_bias, kv_heads=kv_heads,
            )  # fmt: skip
    groups += linear(
        "self_attn.o_proj", hidden, heads * value_dim, role=Role.ATTENTION, layers=layers, bias=out_bias, row=True
    )
    groups += _qk_norms(layers, heads, kv_heads if has_keys else 0, head_dim, qk_norm, norm_bias)
    if sinks:
        groups += vector("self_attn.sinks", heads, role=Role.ATTENTION, layers=layers, split=Split.EVEN)
    return groups


def _qk_norms(layers: Layers, heads: int, kv_heads: int, head_dim: int, kind: str, bias: bool) -> Groups:
    if not kind:
        return ()
    query = heads * head_dim if kind == "full" else head_dim
    groups = norm("self_attn.q_norm", query, layers=layers, bias=bias)
    if kv_heads:
        groups += norm(
            "self_attn.k_norm", kv_heads * head_dim if kind == "full" else head_dim, layers=layers, bias=bias
        )
    return groups


def latent_attention(
    layers: Layers,
    hidden: int,
    heads: int,
    *,
    q_rank: int | None,
    kv_rank: int,
    nope_dim: int,
    rope_dim: int,
    value_dim: int,
    bias: bool = False,
    name: str = "self_attn",
) -> Groups:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): down-projections are held by every rank."""
    query = heads * (nope_dim + rope_dim)
    at = {"role": Role.ATTENTION, "layers": layers}
    if q_rank is None:
        groups = linear(f"{name}.q_proj", query, hidden, role=Role.ATTENTION, layers=layers)
    else:
        groups = linear(f"{name}.q_a_proj", q_rank, hidden, split=Split.NONE, bias=bias, **at)  # type: ignore[arg-type]
        groups += norm(f"{name}.q_a_layernorm", q_rank, layers=layers)
        groups += linear(f"{name}.q_b_proj", query, q_rank, role=Role.ATTENTION, layers=layers)
    groups += linear(
        f"{name}.kv_a_proj_with_mqa", kv_rank + rope_dim, hidden, role=Role.ATTENTION, layers=layers,
        split=Split.NONE, bias=bias,
    )  # fmt: skip
    groups += norm(f"{name}.kv_a_layernorm", kv_rank, layers=layers)
    groups += linear(
        f"{name}.kv_b_proj", heads * (nope_dim + value_dim), kv_rank, role=Role.ATTENTION, layers=layers
    )
    return groups + linear(
        f"{name}.o_proj", hidden, heads * value_dim, role=Role.ATTENTION, layers=layers, bias=bias, row=True
    )


def gated_mlp(
    layers: Layers, hidden: int, inner: int, *, bias: bool = False, name: str = "mlp", role: Role = Role.MLP
) -> Groups:
    """Gate, up and down projections (SwiGLU and its kin)."""
    return linear(f"{name}.gate_proj", inner, hidden, role=role, layers=layers, bias=bias) + plain_mlp(
        layers, hidden, inner, bias=bias, name=name, role=role
    )


def plain_mlp(
    layers: Layers, hidden: int, inner: int, *, bias: bool = False, name: str = "mlp", role: Role = Role.MLP
) -> Groups:
    """Up and down projections."""
    return linear(f"{name}.up_proj", inner, hidden, role=role, layers=layers, bias=bias) + linear(
        f"{name}.down_proj", hidden, inner, role=role, layers=layers, bias=bias, row=True
    )


def experts(
    layers: Layers, hidden: int, inner: int, count: int, *, gated: bool = True, bias: bool = False
) -> Groups:
    """Routed experts, stacked: (count, outputs, inputs). Biases stay one vector an expert."""
    shapes = [("gate_proj", inner, hidden)] if gated else []
    shapes += [("up_proj", inner, hidden), ("down_proj", hidden, inner)]
    groups: Groups = ()
    for name, outputs, inputs in shapes:
        groups += (
            ParameterGroup(f"experts.{name}", Role.EXPERT, (count, outputs, inputs), Split.EVEN, 1, layers),
        )
        if bias:
            split = Split.NONE if name == "down_proj" else Split.EVEN
            groups += (ParameterGroup(f"experts.{name}.bias", Role.EXPERT, (outputs,), split, count, layers),)
    return groups


def router(
    layers: Layers, hidden: int, count: int, *, bias: bool = False, correction: bool = False, dtype: str = ""
) -> Groups:
    """The gate that picks experts, whole on every rank; `correction` is the load-balancing bias in fp32."""
    weight = linear("router", count, hidden, role=Role.ROUTER, layers=layers, split=Split.NONE, bias=bias)
    groups = tuple(replace(group, dtype=dtype) for group in weight)
    if correction:
        groups += vector("router.correction_bias", count, role=Role.ROUTER, layers=layers, dtype="fp32")
    return groups


def draft(groups: Iterable[ParameterGroup]) -> Groups:
    """The same tensors as a multi-token prediction layer: outside the numbered ones, on the last stage."""
    return tuple(
        replace(group, name=f"mtp.{group.name}", copies=group.count, layers=(), stage=Stage.LAST, draft=True)
        for group in groups
    )


def cache_groups(
    windows: Sequence[int | None],
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    layers: Layers | None = None,
    value_dim: int | None = None,
    windowed: AttentionKind = AttentionKind.SLIDING,
) -> tuple[LayerGroup, ...]:
    """Layers grouped by window: None = the whole past. `windows` has one item a layer of `layers`."""
    numbers = tuple(range(len(windows))) if layers is None else layers
    by_window: dict[int | None, list[int]] = {}
    for number, window in zip(numbers, windows, strict=True):
        by_window.setdefault(window, []).append(number)
    return tuple(
        LayerGroup(
            AttentionKind.FULL if window is None else windowed,
            tuple(members), heads, kv_heads, head_dim, head_dim if value_dim is None else value_dim, window,
        )
        for window, members in sorted(by_window.items(), key=lambda item: item[1][0])
    )  # fmt: skip


def latent_cache(layers: Layers, heads: int, kv_rank: int, rope_dim: int, *, index_width: int = 0) -> LayerGroup:
    """What MLA keeps: one row of kv_rank + rope_dim a token, shared by all heads."""
    return LayerGroup(AttentionKind.LATENT, layers, heads, 1, kv_rank + rope_dim, 0, index_width=index_width)


def split_layers(layers: Layers, chosen: Iterable[int]) -> tuple[Layers, Layers]:
    """(those in `chosen`, the others), each in order."""
    wanted = set(chosen)
    return tuple(n for n in layers if n in wanted), tuple(n for n in layers if n not in wanted)
