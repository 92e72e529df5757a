"""Architectures that llama.cpp learnt in 2025 and 2026: what their headers say of each layer's cache.

Widths are those of the models' cards; what llama-server (build 11434) prints for files of such widths is held by
tests/engines/test_llama_newer.py.
"""

from __future__ import annotations

import pytest

from cotenant.domain.model import AttentionKind, LayerGroup, RecurrentState
from cotenant.errors import FormatError
from cotenant.readers.gguf_model import gguf_model
from tests.readers.test_gguf_model import attention, blocks, ends, header, sizes

LATENT = {
    "attention__key_length": 576, "attention__value_length": 512, "attention__kv_lora_rank": 512,
    "attention__key_length_mla": 192, "attention__value_length_mla": 128, "rope__dimension_count": 64,
}  # fmt: skip
INDEXER = {
    "attention__indexer__head_count": 32, "attention__indexer__key_length": 128, "attention__indexer__top_k": 2048
}  # fmt: skip


def groups(arch: str, layers: int, heads: int, kv: int, **keys: object) -> tuple[LayerGroup, ...]:
    told = sizes(layers, 2048, 8192, heads, kv, **({"context": 131_072} | keys))
    tensors = ends(4096, 2048) + blocks(1, *attention(2048, 16, 4, 128))
    return gguf_model(header(arch, told, tensors), arch).layer_groups


def layers_of(found: tuple[LayerGroup, ...], kind: AttentionKind) -> tuple[int, ...]:
    return tuple(sorted(layer for group in found if group.kind is kind for layer in group.layers))


@pytest.mark.parametrize(
    ("arch", "layers", "full"),
    [
        ("laguna", 12, (0, 4, 8)),
        ("cohere2moe", 9, (0, 4, 8)),
        ("afmoe", 8, (3, 7)),
        ("exaone-moe", 8, (3, 7)),
        ("muse-glimmer", 8, (3, 7)),
        ("mellum", 8, (3, 7)),
        ("plamo3", 16, (7, 15)),
    ],
)
def test_which_layers_have_a_window(arch: str, layers: int, full: tuple[int, ...]) -> None:
    found = groups(arch, layers, 16, 4, attention__sliding_window=512)
    assert layers_of(found, AttentionKind.FULL) == full
    assert {group.window for group in found if group.kind is AttentionKind.SLIDING} == {512}


@pytest.mark.parametrize("arch", ["afmoe", "laguna", "mellum", "plamo3"])
def test_without_a_window_in_the_file_none_has_one(arch: str) -> None:
    assert layers_of(groups(arch, 8, 16, 4), AttentionKind.FULL) == tuple(range(8))


@pytest.mark.parametrize("arch", ["step35", "spark2_5", "maple", "granite_swa"])
def test_a_file_that_must_list_its_windows(arch: str) -> None:
    flags = tuple(layer % 4 > 0 for layer in range(8))
    listed = {"attention__sliding_window": 512, "attention__sliding_window_pattern": flags}
    assert layers_of(groups(arch, 8, 16, 4, **listed), AttentionKind.FULL) == (0, 4)
    with pytest.raises(FormatError, match="sliding_window_pattern"):
        groups(arch, 8, 16, 4, attention__sliding_window=512)


def test_layers_of_a_file_may_differ_in_heads() -> None:
    heads = tuple(64 if layer % 4 else 48 for layer in range(8))
    found = groups(
        "laguna", 8, heads, (8,) * 8, attention__key_length=128, attention__value_length=128,
        attention__sliding_window=512,
    )  # fmt: skip
    assert {(group.query_heads, group.window) for group in found} == {(48, None), (64, 512)}


def test_drafts_among_the_blocks_are_left_out() -> None:
    """GLM, Step, HunYuan, EXAONE and Cohere files hold their multi-token prediction as last blocks."""
    assert layers_of(groups("hy_v3", 9, 16, 4, nextn_predict_layers=1), AttentionKind.FULL) == tuple(range(8))


def test_kimi_delta_attention_between_layers_of_mla() -> None:
    """Kimi-Linear-48B-A3B: 27 layers, of which 7 attend; three convolutions of 4 over 32 heads of 128."""
    attends = {3, 7, 11, 15, 19, 23, 26}
    kv = tuple(int(layer in attends) for layer in range(27))
    found = groups("kimi-linear", 27, 32, kv, **LATENT, kda__head_dim=128, ssm__conv_kernel=4)
    assert layers_of(found, AttentionKind.LATENT) == tuple(sorted(attends))
    (states,) = (group for group in found if group.kind is AttentionKind.RECURRENT)
    assert states.state == RecurrentState(3 * 3 * 32 * 128, 32 * 128 * 128, "fp32")
    assert states.num_layers == 20


@pytest.mark.parametrize(
    ("arch", "context", "indexed"),
    [
        ("deepseek32", 163_840, tuple(range(10))),
        ("glm-dsa", 202_752, tuple(range(10))),  # GLM-5 and 5.1
        ("glm-dsa", 1_048_576, (0, 1, 2, 6)),  # GLM-5.2: the indexer of every fourth is shared
    ],
)
def test_which_layers_keep_keys_of_an_indexer(arch: str, context: int, indexed: tuple[int, ...]) -> None:
    found = groups(arch, 10, 64, 1, context=context, **LATENT, **INDEXER)
    assert {group.key_width for group in found} == {576}
    assert tuple(sorted(n for g in found if g.index_width for n in g.layers)) == indexed


def test_a_file_may_list_its_indexers() -> None:
    types = (True, False) * 5
    found = groups("hy_v4", 10, 64, 1, **LATENT, **INDEXER, attention__indexer__types=types)
    assert tuple(sorted(n for g in found if g.index_width for n in g.layers)) == (0, 2, 4, 6, 8)
    assert all(not group.index_width for group in groups("hy_v4", 10, 64, 1, **LATENT))


def test_sparse_layers_of_minimax_m3_index_their_keys() -> None:
    found = groups("minimax-m3", 8, 64, 4, **INDEXER, leading_dense_block_count=3)
    assert [(group.index_width, group.layers) for group in found] == [(0, (0, 1, 2)), (256, (3, 4, 5, 6, 7))]


def test_linear_attention_of_minimax_01() -> None:
    """MiniMax-Text-01: every eighth layer attends; a state of 128 x 128 a head."""
    found = groups("minimax-01", 16, 64, 8, attention__key_length=128, attention__value_length=128)
    assert layers_of(found, AttentionKind.FULL) == (7, 15)
    (states,) = (group for group in found if group.kind is AttentionKind.RECURRENT)
    assert states.state == RecurrentState(0, 64 * 128 * 128, "fp32")


def test_qwen4_exp_has_indexers_and_one_memory() -> None:
    """Its memory's convolution of 4 reaches back over 3-grams, in four streams."""
    memory = {"ple__layers": (2,), "ple__conv_kernel": 4, "ple__ngram_size": 3, "hyper_connection__count": 4}
    state = {"ssm__inner_size": 4096, "ssm__state_size": 128, "ssm__conv_kernel": 4, "ssm__group_count": 16}
    full, states, beside = groups("qwen4exp", 8, 32, 4, **memory, **state, **INDEXER)
    assert (full.layers, full.index_width) == ((3, 7), 256)
    assert states.state == RecurrentState(3 * (4096 + 2 * 16 * 128), 128 * 4096, "fp32")
    assert (beside.layers, beside.state) == ((2,), RecurrentState(9 * 4 * 2048, 0, conv_steps=9))


@pytest.mark.parametrize("arch", ["rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"])
def test_rwkv_keeps_two_shifted_tokens_and_a_state(arch: str) -> None:
    shifts = 1 if "qwen2" in arch or arch.startswith("a") else 2
    (found,) = groups(arch, 24, 0, 0, wkv__head_size=64, token_shift_count=shifts)
    assert found.state == RecurrentState(shifts * 2048, 2048 * 64, "fp32")
    assert found.num_layers == 24
