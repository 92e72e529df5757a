"""Building blocks of recurrent mixers: Mamba 1 and 2, gated delta nets, lightning attention, short convolutions.

Each function gives the tensors; its `_state` companion what a layer keeps for each sequence. A_log, D and the
time-step bias are held in fp32, as vLLM allocates them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.model import AttentionKind, LayerGroup, ParameterGroup, RecurrentState, Role, Split
from cotenant.readers.blocks import Groups, Layers, linear, vector

FP32 = "fp32"
_MAMBA1_CHUNK = 2048  # it knows no chunks: what vLLM takes then (config/model.py, get_mamba_chunk_size)


def state_matrix(
    name: str, outputs: int, inputs: int, layers: Layers, *, row: bool = False, bias: bool = False
) -> Groups:
    """A projection of a recurrent mixer."""
    return linear(name, outputs, inputs, role=Role.STATE, layers=layers, row=row, bias=bias)


def state_vector(name: str, width: int, layers: Layers, *, copies: int = 1, dtype: str = FP32) -> Groups:
    """Per-head or per-channel values, divided like the heads."""
    return vector(name, width, role=Role.STATE, layers=layers, copies=copies, split=Split.EVEN, dtype=dtype)


def convolution(channels: int, kernel: int, layers: Layers, *, bias: bool = False, name: str = "conv1d") -> Groups:
    """A causal depthwise convolution, never quantised (role OTHER)."""
    groups: Groups = (ParameterGroup(name, Role.OTHER, (channels, 1, kernel), Split.EVEN, 1, layers),)
    if bias:
        groups += (ParameterGroup(f"{name}.bias", Role.OTHER, (channels,), Split.EVEN, 1, layers),)
    return groups


def mamba1(
    layers: Layers,
    hidden: int,
    inner: int,
    *,
    state: int,
    rank: int,
    kernel: int,
    conv_bias: bool = True,
    bias: bool = False,
    normed: bool = False,
) -> Groups:
    """Mamba (arXiv 2312.00752); `normed`: Jamba's norms on the time step, B and C."""
    groups = state_matrix("mixer.in_proj", 2 * inner, hidden, layers, bias=bias)
    groups += convolution(inner, kernel, layers, bias=conv_bias)
    groups += state_matrix("mixer.x_proj", rank + 2 * state, inner, layers)
    groups += state_matrix("mixer.dt_proj", inner, rank, layers, bias=True)
    groups += state_matrix("mixer.out_proj", hidden, inner, layers, row=True, bias=bias)
    groups += (ParameterGroup("mixer.A_log", Role.OTHER, (inner, state), Split.EVEN, 1, layers, dtype=FP32),)
    groups += state_vector("mixer.D", inner, layers)
    if normed:
        groups += vector("mixer.dt_norm", rank, layers=layers)
        groups += vector("mixer.bc_norms", state, layers=layers, copies=2)
    return groups


def mamba1_state(inner: int, state: int, kernel: int) -> RecurrentState:
    """The last kernel - 1 inputs of the convolution and inner x state values."""
    return RecurrentState((kernel - 1) * inner, inner * state, chunk_tokens=_MAMBA1_CHUNK)


@dataclass(frozen=True, slots=True)
class Mamba2Shape:
    """Heads and their width, groups that share B and C, state columns, convolution length, tokens of a scan."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    chunk: int = 256

    @property
    def inner(self) -> int:
        """Width of the mixed input."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """What the convolution runs over: the input, B and C."""
        return self.inner + 2 * self.groups * self.state


def mamba2(
    layers: Layers,
    hidden: int,
    shape: Mamba2Shape,
    *,
    conv_bias: bool = True,
    bias: bool = False,
    normed: bool = True,
) -> Groups:
    """Mamba 2 (arXiv 2405.21060): one projection to gate, input, B, C and time step."""
    wide = shape.inner + shape.channels + shape.heads
    parts = state_matrix("mixer.in_proj", wide, hidden, layers, bias=bias)
    parts += convolution(shape.channels, shape.kernel, layers, bias=conv_bias)
    parts += state_matrix("mixer.out_proj", hidden, shape.inner, layers, row=True, bias=bias)
    parts += state_vector("mixer.A_log_D_dt_bias", shape.heads, layers, copies=3)
    return parts + (state_vector("mixer.norm", shape.inner, layers, dtype="") if normed else ())


def mamba2_state(shape: Mamba2Shape, *, dtype: str = "") -> RecurrentState:
    """The convolution's last kernel - 1 columns and heads x head_dim x state values."""
    elements = (shape.kernel - 1) * shape.channels, shape.inner * shape.state
    return RecurrentState(*elements, dtype, chunk_tokens=shape.chunk)


@dataclass(frozen=True, slots=True)
class DeltaShape:
    """Heads and widths of keys and values, convolution length."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int

    @property
    def keys(self) -> int:
        """Width of all keys."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Width of all values."""
        return self.value_heads * self.value_dim


def gated_delta(layers: Layers, hidden: int, shape: DeltaShape) -> Groups:
    """Gated delta net (arXiv 2412.06464) as in Qwen3-Next: q, k, v, z projections, b and a a head."""
    groups = state_matrix("linear_attn.in_proj_qkvz", 2 * shape.keys + 2 * shape.values, hidden, layers)
    groups += state_matrix("linear_attn.in_proj_ba", 2 * shape.value_heads, hidden, layers)
    groups += convolution(2 * shape.keys + shape.values, shape.kernel, layers, name="linear_attn.conv1d")
    groups += state_vector("linear_attn.A_log_dt_bias", shape.value_heads, layers, copies=2)
    groups += vector("linear_attn.norm", shape.value_dim, layers=layers)
    return groups + state_matrix("linear_attn.out_proj", hidden, shape.values, layers, row=True)


def gated_delta_state(shape: DeltaShape, *, dtype: str = "") -> RecurrentState:
    """The convolution's last columns and value_heads x key_dim x value_dim values."""
    channels = 2 * shape.keys + shape.values
    return RecurrentState((shape.kernel - 1) * channels, shape.values * shape.key_dim, dtype)


@dataclass(frozen=True, slots=True)
class KimiDeltaShape:
    """Heads, their width, convolution length."""

    heads: int
    head_dim: int
    kernel: int


def kimi_delta(layers: Layers, hidden: int, shape: KimiDeltaShape, *, full_gate: bool = False) -> Groups:
    """Kimi delta attention (arXiv 2510.26692): a decay for every channel, low-rank forget and output gates."""
    inner, head_dim = shape.heads * shape.head_dim, shape.head_dim
    groups: Groups = ()
    for letter in "qkv":
        groups += state_matrix(f"kda.{letter}_proj", inner, hidden, layers)
    groups += convolution(3 * inner, shape.kernel, layers, name="kda.conv1d")
    groups += low_rank("kda.f", inner, hidden, head_dim, layers)
    groups += state_matrix("kda.b_proj", shape.heads, hidden, layers)
    if full_gate:
        groups += state_matrix("kda.g_proj", inner, hidden, layers)
    else:
        groups += low_rank("kda.g", inner, hidden, head_dim, layers)
    groups += state_vector("kda.dt_bias", inner, layers) + state_vector("kda.A_log", shape.heads, layers)
    groups += vector("kda.o_norm", head_dim, layers=layers)
    return groups + state_matrix("kda.o_proj", hidden, inner, layers, row=True)


def low_rank(name: str, outputs: int, inputs: int, rank: int, layers: Layers) -> Groups:
    """Two matrices through `rank`: the first whole on every rank, the second divided."""
    return linear(f"{name}_a_proj", rank, inputs, role=Role.STATE, layers=layers, split=Split.NONE) + state_matrix(
        f"{name}_b_proj", outputs, rank, layers
    )


def kimi_delta_state(shape: KimiDeltaShape) -> RecurrentState:
    """Three convolutions' last columns and heads x head_dim x head_dim values in fp32."""
    inner = shape.heads * shape.head_dim
    return RecurrentState((shape.kernel - 1) * 3 * inner, inner * shape.head_dim, FP32)


def lightning(layers: Layers, hidden: int, heads: int, head_dim: int) -> Groups:
    """Lightning attention (arXiv 2401.04658) as in MiniMax-01: fused qkv, output gate, a norm."""
    inner = heads * head_dim
    groups = state_matrix("self_attn.qkv_proj", 3 * inner, hidden, layers)
    groups += state_matrix("self_attn.output_gate", inner, hidden, layers)
    groups += state_matrix("self_attn.out_proj", hidden, inner, layers, row=True)
    return groups + state_vector("self_attn.norm", inner, layers, dtype="")


def recurrent_group(layers: Layers, state: RecurrentState) -> tuple[LayerGroup, ...]:
    """The cache entry of recurrent layers; nothing where there are none."""
    return (LayerGroup(AttentionKind.RECURRENT, layers, state=state),) if layers else ()
