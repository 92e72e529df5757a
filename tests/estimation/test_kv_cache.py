from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.domain.engine import EngineSettings
from cotenant.domain.model import AttentionKind, LayerGroup, RecurrentState
from cotenant.engines.rules import CacheRules, Printed
from cotenant.engines.vllm.memory import memory_rules
from cotenant.estimation.elements import cached_bytes
from cotenant.estimation.kv_cache import cache_layout
from cotenant.estimation.pages import cache_type
from cotenant.units import GIB

NOW = CacheRules()
OLD = CacheRules(hybrid=False, printed=Printed.BLOCKS)


def layout(model, rules=NOW, **settings):
    return cache_layout(model, EngineSettings(block_size=16, **settings), rules)


def test_plain_models_by_hand(llama_8b, llama_70b):
    """2 x layers x key-value heads x head width x 2 bytes: 131,072 and 327,680 B a token."""
    assert layout(llama_8b).token_bytes() == 131_072
    assert layout(llama_70b).token_bytes() == 327_680


def test_sixteen_sequences_of_8192_tokens_of_llama_8b(llama_8b):
    assert 16 * layout(llama_8b).sequence_bytes(8192, 2048) == 16 * GIB


def test_heads_are_split_then_replicated(llama_8b):
    sizes = [layout(llama_8b, tensor_parallel_size=ranks).token_bytes() for ranks in (1, 2, 8, 16)]
    assert sizes == [131_072, 65_536, 16_384, 16_384]


def test_a_latent_row_is_whole_on_every_rank(deepseek_v3):
    """61 layers x 576 x 2 B = 70,272 B a token, whatever the tensor parallel; 8.58 GiB for 16 x 8,192."""
    one = layout(deepseek_v3)
    assert one.token_bytes() == 70_272
    assert layout(deepseek_v3, tensor_parallel_size=8).token_bytes() == 70_272
    assert 16 * one.sequence_bytes(8192, 2048) / GIB == pytest.approx(8.58, abs=0.005)


def test_gemma_needs_its_windows_only(gemma_3_27b):
    """16 x 8,192 tokens of Gemma-3-27B: 16.5 GiB with its windows, 62 counted as if all layers kept all."""
    found = layout(gemma_3_27b)
    need = 16 * found.needed_bytes(8192)
    assert need / GIB == pytest.approx(16.5, abs=0.1)
    full = 16 * 8192 * 62 * 2 * 16 * 128 * 2
    assert full / need == pytest.approx(3.8, abs=0.1)


def test_windowed_layers_hold_the_batch_too(gemma_3_27b):
    """A sliding layer reserves window - 1 + max_num_batched_tokens, rounded up to blocks, and one block more."""
    found = layout(gemma_3_27b)
    assert len(found.groups) == 1 + 6  # 10 full layers, 52 sliding in groups of 10
    more = found.sequence_blocks(100_000, 4096) - found.sequence_blocks(100_000, 2048)
    assert more == 6 * 2048 // 16
    sliding = next(group for group in found.groups if group.kind is AttentionKind.SLIDING)
    assert sliding.blocks(100_000, 2048) == -(-(1023 + 2048) // 16) + 1


def test_gemma_4_26b_as_vllm_prints_it(llama_8b):
    """5 full layers (2 heads of 512) and 25 sliding (8 of 256, window 1,024), 262,144 tokens, 2,496 batched:
    5.676 GiB printed."""
    full, rest = (5, 11, 17, 23, 29), tuple(n for n in range(30) if n not in (5, 11, 17, 23, 29))
    model = replace(
        llama_8b,
        num_layers=30,
        layer_groups=(
            LayerGroup(AttentionKind.SLIDING, rest, 16, 8, 256, 256, 1024),
            LayerGroup(AttentionKind.FULL, full, 16, 2, 512, 512),
        ),
    )
    assert layout(model).sequence_bytes(262_144, 2496) / GIB == pytest.approx(5.676, abs=0.01)


def test_versions_without_the_hybrid_manager_keep_every_token(gemma_3_27b):
    assert layout(gemma_3_27b, OLD).sequence_bytes(8192, 2048) == 8192 * 62 * 2 * 16 * 128 * 2


def test_groups_are_padded_where_kinds_are_nearly_equal(llama_8b):
    """12 sliding and 13 full layers become two groups of 13, not 1 + 2 groups of 12 (vLLM from 0.12)."""
    model = replace(
        llama_8b,
        num_layers=25,
        layer_groups=(
            LayerGroup(AttentionKind.SLIDING, tuple(range(12)), 8, 8, 64, 64, 128),
            LayerGroup(AttentionKind.FULL, tuple(range(12, 25)), 8, 8, 64, 64),
        ),
    )
    page = 16 * 8 * 128 * 2
    assert layout(model).block_bytes == (13 * page,)
    assert len(layout(model).groups) == 2
    assert layout(model, CacheRules(padding_ratio=1.0)).block_bytes == (12 * page,)


def test_attention_blocks_grow_until_a_state_fits(hybrid):
    """State 30,720 x 2 + 786,432 x 4 = 3,207,168 B; 4,096 B a token: 783 tokens, in steps of 16: 784."""
    found = layout(hybrid)
    attention = [group for group in found.groups if group.kind is AttentionKind.FULL]
    states = [group for group in found.groups if group.kind is AttentionKind.RECURRENT]
    assert [group.block_size for group in attention] == [784]
    assert {group.page_bytes for group in found.groups} == {784 * 4096}
    assert len(states) == 3
    assert found.sequence_blocks(784, 2048) == 4
    assert found.needed_bytes(784) == 24 * 784 * 4096 + 72 * 3_207_168
    assert found.fixed_bytes(131072) == 72 * 3_207_168


def test_prefix_caching_keeps_two_states(hybrid):
    """Since 0.28 hybrids cache prefixes by default, and a sequence holds two blocks of every state group."""
    two = layout(hybrid, CacheRules(state_blocks=2))
    assert two.sequence_blocks(784, 2048) - layout(hybrid).sequence_blocks(784, 2048) == 3


def test_qwen3_6_27b_blocks_as_vllm_prints_them(hybrid):
    """ "Setting attention block size to 1568 tokens", "padding mamba page size by 0.13%" with an fp8 cache."""
    found = layout(hybrid, kv_cache_dtype="fp8")
    attention = next(group for group in found.groups if group.kind is AttentionKind.FULL)
    state = next(group for group in found.groups if group.kind is AttentionKind.RECURRENT)
    assert attention.block_size == 1568
    assert state.page_bytes / state.need_bytes - 1 == pytest.approx(0.0013, abs=5e-5)


def test_compressed_rows_beside_a_window_are_packed(llama_8b):
    """DeepSeek-V4-Flash: 43 layers keep a window of 128, 21 of them every 4th row and 20 every 128th, in 584 B a
    row of 512; 33 B a token of indexer keys."""
    every = tuple(range(43))
    groups = (
        LayerGroup(AttentionKind.SLIDING, every, 64, 1, 512, 0, 128),
        LayerGroup(AttentionKind.LATENT, every[2::2], 64, 1, 128, 0, index_width=33),
        LayerGroup(AttentionKind.LATENT, every[3::2], 64, 1, 4, 0),
    )
    model = replace(llama_8b, architecture="DeepseekV4ForCausalLM", num_layers=43, layer_groups=groups)
    found = cache_layout(model, EngineSettings(), CacheRules(packed=(("DeepseekV4ForCausalLM", 584 / 512),)))
    by_hand = 21 * (584 / 4 + 33) + 20 * 584 / 128
    assert found.token_bytes() == pytest.approx(by_hand, rel=0.01)
    window = 43 * 584 * (127 + 2048)
    assert found.sequence_bytes(100_000, 2048) == pytest.approx(by_hand * 100_000 + window, rel=0.02)


def test_a_model_of_states_alone(llama_8b):
    """Mamba: one block a sequence, whatever its length, and no bytes a token."""
    states = LayerGroup(AttentionKind.RECURRENT, tuple(range(32)), state=RecurrentState(10_000, 100_000, "fp32"))
    found = layout(replace(llama_8b, layer_groups=(states,)), CacheRules(printed=Printed.BLOCKS))
    assert found.token_bytes() == 0
    assert found.sequence_blocks(100_000, 2048) == 1
    assert found.needed_bytes(5) == found.needed_bytes(50_000) == 32 * 420_000
    assert found.tokens_as_printed(7, 4096, 2048) == 7 * 4096
    assert found.fixed_bytes(4096) == 32 * 420_000


def test_encoders_cache_nothing(llama_8b):
    model = replace(llama_8b, layer_groups=(LayerGroup(AttentionKind.NONE, tuple(range(32))),))
    found = layout(model)
    assert found.groups == ()
    assert found.sequence_bytes(512, 2048) == found.token_bytes() == found.tokens_as_printed(10, 512, 2048) == 0


def test_fp8_cache_halves_it(llama_8b):
    assert layout(llama_8b, kv_cache_dtype="fp8").token_bytes() == 65_536
    assert cache_type(llama_8b, EngineSettings()) == "bf16"


@pytest.mark.parametrize(
    ("dtype", "head_bytes"),
    [
        ("turboquant_k8v4", 128 + 64 + 4),
        ("turboquant_4bit_nc", 64 + 2 + 64 + 4),
        ("turboquant_k3v4_nc", 48 + 2 + 64 + 4),
        ("turboquant_3bit_nc", 48 + 2 + 48 + 4),
        ("nvfp4", 2 * (64 + 8)),
        ("fp8_per_token_head", 256 + 8),
        ("int4_per_token_head", 128 + 8),
    ],
)
def test_cached_heads_with_scales_of_their_own(dtype, head_bytes):
    """A key and a value of 128, as vLLM 0.33 lays them out."""
    assert cached_bytes(dtype, 128, 128) == head_bytes


def test_turboquant_leaves_two_layers_at_each_end_plain(llama_8b):
    assert layout(llama_8b, kv_cache_dtype="turboquant_4bit_nc").token_bytes() == 8 * (28 * 134 + 4 * 512)


def test_sparse_latent_attention_adds_its_indexer(deepseek_v3):
    sparse = replace(deepseek_v3, layer_groups=(replace(deepseek_v3.layer_groups[0], index_width=132),))
    assert layout(sparse).token_bytes() == 61 * (576 * 2 + 132)
    assert layout(sparse, kv_cache_dtype="fp8").token_bytes() == 61 * (656 + 132)


def test_printed_tokens_changed_meaning_for_hybrids(gemma_3_27b):
    new, old = layout(gemma_3_27b), layout(gemma_3_27b, CacheRules(printed=Printed.BLOCKS))
    blocks = 10_000
    assert old.tokens_as_printed(blocks, 8192, 2048) == blocks // 7 * 16
    assert new.tokens_as_printed(blocks, 8192, 2048) == int(blocks / new.sequence_blocks(8192, 2048) * 8192)


def test_the_smallest_stage_decides(llama_8b):
    found = layout(llama_8b, pipeline_parallel_size=3)
    assert sum(found.block_bytes) == 16 * 131_072
    assert found.blocks_in((10 * 2**20, 2**30, 2**30)) == 10 * 2**20 // found.block_bytes[0]


def test_some_versions_check_every_stage_for_the_whole_model(llama_8b):
    """vLLM 0.14 to 0.16: 16.0 GiB for 131,072 tokens, also over two stages that each hold half of it."""
    half, whole = layout(llama_8b, pipeline_parallel_size=2), CacheRules(checks_whole_model=True)
    assert half.checked_bytes(131_072, 2048) == 8 * GIB
    assert layout(llama_8b, whole, pipeline_parallel_size=2).checked_bytes(131_072, 2048, 1) == 16 * GIB
    assert layout(llama_8b, whole).checked_bytes(131_072, 2048) == 16 * GIB
    versions = ((0, 13), (0, 14), (0, 16, 1), (0, 17))
    assert [memory_rules(v).cache.checks_whole_model for v in versions] == [False, True, True, False]


@given(st.integers(1, 200_000), st.integers(1, 200_000), st.integers(1, 16384))
def test_longer_sequences_never_take_less(gemma_3_27b, first, second, batch):
    found = layout(gemma_3_27b)
    short, long = sorted((first, second))
    assert found.sequence_bytes(short, batch) <= found.sequence_bytes(long, batch)
    assert found.needed_bytes(short) <= found.needed_bytes(long)
    assert found.needed_bytes(long) <= found.sequence_bytes(long, batch)


def test_chunks_that_may_not_be_given_back_are_reserved_whole(gemma_3_27b):
    """Llama 4 before vLLM 0.14: every layer as if it kept all tokens."""
    chunked = tuple(
        replace(group, kind=AttentionKind.CHUNKED) if group.window else group for group in gemma_3_27b.layer_groups
    )
    model = replace(gemma_3_27b, layer_groups=chunked)
    whole = cache_layout(model, EngineSettings(), CacheRules(hybrid_chunks=False))
    apart = cache_layout(model, EngineSettings(), CacheRules())
    assert whole.sequence_bytes(131072, 2048) == 131072 * 62 * 2 * 16 * 128 * 2
    assert apart.sequence_bytes(131072, 2048) < whole.sequence_bytes(131072, 2048) / 4


def test_a_checkpoint_may_bring_the_dtype_of_its_cache(llama_8b):
    """ModelOpt's NVFP4 checkpoints ask for FP8; vLLM's auto follows from 0.12 on, and what is asked for wins."""
    model = replace(llama_8b, cache_dtype="fp8")
    assert cache_layout(model, EngineSettings(), CacheRules(stored_dtype=True)).token_bytes() == 65536
    assert cache_layout(model, EngineSettings(), CacheRules()).token_bytes() == 131072
    asked = EngineSettings(kv_cache_dtype="bf16")
    assert cache_layout(model, asked, CacheRules(stored_dtype=True)).token_bytes() == 131072


def test_decode_context_parallel_multiplies_the_tokens_of_the_same_bytes(deepseek_v3):
    """Kimi K2 on eight ranks: 70,275 B a token and rank, and eight times the tokens where they share the cache."""
    alone = cache_layout(deepseek_v3, EngineSettings(tensor_parallel_size=8), CacheRules())
    shared = EngineSettings(tensor_parallel_size=8, decode_context_parallel_size=8)
    split = cache_layout(deepseek_v3, shared, CacheRules())
    assert split.block_bytes == alone.block_bytes
    assert split.token_bytes() == round(alone.token_bytes() / 8)
    assert split.tokens_as_printed(100, 131072, 1) == 8 * alone.tokens_as_printed(100, 131072, 1)
    assert split.sequence_blocks(131072, 1) == alone.sequence_blocks(131072 // 8, 1)
