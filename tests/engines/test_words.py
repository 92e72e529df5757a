"""Every engine's own words mean the common settings that they say they mean."""

from __future__ import annotations

import pytest

from cotenant import estimate
from cotenant.domain.engine import EngineSettings
from cotenant.engines import find_engine, own_word, read_words
from cotenant.engines.sglang import WORDS as SGLANG_WORDS
from cotenant.engines.tensorrt_llm import WORDS as TENSORRT_LLM_WORDS
from cotenant.engines.tgi import WORDS as TGI_WORDS
from cotenant.errors import InputError, InputErrors

MODEL, GPU = "meta-llama/Llama-3.1-8B-Instruct", "A100-80GB-SXM"


@pytest.mark.parametrize(
    ("engine", "words", "fields"),
    [
        (
            "tgi",
            {"max_input_tokens": "3072", "max-total-tokens": 4096, "LORA_ADAPTERS": "legal,medical"},
            {"max_input_tokens": 3072, "max_model_len": 4096, "max_loras": 2},
        ),
        (
            "sglang",
            {"mem_fraction_static": "0.8", "max_total_tokens": "100000", "disable_cuda_graph": True},
            {"gpu_memory_utilization": 0.8, "kv_cache_tokens": 100_000, "enforce_eager": True},
        ),
        (
            "tensorrt-llm",
            {"free_gpu_memory_fraction": "0.7", "max_batch_size": "64", "max_tokens": 5000},
            {"gpu_memory_utilization": 0.7, "max_num_seqs": 64, "kv_cache_tokens": 5000},
        ),
    ],
)
def test_words_are_read_as_the_engine_reads_them(engine, words, fields):
    assert read_words(find_engine(engine)[0], words) == (fields, None)


def test_every_word_means_a_setting():
    others = {"quantization", "max_loras", "max_lora_rank"}
    for words in (SGLANG_WORDS, TGI_WORDS, TENSORRT_LLM_WORDS):
        assert set(words.values()) <= set(EngineSettings.__dataclass_fields__) | others


def test_unknown_words_name_the_nearest_and_numbers_must_be_numbers():
    with pytest.raises(InputErrors) as caught:
        read_words(find_engine("tgi")[0], {"max_input_token": 1, "num_shard": "two"})
    text = " ".join(f"{one.message} {one.hint}" for one in caught.value.errors)
    assert "did you mean max_input_tokens" in text
    assert "num_shard must be a number" in text
    with pytest.raises(InputError, match="not options of vLLM"):
        read_words(find_engine("vllm")[0], {"num_shard": 2})


def test_own_words_reach_the_estimate():
    found = estimate(
        MODEL, gpu=GPU, engine="tgi@3.3",
        options={"max_input_tokens": 3072, "max_total_tokens": 4096, "max_concurrent_requests": 8},
    )  # fmt: skip
    settings = found.settings
    assert (settings.max_input_tokens, settings.max_model_len, settings.max_num_seqs) == (3072, 4096, 8)
    assert own_word("tgi", "max_num_seqs") == "max_concurrent_requests"
    assert own_word("vllm", "max_num_seqs") == "max_num_seqs"


def test_a_number_out_of_range_is_refused_by_name():
    with pytest.raises(InputErrors, match=r"gpu_memory_utilization|max_graph_batch"):
        estimate(MODEL, gpu=GPU, engine="sglang", options={"mem_fraction_static": 1.2})


def test_listed_adapters_are_named_in_the_command():
    asked = {"LORA_ADAPTERS": "legal=org/legal, org/medical", "max_total_tokens": 4096}
    found = estimate(MODEL, gpu=GPU, engine="tgi@3.3", options=asked)
    told = dict(zip(found.arguments, found.arguments[1:], strict=False))
    assert told["--lora-adapters"] == "legal=org/legal,org/medical"
    counted = estimate(MODEL, gpu=GPU, engine="tgi@3.3", options={**asked, "LORA_ADAPTERS": "2"})
    assert counted.per_gpu[0].weights.bytes == found.per_gpu[0].weights.bytes
    assert "--lora-adapters" not in counted.arguments


def test_what_fills_a_budget_before_there_is_a_pool_is_named():
    found = estimate("Qwen/Qwen2.5-7B-Instruct", gpu="L4", engine="trtllm@1.2", options={"max_num_tokens": 131072})
    assert found.reason.startswith("weights, activations and runtime, before any KV cache,")
    assert "a smaller max_num_tokens or max_batch_size" in found.reason
    warm = estimate(
        "mistralai/Mistral-7B-Instruct-v0.2", gpu="RTX-3090", engine="tgi@1.4",
        options={"max_input_length": 30000, "max_total_tokens": 32000},
    )  # fmt: skip
    assert "all of its warm-up" in warm.reason
    assert "fewer max_batch_prefill_tokens" in warm.reason
