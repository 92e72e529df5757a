"""SGLang's rules against figures that its logs print."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import AdapterSlots, EngineSettings, Version
from cotenant.domain.interval import Interval
from cotenant.domain.workload import Adapter
from cotenant.engines import find_engine
from cotenant.engines.rules import Base
from cotenant.engines.sglang import SGLANG
from cotenant.errors import UnsupportedError
from cotenant.estimation.inverse import settings_for_pool
from cotenant.estimation.kv_cache import cache_layout
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.memory_terms import replica_memory
from cotenant.estimation.pool import room_of
from cotenant.estimation.runtime import runtime
from cotenant.estimation.token_tables import table_slots
from cotenant.units import GIB, MIB

A100, H100, H200, T4, B200 = (find_gpu(name) for name in ("A100-80GB-SXM", "H100-80GB-SXM", "H200", "T4", "B200"))

RULES = SGLANG.rules(Version.parse("0.5.9"))


@pytest.mark.parametrize(
    ("share", "before", "weights", "printed"),
    [
        (0.82, 15.08, 5.25, 7.10),  # Qwen2.5-7B-AWQ: K 3.55 + V 3.55
        (0.2, 44.11, 6.13, 2.68),  # Llama-3.2-3B: K 1.34 + V 1.34
        (0.88, 78.59, 15.11, 54.04),  # Llama-3.1-8B: K 27.02 + V 27.02, 63.48 left after loading
    ],
)
def test_the_pool_is_the_fraction_of_what_was_free_at_start_less_the_weights(share, before, weights, printed):
    rules = SGLANG.rules(Version.parse("0.4.6"))
    assert rules.pool.base is Base.AT_START
    room = room_of(
        SGLANG, EngineSettings(gpu_memory_utilization=share), rules.pool,
        capacity=Interval.exact(round(before * GIB)), others=0, before=Interval.exact(0),
        spent=Interval.exact(round(weights * GIB)), first=0,
    )  # fmt: skip
    assert room.pool.value / GIB == pytest.approx(printed, abs=0.02)


@pytest.mark.parametrize(
    ("model", "ranks", "tokens", "gib"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 1, 133_052, 7.10),
        ("meta-llama/Llama-3.2-3B", 1, 25_169, 2.68),
        ("meta-llama/Llama-3.1-8B-Instruct", 1, 442_750, 54.04),
        ("Qwen/Qwen3-14B", 2, 139_814, 10.66),
    ],
)
def test_keys_and_values_take_what_the_log_prints(spec, model, ranks, tokens, gib):
    loaded = spec(model)
    settings = SGLANG.resolve(loaded, A100, EngineSettings(tensor_parallel_size=ranks), Version.parse("0.4.6"))
    layout = cache_layout(loaded, settings, SGLANG.rules(Version.parse("0.4.6")).cache)
    assert layout.bytes_of_tokens(tokens) / GIB == pytest.approx(gib, abs=0.012)
    assert layout.tokens_as_printed(tokens, 32768, 8192) == tokens


@pytest.mark.parametrize(
    ("gpu", "version", "ranks", "share"),
    [
        (A100, "0.2.15", 8, 0.83),
        (A100, "0.3.6", 8, 0.82),
        (A100, "0.4.3", 8, 0.81),
        (A100, "0.4.3", 1, 0.88),
        (H200, "0.4.6.post5", 8, 0.87),  # (143,771 - 18 GiB) / 143,771
        (A100, "0.4.10", 1, 0.875),  # 80 GiB less 9.5 and a half
        (A100, "0.5.9", 1, 0.836),  # 512 + 12,288 + 512 + 128 of 81,920 MiB kept back
        (T4, "0.5.9", 1, 0.756),
    ],
)
def test_the_default_fraction_follows_version_card_and_ranks(spec, gpu, version, ranks, share):
    model = spec("meta-llama/Llama-3.1-8B-Instruct")
    settings = SGLANG.resolve(model, gpu, EngineSettings(tensor_parallel_size=ranks), Version.parse(version))
    assert settings.gpu_memory_utilization == pytest.approx(share, abs=0.004)


@pytest.mark.parametrize(
    ("gpu", "version", "ranks", "chunk", "graphs"),
    [
        (T4, "0.4.3", 1, 2048, 8),
        (A100, "0.4.3", 1, 8192, 160),
        (A100, "0.5.3", 1, 8192, 256),
        (A100, "0.5.3", 4, 8192, 512),
        (B200, "0.5.3", 1, 16384, 512),
        (find_gpu("RTX 4090"), "0.5.9", 1, 2048, 24),
        (find_gpu("RTX 4090"), "0.5.23", 1, 4096, 48),
    ],
)
def test_chunks_and_graphs_follow_the_cards_memory(spec, gpu, version, ranks, chunk, graphs):
    model = spec("meta-llama/Llama-3.1-8B-Instruct")
    settings = SGLANG.resolve(model, gpu, EngineSettings(tensor_parallel_size=ranks), Version.parse(version))
    assert (settings.max_num_batched_tokens, settings.max_graph_batch) == (chunk, graphs)


def test_windows_have_a_pool_of_their_own_where_the_version_lists_the_model(spec):
    model = spec("openai/gpt-oss-20b")
    old, new = Version.parse("0.5.3"), Version.parse("0.5.9")
    settings = SGLANG.resolve(model, H100, EngineSettings(), new)
    whole = cache_layout(model, settings, SGLANG.rules(old).cache)
    apart = cache_layout(model, settings, SGLANG.rules(new).cache)
    # 24 layers of 2 x 8 x 64 x 2 B: all whole; or 12 whole and 12 with eight tenths of the tokens
    assert whole.bytes_of_tokens(1000) == 1000 * 24 * 2048
    assert apart.bytes_of_tokens(1000) == pytest.approx(1000 * (12 + 0.8 * 12) * 2048, rel=1e-5)
    # a long sequence fills the pool of the full layers long before that of the windows
    assert apart.sequence_blocks(100_000, 8192) == 100_000


def test_states_take_nine_tenths_of_the_bytes_of_the_cache(spec):
    model = spec("Qwen/Qwen3-Next-80B-A3B-Instruct")
    version = Version.parse("0.5.9")
    settings = SGLANG.resolve(model, H200, EngineSettings(tensor_parallel_size=2), version)
    layout = cache_layout(model, settings, SGLANG.rules(version).cache)
    plain = 12 * 2 * 1 * 256 * 2  # 12 full layers, one of two heads a rank, keys and values of 256
    assert layout.block_bytes[0] == pytest.approx(1.9 * plain, rel=1e-3)
    assert layout.sequence_blocks(1, 8192) > 1000  # three states, counted in tokens of their own pool


def test_sparse_mla_caches_fp8_with_scales_and_an_indexer_on_blackwell(spec):
    model = spec("deepseek-ai/DeepSeek-V3.2")
    version = Version.parse("0.5.3.post1")
    asked = EngineSettings(tensor_parallel_size=1, data_parallel_size=8)
    settings = SGLANG.resolve(model, B200, asked, version)
    layout = cache_layout(model, settings, SGLANG.rules(version).cache)
    assert settings.kv_cache_dtype == "fp8"
    # the log of 1,462,784 tokens: 54.52 GiB without the indexer, 65.49 with it (656 and 132 B a layer)
    printed = 1_462_784 * 61 * 656
    assert printed / GIB == pytest.approx(54.52, abs=0.01)
    assert layout.bytes_of_tokens(1_462_784) / GIB == pytest.approx(65.49, abs=0.01)


def test_the_table_of_token_numbers_stands_beside_the_budget(spec):
    """Qwen2.5-7B-AWQ with 2,078 requests of 32,768 tokens: 2.73 GiB left for 2.47 printed."""
    model = spec("Qwen/Qwen2.5-7B-Instruct")
    settings = EngineSettings(max_num_seqs=2078, max_model_len=32768, enforce_eager=True)
    memory = replica_memory(
        model, A100, settings, engine=SGLANG, version=Version.parse("0.4.6"), format=find_format("awq-int4")
    )
    without = replica_memory(
        model, A100, replace(settings, max_num_seqs=1), engine=SGLANG, version=Version.parse("0.4.6"),
        format=find_format("awq-int4"),
    )  # fmt: skip
    table = memory.stages[0].runtime.outside.value - without.stages[0].runtime.outside.value
    assert table / GIB == pytest.approx(0.254, abs=0.002)


def _outside(model, **given):
    settings = EngineSettings(max_model_len=32768, **given)
    memory = replica_memory(
        model, A100, settings, engine=SGLANG, version=Version.parse("0.5.9"), format=find_format("bf16")
    )
    return memory.stages[0].runtime.outside


def test_a_table_that_is_not_told_grows_with_the_pool_alone(spec):
    """int(tokens / context x 512) rows, 2,048 to 4,096: where no more than four contexts fit, exactly 2,048."""
    model = spec("Qwen/Qwen2.5-7B-Instruct")
    small = replace(model, layer_groups=tuple(replace(g, kv_heads=28) for g in model.layer_groups))
    row = 4 * 32768
    for one, most in ((small, 2048), (model, 4096)):
        rows = table_slots(
            EngineSettings(max_model_len=32768), cache_layout(one, EngineSettings(), RULES.cache), RULES,
            Interval.exact(16 * GIB),
        )  # fmt: skip
        assert (rows.low, rows.value, rows.high) == (2048, 2048, most)
    told, other = (_outside(model, max_num_seqs=slots, enforce_eager=True) for slots in (8, 108))
    assert other.value - told.value == other.low - told.low == 100 * row


def test_graphs_index_as_many_tokens_as_the_longest_sequence(spec):
    """FlashInfer's kv_indices of 64 requests of 32,768 tokens: 8 MiB in four bytes each."""
    model = spec("Qwen/Qwen2.5-7B-Instruct")
    few = SGLANG.rules(Version.parse("0.5.9")).runtime
    sizes = [
        runtime(model, A100, EngineSettings(max_model_len=tokens, max_num_seqs=64, max_graph_batch=64), few,
                slots=Interval.exact(0)).outside.value
        for tokens in (0, 32768)
    ]  # fmt: skip
    assert sizes[1] - sizes[0] == pytest.approx(4 * 64 * 32767, abs=0)


def test_a_cap_in_tokens_makes_the_pool_exact(spec):
    model = spec("meta-llama/Llama-3.1-8B-Instruct")
    memory = replica_memory(
        model, A100, EngineSettings(kv_cache_tokens=100_000), engine=SGLANG, version=SGLANG.newest,
        format=find_format("bf16"),
    )  # fmt: skip
    assert memory.stages[0].room == Interval.exact(100_000 * 131_072)


def test_arguments_are_its_own_words():
    settings = EngineSettings(
        tensor_parallel_size=2, data_parallel_size=4, max_model_len=8192, max_num_seqs=16,
        max_num_batched_tokens=4096, gpu_memory_utilization=0.85, kv_cache_tokens=50_000, kv_cache_dtype="fp8",
        adapters=AdapterSlots(2, 16),
    )  # fmt: skip
    argv = SGLANG.arguments(
        settings, version=Version.parse("0.5.9"), model_path="m", port=30000, quantization="fp8",
        adapters=(Adapter("a", 16, source="x/a"),),
    )  # fmt: skip
    text = " ".join(argv)
    assert text.startswith("python -m sglang.launch_server --model-path m --port 30000 --tp-size 8")
    for part in (
        "--dp-size 4", "--enable-dp-attention", "--context-length 8192", "--max-running-requests 16",
        "--chunked-prefill-size 4096", "--mem-fraction-static 0.85", "--max-total-tokens 50000",
        "--kv-cache-dtype fp8_e4m3", "--quantization fp8", "--lora-paths a=x/a", "--max-lora-rank 16",
    ):  # fmt: skip
        assert part in text


def test_it_refuses_what_it_cannot_split(spec):
    model = spec("Qwen/Qwen2.5-7B-Instruct")  # 28 heads
    with pytest.raises(UnsupportedError, match="28 heads"):
        SGLANG.resolve(model, A100, EngineSettings(tensor_parallel_size=8), SGLANG.newest)
    with pytest.raises(UnsupportedError, match="mem_fraction_static"):
        SGLANG.resolve(model, A100, EngineSettings(gpu_memory_utilization=1.5), SGLANG.newest)


def test_resolving_twice_changes_nothing(spec):
    model = spec("meta-llama/Llama-3.1-8B-Instruct")
    for gpu in (T4, A100, H200, B200):
        for version in ("0.2.15", "0.4.3", "0.4.10", "0.5.9", "0.5.23"):
            once = SGLANG.resolve(model, gpu, EngineSettings(), Version.parse(version))
            assert SGLANG.resolve(model, gpu, once, Version.parse(version)) == once


def test_it_is_found_by_its_names():
    assert find_engine("sgl@0.5.3.post1") == (SGLANG, Version((0, 5, 3)))


def test_a_need_is_asked_for_in_tokens_except_beside_states(spec):
    """max_total_tokens bounds the cache whatever neighbours hold; a pool of states follows the fraction alone."""
    for model, ranks, capped in (
        ("meta-llama/Llama-3.1-8B-Instruct", 1, True),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 2, False),
    ):
        asked = EngineSettings(max_model_len=8192, max_num_seqs=8, tensor_parallel_size=ranks)
        sizing = settings_for_pool(
            spec(model), H200, asked, engine=SGLANG, version=SGLANG.newest, format=find_format("bf16"),
            kv_bytes=2 * GIB,
        )  # fmt: skip
        assert (sizing.settings.kv_cache_tokens is not None) is capped
        memory = replica_memory(
            spec(model), H200, sizing.settings, engine=SGLANG, version=SGLANG.newest, format=find_format("bf16")
        )
        assert memory.stages[0].room.low >= 2 * GIB


@pytest.mark.parametrize(
    ("version", "chunk", "mib"),
    [("0.5.9", 2048, 0), ("0.5.16", 2048, 8 * 42), ("0.5.16", 8192, 8 * 58), ("0.5.16", 4096, 8 * 50)],
)
def test_captured_prefills_count_eight_mib_a_size(spec, version, chunk, mib):
    """4 to 32 by 4, to 256 by 16, to 512 by 32, to 1,024 by 64, to 4,096 by 256, then by 512 (server_args.py)."""
    asked = EngineSettings(max_num_batched_tokens=chunk, max_graph_batch=8, max_num_seqs=8, max_model_len=8192)
    model, rules = spec("meta-llama/Llama-3.1-8B-Instruct"), SGLANG.rules(Version.parse(version)).runtime
    with_prefill = runtime(model, find_gpu("H100-80GB-SXM"), asked, rules).outside.value
    without = runtime(model, find_gpu("H100-80GB-SXM"), asked, replace(rules, prefill_sizes=())).outside.value
    assert (with_prefill - without) / MIB == mib


def test_graphs_of_dp_attention_may_take_what_the_engine_itself_reserves(spec):
    """3 MiB for each request of the largest graph and each copy of attention (server_args.py)."""
    model, rules = spec("deepseek-ai/DeepSeek-V3"), SGLANG.rules(Version.parse("0.5.6")).runtime
    asked = EngineSettings(data_parallel_size=8, max_graph_batch=128, max_num_seqs=2048, max_model_len=8192)
    found, without = (
        runtime(model, find_gpu("H200"), asked, each).outside for each in (rules, replace(rules, copy_bytes=0))
    )
    assert found.value == without.value
    assert found.high - without.high > 0.7 * 3 * MIB * 8 * 128  # errors add in quadrature


def test_weights_of_cards_that_share_the_hosts_memory_may_hold_more(spec):
    """Qwen2.5-1.5B on GB10 printed 3.01 to 3.29 GiB over five starts; its tensors are 2.88."""
    version, asked = Version.parse("0.5.11"), EngineSettings(gpu_memory_utilization=0.4)
    found = estimate_memory(
        spec("Qwen/Qwen2.5-1.5B-Instruct"), find_gpu("GB10"), asked, engine=SGLANG, version=version,
        format=find_format("bf16"),
    ).per_gpu[0].weights.bytes  # fmt: skip
    assert 2.95 * GIB < found.value < 3.05 * GIB
    assert found.low <= 3.01 * GIB
    assert 3.29 * GIB <= found.high < 3.5 * GIB


@pytest.mark.parametrize(
    ("name", "version", "printed"),
    [("Qwen/Qwen2.5-0.5B-Instruct", "0.5.10", 0.98), ("Qwen/Qwen3-0.6B", "0.4.6", 1.20)],
)
def test_weights_are_counted_in_segments(spec, name, version, printed):
    """Small matrices leave parts of their segments of 20 MiB unused: 1.11 GiB of tensors print 1.20."""
    found = estimate_memory(
        spec(name), A100, EngineSettings(), engine=SGLANG, version=Version.parse(version),
        format=find_format("bf16"),
    ).per_gpu[0].weights.bytes  # fmt: skip
    assert found.value / GIB == pytest.approx(printed, rel=0.02)
    assert found.low < 0.97 * found.value


@pytest.mark.parametrize(("version", "gib"), [("0.4.4", 8.08), ("0.5.12", 8.33)])
def test_gemma_3_kept_no_rotary_tables_at_first(spec, version, gib):
    """0.4.4 printed 8.13 GB for the 4B; two tables of 131,072 x 256 in fp32 came later."""
    found = estimate_memory(
        spec("google/gemma-3-4b-it"), A100, EngineSettings(), engine=SGLANG, version=Version.parse(version),
        format=find_format("bf16"),
    ).per_gpu[0].weights.bytes  # fmt: skip
    assert found.value / GIB == pytest.approx(gib, abs=0.01)


@pytest.mark.parametrize(("version", "share"), [("0.4.4", 0.88 * 0.95), ("0.4.5", 0.88 * 0.9)])
def test_images_take_a_part_of_the_default_fraction(spec, version, share):
    """0.4.4 on an H200 of 139.2 GiB: Gemma 3 4B takes 8.13 and its cache 108.24 GiB, 0.836 of it."""
    found = SGLANG.resolve(spec("google/gemma-3-4b-it"), H200, EngineSettings(), Version.parse(version))
    assert found.gpu_memory_utilization == pytest.approx(share)
