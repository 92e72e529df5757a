"""Compute buffers of whole families beside what released builds printed for random models of 4 layers of 512.

Printed by xllamacpp's wheels of each build on a processor: 8,192 cells, n_ubatch 512 unless said otherwise.
"""

import pytest

from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, ParameterGroup, RecurrentState, Role
from cotenant.engines.llama_cpp.builds import build_rules
from cotenant.engines.llama_cpp.cache import layer_bytes, state_bytes
from cotenant.engines.llama_cpp.engine import resolved
from cotenant.engines.llama_cpp.placement import place
from cotenant.engines.llama_cpp.reserve import host_compute
from cotenant.units import MIB

ALL, HIDDEN, VOCAB = (0, 1, 2, 3), 512, 4096


def weights(name: str, role: Role, *shape: int, layers: tuple[int, ...] = ALL) -> ParameterGroup:
    return ParameterGroup(name, role, shape, layers=layers)


def attention(layers: tuple[int, ...] = ALL, *, queries: int = 512, normed: bool = True) -> list[ParameterGroup]:
    found = [
        weights("attn_q", Role.ATTENTION, queries, HIDDEN, layers=layers),
        weights("attn_k", Role.ATTENTION, 128, HIDDEN, layers=layers),
        weights("attn_v", Role.ATTENTION, 128, HIDDEN, layers=layers),
        weights("attn_output", Role.ATTENTION, HIDDEN, 512, layers=layers),
    ]
    return [*found, weights("attn_q_norm", Role.NORM, 64, layers=layers)] if normed else found


DENSE = [
    weights("ffn_gate", Role.MLP, 1024, HIDDEN),
    weights("ffn_up", Role.MLP, 1024, HIDDEN),
    weights("ffn_down", Role.MLP, HIDDEN, 1024),
]
EXPERTS = [
    weights("ffn_up_exps", Role.EXPERT, 8, 256, HIDDEN),
    weights("ffn_gate_exps", Role.EXPERT, 8, 256, HIDDEN),
]
NORMS = [weights(name, Role.NORM, HIDDEN) for name in ("attn_norm", "ffn_norm")]
BEHIND = [weights(name, Role.NORM, HIDDEN) for name in ("post_attention_norm", "post_ffw_norm")]
FULL = LayerGroup(AttentionKind.FULL, ALL, 8, 2, 64, 64)


def spec(family: str, groups: tuple[LayerGroup, ...], parts: list[ParameterGroup], **given: int) -> ModelSpec:
    return ModelSpec(family, family, family, groups, tuple(parts), 4, HIDDEN, 1024, VOCAB, 8192, **given)


QWEN3 = spec("qwen3", (FULL,), [*attention(), *DENSE, *NORMS])
QWEN3_MOE = spec("qwen3moe", (FULL,), [*attention(), *EXPERTS, *NORMS], num_experts=8, experts_per_token=2)
GEMMA3 = spec(
    "gemma3",
    (LayerGroup(AttentionKind.SLIDING, ALL, 8, 2, 64, 64, window=256),),  # of six layers the last would be full
    [*attention(), *DENSE, *NORMS, *BEHIND],
)
BIASES = [weights("attn_q.bias", Role.ATTENTION, 512), weights("attn_output.bias", Role.ATTENTION, HIDDEN)]
GPT_OSS = spec(
    "gpt-oss",
    (
        LayerGroup(AttentionKind.SLIDING, (0, 2), 8, 2, 64, 64, window=128),
        LayerGroup(AttentionKind.FULL, (1, 3), 8, 2, 64, 64),
    ),
    [*attention(normed=False), *BIASES, *EXPERTS, *NORMS],
    num_experts=8, experts_per_token=2,
)  # fmt: skip
STATE = RecurrentState(3 * 1024, 512 * 64, "fp32")
QWEN35 = spec(
    "qwen35",
    (
        LayerGroup(AttentionKind.RECURRENT, (0, 1, 2), state=STATE),
        LayerGroup(AttentionKind.FULL, (3,), 8, 2, 64, 64),
    ),
    [
        *attention((3,), queries=1024), *DENSE, *NORMS,
        weights("ssm_conv1d", Role.STATE, 1024, 4, layers=(0, 1, 2)),
        weights("ssm_out", Role.STATE, HIDDEN, 512, layers=(0, 1, 2)),
    ],
)  # fmt: skip


@pytest.mark.parametrize(
    ("model", "build", "asked", "cache", "compute"),
    [
        (QWEN3, 10229, {}, 16.0, 17.01),
        (QWEN3, 10229, {"flash_attn": False}, 16.0, 149.51),
        (QWEN3, 7079, {}, 16.0, 28.01),
        (QWEN3_MOE, 10229, {}, 16.0, 14.01),
        (QWEN3_MOE, 10229, {"flash_attn": False}, 16.0, 149.51),
        (QWEN3_MOE, 10229, {"n_ctx": 4096, "n_ubatch": 2048}, 8.0, 40.05),
        (QWEN3_MOE, 9294, {}, 16.0, 29.01),
        (GEMMA3, 10229, {}, 1.5, 9.76),
        (GEMMA3, 10229, {"flash_attn": False}, 1.5, 19.01),
        (GEMMA3, 10229, {"n_parallel": 4, "kv_unified": True}, 3.0, 10.51),
        (GEMMA3, 7827, {}, 1.5, 13.51),
        (GPT_OSS, 10229, {}, 8.75, 14.77),
        (GPT_OSS, 10229, {"flash_attn": False}, 8.75, 151.51),
        (GPT_OSS, 10229, {"n_parallel": 4}, 11.0, 8.77),
        (GPT_OSS, 7079, {}, 8.75, 29.27),
        (QWEN35, 10229, {}, 4.41, 17.04),
        (QWEN35, 10229, {"flash_attn": False}, 4.41, 150.51),
        (QWEN35, 10229, {"n_parallel": 4, "kv_unified": True}, 5.64, 17.11),
        (QWEN35, 9294, {"n_parallel": 2}, 4.82, 18.02),
    ],
)
def test_buffers_are_what_released_builds_printed(model, build, asked, cache, compute):
    rules = build_rules(Version((build,)))
    options = LlamaCppOptions(**{"n_ctx": 8192, "n_parallel": 1, **asked})
    settled = resolved(model, EngineSettings(llama_cpp=options), rules).llama_cpp
    held = sum(layer_bytes(model, settled, rules)) + sum(state_bytes(model, settled))
    assert held / MIB == pytest.approx(cache, abs=0.006)
    assert host_compute(model, settled, rules, place(4, 0, 1)) / MIB == pytest.approx(compute, abs=0.011)
