"""TGI's rules: what its warm-up needs, what its pool gets, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import AdapterSlots, EngineSettings, Version
from cotenant.domain.estimate import Verdict
from cotenant.domain.interval import Interval
from cotenant.domain.workload import Adapter
from cotenant.engines import find_engine
from cotenant.engines.tgi import TGI
from cotenant.errors import UnsupportedError
from cotenant.estimation.activations import activations
from cotenant.estimation.inverse import beside, settings_for_pool
from cotenant.estimation.kv_cache import cache_layout
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.memory_terms import replica_memory
from cotenant.estimation.pool import room_of
from cotenant.units import GIB, MIB

A100, A6000, T4 = (find_gpu(name) for name in ("A100-80GB-SXM", "RTX A6000", "T4"))
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
BF16 = find_format("bf16")


def test_logits_of_a_whole_prompt_are_counted_once_and_again_as_log_softmax(spec):
    """16k prompt tokens x 128,256 x 2 B is the 3.93 GiB that a log asks for when the card is full."""
    model = spec(LLAMA)
    settings = EngineSettings(max_num_batched_tokens=16_448, max_num_seqs=128, max_model_len=32_000)
    once = 16_448 * model.vocab_size * 2
    assert once / GIB == pytest.approx(3.93, abs=0.005)
    old, in_place, none = (
        activations(model, settings, TGI.profile(model, Version.parse(version))).bytes.value
        for version in ("2.2.0", "2.4.1", "3.0.1")
    )
    assert (old - in_place) / GIB == pytest.approx(3.93, abs=0.01)
    assert (in_place - none) / GIB == pytest.approx(3.93, abs=0.3)
    assert none / GIB < 3.0  # what the layers alone leave reserved


@pytest.mark.parametrize(
    ("version", "name", "card", "asked", "used", "tokens", "within"),
    [  # "Setting max batch total tokens to"
        ("0.9.4", "meta-llama/Llama-2-7b-hf", "A10G", {"max_num_batched_tokens": 4096, "max_input_tokens": 4095,
                                                      "max_model_len": 4096}, 0, 16_224, 0.01),
        ("1.4.0", "meta-llama/Llama-3.1-8B-Instruct", "RTX 3090",
         {"max_model_len": 2048}, 700 * MIB, 38_928, 0.03),
        ("2.0.0", "mistralai/Mistral-7B-Instruct-v0.2", "A100-80GB-SXM",
         {"max_num_batched_tokens": 32_768, "max_input_tokens": 8_000, "max_model_len": 8_512}, 0, 425_472, 0.025),
    ],
)  # fmt: skip
def test_the_pool_is_what_the_driver_calls_free_after_the_warm_up(
    spec, version, name, card, asked, used, tokens, within
):
    found = estimate_memory(
        spec(name), find_gpu(card), EngineSettings(**asked), engine=TGI, version=Version.parse(version),
        format=BF16, used_bytes=used,
    )  # fmt: skip
    spares = Version.parse(version).parts >= (1, 4, 1)
    assert found.verdict is (Verdict.FITS if spares else Verdict.UNCERTAIN)
    assert found.kv_cache.tokens == pytest.approx(tokens, rel=within)


@pytest.mark.parametrize(
    ("version", "share", "verdict"),
    [
        ("0.9.4", None, Verdict.UNCERTAIN),
        ("1.4.0", None, Verdict.UNCERTAIN),
        ("1.4.0", 0.94, Verdict.FITS),
        ("1.4.1", None, Verdict.FITS),  # "Leave 5% for some wiggle room"
    ],
)
def test_a_pool_that_spares_nothing_may_run_out_while_it_serves(spec, version, share, verdict):
    asked = EngineSettings(max_model_len=2048, gpu_memory_utilization=share)
    found = estimate_memory(
        spec("meta-llama/Llama-2-7b-hf"), find_gpu("A10G"), asked, engine=TGI, version=Version.parse(version),
        format=find_format("fp16"),
    )  # fmt: skip
    assert found.verdict is verdict
    assert verdict is Verdict.FITS or "lower cuda_memory_fraction" in found.reason


def test_awq_before_marlin_writes_eight_partial_results(spec):
    """The same 8B on 24 GB gets 104,384 tokens as AWQ: 12.7 GiB of pool where 17 GiB stay beside its weights."""
    asked, version = EngineSettings(max_model_len=2048), Version.parse("1.4.0")
    model, awq = spec("meta-llama/Llama-3.1-8B-Instruct"), find_format("awq-int4")
    found = estimate_memory(
        model, find_gpu("RTX 3090"), asked, engine=TGI, version=version, format=awq, used_bytes=700 * MIB
    )
    assert found.kv_cache.tokens == pytest.approx(104_384, rel=0.1)
    assert found.per_gpu[0].kv_cache.bytes.low <= 104_384 * 131_072
    assert TGI.profile(model, version).served_as("awq-int4").output_copies == 8
    assert TGI.profile(model, Version.parse("2.2.0")).served_as("awq-int4").output_copies == 0


def test_the_first_releases_warm_up_without_room_for_answers(spec):
    asked = EngineSettings(max_input_tokens=1024, max_model_len=32_768, max_num_batched_tokens=4096)
    old, new = (
        replica_memory(spec(LLAMA), A100, asked, engine=TGI, version=Version.parse(one), format=BF16)
        for one in ("1.1.0", "1.1.1")
    )
    assert old.stages[0].first == 4112 * 131_072  # 4,096 and two for each of four prompts, in blocks of 16
    assert new.stages[0].first == 4 * 32_768 * 131_072


def test_what_the_allocator_keeps_makes_no_warm_up_fail(spec):
    """Unused blocks are given back before an allocation fails: 27,000 prompt tokens of a 70B go on two H100."""
    asked = EngineSettings(
        tensor_parallel_size=2, max_input_tokens=14_000, max_model_len=20_000, max_num_batched_tokens=27_000
    )
    memory = replica_memory(
        replace(spec("meta-llama/Llama-2-70b-hf"), max_model_len=20_000), find_gpu("H100-SXM"), asked, engine=TGI,
        version=Version.parse("1.4.5"), format=BF16,
    )  # fmt: skip
    stage = memory.stages[0]
    assert stage.given_back / GIB > 2
    assert stage.own.value + stage.first - stage.given_back < memory.capacity.value < stage.own.value + stage.first


@pytest.mark.parametrize(
    ("version", "fraction", "spent", "first", "pool"),
    [
        ("1.1.0", 1.0, 20, 2, 60.0),  # all that is left
        ("2.0.4", 1.0, 20, 2, 0.95 * 58 + 2),
        ("2.4.1", 1.0, 20, 2, 0.90 * 58 + 2),
        ("3.0.1", 1.0, 20, 2, 0.95 * 80 - 20),
        ("3.2.0", 1.0, 20, 2, 0.93 * 80 - 20),
        ("3.3.7", 1.0, 20, 2, 0.90 * 80 - 20),
        ("3.3.7", 0.5, 20, 2, 0.45 * 80 - 20),
        ("2.0.4", 0.5, 20, 2, 0.95 * 18 + 2),
    ],
)
def test_the_pool_gets_what_is_left_less_the_wiggle_room(version, fraction, spent, first, pool):
    room = room_of(
        TGI, EngineSettings(gpu_memory_utilization=fraction), TGI.rules(Version.parse(version)).pool,
        capacity=Interval.exact(80 * GIB), others=0, before=Interval.exact(0),
        spent=Interval.exact(spent * GIB), first=first * GIB,
    )  # fmt: skip
    assert room.pool.value / GIB == pytest.approx(pool, abs=1e-6)


@pytest.mark.parametrize(
    ("version", "total", "prompt", "batch"),
    [
        ("1.4.5", 2048, 1024, 4096),
        ("2.0.4", 4096, 4095, 4145),
        ("2.3.1", 4096, 4095, 4145),
        ("3.3.7", 131_072, None, 20_755),  # 312 TFLOPS over the launcher's count of 15.03 GFLOP a token
    ],
)
def test_defaults_are_the_launchers(spec, version, total, prompt, batch):
    settings = TGI.resolve(spec(LLAMA), A100, EngineSettings(), Version.parse(version))
    assert settings.max_model_len == total
    assert settings.max_input_tokens == prompt
    assert settings.max_num_batched_tokens == batch
    assert settings.max_num_seqs == 128


def test_a_prompt_longer_than_the_default_raises_the_prefill_budget(spec):
    """``Default `max_batch_prefill_tokens` to 10049``: max_input_tokens 9,999 and 50."""
    asked = EngineSettings(max_input_tokens=9_999, max_model_len=10_500)
    assert TGI.resolve(spec(LLAMA), A100, asked, Version.parse("2.3.1")).max_num_batched_tokens == 10_049


def test_too_small_requests_are_cut_and_the_warning_says_where(spec):
    model = spec(LLAMA)
    found = estimate_memory(
        model, find_gpu("RTX 4090"), EngineSettings(), engine=TGI, version=TGI.newest, format=BF16
    )
    assert found.verdict is not Verdict.DOES_NOT_FIT
    tokens = found.kv_cache.tokens_as_printed
    assert 0 < tokens < 131_072
    assert any(f"{tokens:,}" in warning and "refused" in warning for warning in found.warnings)


def test_too_large_a_prefill_budget_fails_at_the_warm_up(spec):
    """A 4 GiB model on 48 GB that fails with 17,000 prompt tokens needs more than its logits; with the logits of a
    large vocabulary it cannot even hold them."""
    model = spec(LLAMA)
    asked = EngineSettings(max_input_tokens=65_000, max_model_len=66_000)
    found = estimate_memory(model, A6000, asked, engine=TGI, version=Version.parse("2.2.0"), format=BF16)
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert "warm-up" in found.reason or "KV cache" in found.reason
    smaller = replace(asked, max_input_tokens=4_000, max_model_len=4_200)
    assert estimate_memory(model, A6000, smaller, engine=TGI, version=Version.parse("2.2.0"), format=BF16).fits


def test_the_warm_up_holds_whole_sequences_of_its_prompts(spec):
    model = spec(LLAMA)
    asked = EngineSettings(max_input_tokens=1024, max_model_len=32_768, max_num_batched_tokens=4096)
    memory = replica_memory(model, A100, asked, engine=TGI, version=Version.parse("2.2.0"), format=BF16)
    assert memory.stages[0].first == 4 * 32_768 * 131_072  # 16 GiB for four prompts of 1,024 tokens


def test_before_0_9_4_the_pool_is_what_was_asked(spec):
    model = spec("meta-llama/Llama-2-7b-hf")
    version = Version.parse("0.9.2")
    memory = replica_memory(model, A100, EngineSettings(), engine=TGI, version=version, format=BF16)
    assert memory.stages[0].room.value == 16_160 * 524_288


def test_a_second_process_needs_the_firsts_bytes_on_top(spec):
    model = spec(LLAMA)
    sizing = settings_for_pool(
        model, A100, EngineSettings(max_model_len=8192, max_num_seqs=8), engine=TGI, version=TGI.newest,
        format=BF16, kv_bytes=4 * GIB,
    )  # fmt: skip
    alone = replica_memory(model, A100, sizing.settings, engine=TGI, version=TGI.newest, format=BF16)
    assert alone.stages[0].room.low >= 4 * GIB
    raised = beside(alone, 30 * GIB)
    assert raised.gpu_memory_utilization > sizing.settings.gpu_memory_utilization
    together = replica_memory(
        model, A100, raised, engine=TGI, version=TGI.newest, format=BF16, used_bytes=30 * GIB
    )
    assert together.stages[0].room.value == pytest.approx(alone.stages[0].room.value, abs=0.01 * GIB)


def test_deepseek_is_cached_expanded(spec):
    model = spec("deepseek-ai/DeepSeek-V3")
    version = Version.parse("3.3.7")
    settings = TGI.resolve(model, find_gpu("H200"), EngineSettings(tensor_parallel_size=8), version)
    layout = cache_layout(model, settings, TGI.rules(version).cache)
    assert layout.token_bytes() == 61 * 16 * 2 * 192 * 2


@pytest.mark.parametrize(
    ("model", "settings", "version", "said"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", EngineSettings(), "3.3.7", "recurrent"),
        (LLAMA, EngineSettings(pipeline_parallel_size=2), "3.3.7", "tensor parallel alone"),
        (LLAMA, EngineSettings(adapters=AdapterSlots(1, 16)), "2.0.4", "LORA_ADAPTERS"),
        (LLAMA, EngineSettings(kv_cache_dtype="fp8"), "2.2.0", "kv-cache-dtype"),
        (LLAMA, EngineSettings(max_input_tokens=4096, max_model_len=4096), "2.2.0", "must be below"),
        (
            LLAMA, EngineSettings(max_input_tokens=4000, max_model_len=4096, max_num_batched_tokens=512), "2.2.0",
            "at least max_input_tokens",
        ),
    ],
)  # fmt: skip
def test_it_refuses_in_its_own_words(spec, model, settings, version, said):
    with pytest.raises(UnsupportedError, match=said):
        TGI.resolve(spec(model), A100, settings, Version.parse(version))


def test_arguments_are_its_own_words():
    settings = EngineSettings(
        tensor_parallel_size=2, max_model_len=4096, max_input_tokens=3072, max_num_seqs=8,
        max_num_batched_tokens=3122, gpu_memory_utilization=0.4, enforce_eager=True,
    )  # fmt: skip
    adapters = (Adapter("legal", 16, source="./legal"), Adapter("medical", 16, source="./medical"))
    text = " ".join(
        TGI.arguments(settings, version=TGI.newest, model_path="m", quantization="awq", adapters=adapters)
    )
    for part in (
        "text-generation-launcher --model-id m", "--num-shard 2", "--quantize awq", "--max-input-tokens 3072",
        "--max-total-tokens 4096", "--max-batch-prefill-tokens 3122", "--max-concurrent-requests 8",
        "--cuda-memory-fraction 0.4", "--cuda-graphs 0", "--lora-adapters legal=./legal,medical=./medical",
    ):  # fmt: skip
        assert part in text
    old = " ".join(TGI.arguments(settings, version=Version.parse("1.4.5"), model_path="m"))
    assert "--max-input-length 3072" in old


def test_blocks_follow_the_attention_kernel(spec):
    llama = spec(LLAMA)
    for version, block in (("1.4.5", 16), ("2.2.0", 16), ("2.3.1", 1), ("3.3.7", 1)):
        assert TGI.resolve(llama, A100, EngineSettings(), Version.parse(version)).block_size == block


def test_it_is_found_by_its_names():
    assert find_engine("text-generation-inference@3.3")[0] is TGI


def test_too_small_is_said_with_what_the_router_does(spec):
    """Prompts and sums above the limits are refused, requests above the pool wait, unsaid answers are cut."""
    asked = EngineSettings(max_input_tokens=1024, max_model_len=2048)
    told = {
        version: estimate_memory(
            spec(LLAMA), A100, asked, engine=TGI, version=Version.parse(version), format=BF16
        ).warnings
        for version in ("1.4.5", "2.2.0")
    }  # fmt: skip
    assert "refused: prompts above 1,024 tokens, or 2,048 with the answer (HTTP 422)" in told["1.4.5"][0]
    assert "more than 128 requests at once (HTTP 429)" in told["1.4.5"][0]
    assert not any("cut at" in one for one in told["1.4.5"])
    assert told["2.2.0"][0] == f"{told['1.4.5'][0]}; an answer of unsaid length is cut at 2,048 with its prompt"


def test_the_pool_says_how_many_of_the_longest_run_at_once(spec):
    asked = EngineSettings(max_input_tokens=8000, max_model_len=32000)
    found = estimate_memory(spec(LLAMA), A100, asked, engine=TGI, version=Version.parse("3.3.7"), format=BF16)
    at_once = found.kv_cache.tokens // 32000
    assert 0 < at_once < 128
    assert f"the pool holds {at_once} requests of 32,000 tokens: others of the 128 wait" in found.warnings


@pytest.mark.parametrize(
    ("version", "told", "needs"), [("3.3.7", None, False), ("3.3.7", 64000, True), ("2.2.0", None, True)]
)
def test_a_longest_sequence_that_was_told_must_fit_in_the_pool(spec, version, told, needs):
    """`max_total_tokens` must be <= `max_batch_total_tokens`; untold it follows from the pool since 3.0."""
    settings = TGI.resolve(spec(LLAMA), A100, EngineSettings(max_model_len=told), Version.parse(version))
    assert TGI.rules(Version.parse(version)).pool.needs_longest(settings) is needs


def test_too_large_a_prefill_fails_in_the_warm_up(spec):
    """Mistral-sized prompts on a card that holds weights and cache: the logits of all prompt tokens do not fit."""
    asked = EngineSettings(max_input_tokens=16_000, max_model_len=17_000)
    found = estimate_memory(
        spec(LLAMA), find_gpu("L4"), asked, engine=TGI, version=Version.parse("2.2.0"), format=BF16
    )
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert "the warm-up of 16,050 prompt tokens" in found.reason
    assert "fewer max_batch_prefill_tokens" in found.reason
