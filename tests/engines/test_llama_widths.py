"""Compute buffers at the widths of real models, as build 11434 printed them on a processor.

A few layers of each stand for all: files of zeros, a vocabulary of 4,096, a context of 8,192 tokens, one slot.
"""

import pytest

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, ParameterGroup, RecurrentState, Role
from cotenant.engines.llama_cpp.builds import build_rules
from cotenant.engines.llama_cpp.engine import resolved
from cotenant.engines.llama_cpp.placement import place
from cotenant.engines.llama_cpp.reserve import host_compute
from cotenant.units import MIB


def _matrices(hidden: int, heads: int, kv: int, width: int, layers: tuple[int, ...]) -> list[ParameterGroup]:
    return [
        ParameterGroup("attn_q", Role.ATTENTION, (heads * width, hidden), layers=layers),
        ParameterGroup("attn_k", Role.ATTENTION, (kv * width, hidden), layers=layers),
        ParameterGroup("attn_v", Role.ATTENTION, (kv * width, hidden), layers=layers),
        ParameterGroup("attn_output", Role.ATTENTION, (hidden, heads * width), layers=layers),
    ]


def _model(
    arch: str, hidden: int, heads: int, kv: int, width: int, inner: int = 0, *, layers: int = 3,
    normed: bool = False, biased: bool = False, norms: int = 2, experts: tuple[int, int, int] = (0, 0, 0),
    window: int = 0, full: int = 0,
) -> ModelSpec:  # fmt: skip
    """`experts` are (count, used, inner); with a `window` every `full`-th layer has none."""
    every = tuple(range(layers))
    clear = tuple(n for n in every if full and (n + 1) % full == 0) if window else every
    slides = tuple(n for n in every if n not in clear)
    groups = [LayerGroup(AttentionKind.SLIDING, slides, heads, kv, width, width, window=window)] if slides else []
    groups += [LayerGroup(AttentionKind.FULL, clear, heads, kv, width, width)] if clear else []
    parts = _matrices(hidden, heads, kv, width, every)
    if arch == "phi3":
        parts = [
            ParameterGroup("attn_qkv", Role.ATTENTION, ((heads + 2 * kv) * width, hidden), layers=every),
            ParameterGroup("attn_output", Role.ATTENTION, (hidden, heads * width), layers=every),
            ParameterGroup("ffn_up", Role.MLP, (2 * inner, hidden), layers=every),
            ParameterGroup("ffn_down", Role.MLP, (hidden, inner), layers=every),
        ]
    elif inner:
        parts += [
            ParameterGroup(f"ffn_{name}", Role.MLP, (inner, hidden), layers=every) for name in ("gate", "up")
        ]
        parts += [ParameterGroup("ffn_down", Role.MLP, (hidden, inner), layers=every)]
    if experts[0]:
        shape = (experts[0], experts[2], hidden)
        parts += [ParameterGroup(f"ffn_{name}_exps", Role.EXPERT, shape, layers=every) for name in ("gate", "up")]
    if normed:
        parts += [ParameterGroup("attn_q_norm", Role.NORM, (width,), layers=every)]
    if biased:
        parts += [ParameterGroup("attn_q.bias", Role.ATTENTION, (heads * width,), layers=every)]
    parts += [ParameterGroup(f"norm_{number}", Role.NORM, (hidden,), layers=every) for number in range(norms)]
    return ModelSpec(
        arch, arch, arch, tuple(groups), tuple(parts), layers, hidden, inner, 4096, 262144,
        num_experts=experts[0], experts_per_token=experts[1],
    )  # fmt: skip


def _qwen35() -> ModelSpec:
    linear, inner, channels = (0, 1, 2), 4096, 8192
    state = RecurrentState(3 * channels, inner * 128, "fp32")
    groups = (
        LayerGroup(AttentionKind.RECURRENT, linear, state=state),
        LayerGroup(AttentionKind.FULL, (3,), 16, 4, 256, 256),
    )
    every = (*linear, 3)
    parts = [
        *_matrices(4096, 16, 4, 256, (3,))[1:],
        ParameterGroup("attn_q", Role.ATTENTION, (2 * 16 * 256, 4096), layers=(3,)),
        ParameterGroup("attn_q_norm", Role.NORM, (256,), layers=(3,)),
        *(ParameterGroup(f"ffn_{name}", Role.MLP, (12288, 4096), layers=every) for name in ("gate", "up")),
        ParameterGroup("ffn_down", Role.MLP, (4096, 12288), layers=every),
        *(ParameterGroup(f"norm_{number}", Role.NORM, (4096,), layers=every) for number in range(2)),
        ParameterGroup("ssm_conv1d", Role.STATE, (channels, 4), layers=linear),
        ParameterGroup("ssm_out", Role.STATE, (4096, inner), layers=linear),
    ]
    return ModelSpec("qwen35", "qwen35", "qwen35", groups, tuple(parts), 4, 4096, 12288, 4096, 262144)


@pytest.mark.parametrize(
    ("model", "fused", "plain"),
    [
        (_model("qwen3", 2560, 32, 8, 128, 9728, layers=2, normed=True), 90.02, 573.01),  # 4B
        (_model("llama", 4096, 32, 8, 128, 14336), 132.02, 580.01),  # 8B
        (_model("qwen2", 3584, 28, 4, 128, 18944), 154.02, 508.01),  # 7B
        (_model("qwen3moe", 2048, 32, 4, 128, normed=True, experts=(128, 8, 768)), 96.02, 566.01),  # 30B-A3B
        (_model("llama", 4096, 32, 8, 128, experts=(8, 2, 14336)), 216.02, 580.01),  # Mixtral 8x7B
        (
            _model("gemma3", 2560, 8, 4, 256, 10240, layers=8, normed=True, norms=4, window=1024, full=6),
            94.53, 184.02,
        ),  # 4B
        (
            _model("gpt-oss", 2880, 64, 8, 64, layers=4, biased=True, experts=(32, 4, 2880), window=128, full=2),
            104.40, 1089.64,
        ),  # 20B
        (_model("phi3", 3072, 32, 32, 96, 8192), 86.02, 570.01),  # 3.8B
        (_qwen35(), 120.02, 332.02),  # 9B
    ],
    ids=lambda value: value.name if isinstance(value, ModelSpec) else str(value),
)  # fmt: skip
def test_buffers_are_what_build_11434_prints(model, fused, plain):
    rules = build_rules(Version((11434,)))
    for flash, printed in ((True, fused), (False, plain)):
        asked = LlamaCppOptions(n_ctx=8192, n_parallel=1, flash_attn=flash)
        options = resolved(model, EngineSettings(llama_cpp=asked), rules).llama_cpp
        found = host_compute(model, options, rules, place(model.num_layers, 0, 1))
        assert found / MIB == pytest.approx(printed, abs=0.02)
