"""Mixers without plain keys and values, and experts beside a dense part, as build 11434 printed them.

Files of zeros of a few layers at real widths, a vocabulary of 4,096, 8,192 tokens of context, on a processor.
"""

import pytest

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, ParameterGroup, RecurrentState, Role
from cotenant.engines.llama_cpp.builds import build_rules
from cotenant.engines.llama_cpp.cache import layer_bytes
from cotenant.engines.llama_cpp.engine import resolved
from cotenant.engines.llama_cpp.placement import place
from cotenant.engines.llama_cpp.reserve import host_compute
from cotenant.units import MIB

Parts = list[ParameterGroup]


def part(name: str, role: Role, *shape: int, layers: tuple[int, ...]) -> ParameterGroup:
    return ParameterGroup(name, role, shape, layers=layers)


def dense(hidden: int, inner: int, layers: tuple[int, ...]) -> Parts:
    found = [part(f"ffn_{name}", Role.MLP, inner, hidden, layers=layers) for name in ("gate", "up")]
    return [*found, part("ffn_down", Role.MLP, hidden, inner, layers=layers)]


def norms(hidden: int, layers: tuple[int, ...], count: int = 2) -> Parts:
    return [part(f"norm_{number}", Role.NORM, hidden, layers=layers) for number in range(count)]


def attention(hidden: int, heads: int, kv: int, width: int, layers: tuple[int, ...]) -> Parts:
    rows = {"attn_q": heads * width, "attn_k": kv * width, "attn_v": kv * width}
    found = [part(name, Role.ATTENTION, count, hidden, layers=layers) for name, count in rows.items()]
    return [
        *found,
        part("attn_output", Role.ATTENTION, hidden, heads * width, layers=layers),
        part("attn_q_norm", Role.NORM, width, layers=layers),
    ]


def spec(family: str, hidden: int, groups: list[LayerGroup], parts: Parts, layers: int, **given: int) -> ModelSpec:
    return ModelSpec(family, family, family, tuple(groups), tuple(parts), layers, hidden, 0, 4096, 262144, **given)


def lfm2() -> ModelSpec:
    every, short, full = (0, 1, 2, 3), (0, 2), (1, 3)
    groups = [
        LayerGroup(AttentionKind.RECURRENT, short, state=RecurrentState(2 * 2048, 0, "fp32")),
        LayerGroup(AttentionKind.FULL, full, 32, 8, 64, 64),
    ]
    parts = [
        *dense(2048, 8192, every), *norms(2048, every), *attention(2048, 32, 8, 64, full),
        part("shortconv.in_proj", Role.STATE, 6144, 2048, layers=short),
    ]  # fmt: skip
    return spec("lfm2", 2048, groups, parts, 4)


def mamba2() -> ModelSpec:
    every, inner, channels = (0, 1, 2), 4096, 4096 + 2 * 128
    state = RecurrentState(3 * channels, inner * 128, "fp32")
    parts = [
        *norms(2048, every, 1),
        part("ssm_in", Role.STATE, inner + channels + 64, 2048, layers=every),
        part("ssm_conv1d", Role.STATE, channels, 4, layers=every),
        part("ssm_out", Role.STATE, 2048, inner, layers=every),
    ]
    return spec("mamba2", 2048, [LayerGroup(AttentionKind.RECURRENT, every, state=state)], parts, 3)


def deepseek_v3() -> ModelSpec:
    every, lead, rest = (0, 1, 2), (0,), (1, 2)
    parts = [
        part("attn_q_a", Role.ATTENTION, 1536, 7168, layers=every),
        part("attn_q_b", Role.ATTENTION, 128 * 192, 1536, layers=every),
        part("attn_output", Role.ATTENTION, 7168, 128 * 128, layers=every),
        *dense(7168, 18432, lead), *norms(7168, every),
        *(part(f"ffn_{name}_exps", Role.EXPERT, 256, 2048, 7168, layers=rest) for name in ("gate", "up")),
        *(part(f"ffn_{name}_shexp", Role.MLP, 4096, 7168, layers=rest) for name in ("gate", "up")),
        part("ffn_down_shexp", Role.MLP, 7168, 4096, layers=rest),
    ]  # fmt: skip
    groups = [LayerGroup(AttentionKind.LATENT, every, 128, 1, 576, 0)]
    return spec("deepseek2", 7168, groups, parts, 3, num_experts=256, experts_per_token=8)


def gemma4_moe() -> ModelSpec:
    every, slides, full = tuple(range(6)), tuple(range(5)), (5,)
    groups = [
        LayerGroup(AttentionKind.SLIDING, slides, 16, 8, 256, 256, window=512),
        LayerGroup(AttentionKind.FULL, full, 16, 8, 512, 512),
    ]
    parts = [
        *attention(2816, 16, 8, 256, slides), *attention(2816, 16, 8, 512, full), *dense(2816, 2112, every),
        part("ffn_gate_up_exps", Role.EXPERT, 128, 2 * 704, 2816, layers=every), *norms(2816, every, 4),
    ]  # fmt: skip
    return spec("gemma4", 2816, groups, parts, 6, num_experts=128, experts_per_token=8)


def llama4() -> ModelSpec:
    every, chunked, full = (0, 1, 2, 3), (0, 1, 2), (3,)
    groups = [
        LayerGroup(AttentionKind.CHUNKED, chunked, 40, 8, 128, 128, window=8192),
        LayerGroup(AttentionKind.FULL, full, 40, 8, 128, 128),
    ]
    parts = [
        *attention(5120, 40, 8, 128, every)[:-1], *dense(5120, 8192, every), *norms(5120, every),
        *(part(f"ffn_{name}_exps", Role.EXPERT, 16, 8192, 5120, layers=every) for name in ("gate", "up")),
    ]  # fmt: skip
    return spec("llama4", 5120, groups, parts, 4, num_experts=16, experts_per_token=1)


def settled(model: ModelSpec, *, flash: bool):
    rules = build_rules(Version((11434,)))
    asked = LlamaCppOptions(n_ctx=8192, n_parallel=1, flash_attn=flash)
    return resolved(model, EngineSettings(llama_cpp=asked), rules).llama_cpp, rules


@pytest.mark.parametrize(
    ("model", "fused", "plain"),
    [
        (lfm2(), 76.02, 554.01),
        (mamba2(), 63.68, 63.68),
        (deepseek_v3(), 414.01, 2470.01),
        (gemma4_moe(), 113.53, None),
        (llama4(), 124.03, 740.02),
    ],
    ids=lambda value: value.name if isinstance(value, ModelSpec) else str(value),
)
def test_buffers_are_what_build_11434_prints(model, fused, plain):
    for flash, printed in ((True, fused), (False, plain)):
        options, rules = settled(model, flash=flash)
        found = host_compute(model, options, rules, place(model.num_layers, 0, 1))
        if printed is not None:
            assert found / MIB == pytest.approx(printed, abs=0.02)


def test_without_fused_attention_all_values_are_as_wide_as_the_widest():
    """188.00 MiB printed: of the six layers the sliding ones hold 2,048 values a token and pad them to 4,096."""
    options, rules = settled(gemma4_moe(), flash=False)
    assert sum(layer_bytes(gemma4_moe(), options, rules)) / MIB == pytest.approx(188.0, abs=0.006)
    options, rules = settled(gemma4_moe(), flash=True)
    assert sum(layer_bytes(gemma4_moe(), options, rules)) / MIB == pytest.approx(168.0, abs=0.006)


@pytest.mark.parametrize(
    ("build", "flash", "printed"),
    [
        (11434, False, 18.26),  # this build, on a processor; inputs and 512 rows in three forms beside the rest
        (11434, True, 7.26),  # keys and values in f16 for fused attention
        (4300, False, 16.01),  # ggml's CI of December 2024
        (4950, False, 16.76),  # the same in March 2025, with the inputs' page
    ],
)
def test_encoders_attend_among_the_tokens_of_a_batch(build, flash, printed):
    """A BERT of 12 layers of 384 (bge-small) over 512 tokens."""
    every = tuple(range(12))
    names = ("attn_q", "attn_k", "attn_v", "attn_output")
    parts = [part(name, Role.ATTENTION, 384, 384, layers=every) for name in names]
    parts += [part("attn_q.bias", Role.ATTENTION, 384, layers=every), *norms(384, every, 4)]
    parts += [
        part("ffn_up", Role.MLP, 1536, 384, layers=every),
        part("ffn_down", Role.MLP, 384, 1536, layers=every),
    ]
    groups = (LayerGroup(AttentionKind.NONE, every, 12, 12, 32, 32),)
    model = ModelSpec("bert", "bert", "bert", groups, tuple(parts), 12, 384, 1536, 30522, 512, encoder_only=True)
    rules = build_rules(Version((build,)))
    options = LlamaCppOptions(n_ctx=512, n_parallel=1, n_ubatch=512, flash_attn=flash)
    assert host_compute(model, options, rules, place(12, 0, 1)) / MIB == pytest.approx(printed, abs=0.02)
