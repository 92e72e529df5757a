"""Speculative decoding in the words of vLLM and SGLang."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant import estimate
from cotenant.engines.speculative import Asked, read_speculative, split_speculative
from cotenant.errors import CotenantError, InputError


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        ("", None),
        ({"method": "mtp"}, Asked("mtp", 1)),
        ('{"method": "deepseek_mtp", "num_speculative_tokens": 3}', Asked("mtp", 3)),
        ({"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}, Asked("ngram", 4)),
        ({"model": "yuhuili/EAGLE3-X", "num_speculative_tokens": 3}, Asked("eagle3", 3, "yuhuili/EAGLE3-X")),
        ({"model": "a/eagle-x", "num_speculative_tokens": 3}, Asked("eagle", 3, "a/eagle-x")),
        ({"model": "a/b", "num_speculative_tokens": "5"}, Asked("draft_model", 5, "a/b")),
        ({"model": "z-lab/X-DFlash", "num_speculative_tokens": 15}, Asked("dflash", 15, "z-lab/X-DFlash")),
    ],
)
def test_vllms_object(value: object, wanted: Asked | None) -> None:
    assert read_speculative(value) == wanted


@pytest.mark.parametrize(
    "value",
    [
        "x", "[" * 5000, [1], {}, {"method": "medusa", "num_speculative_tokens": 3}, {"method": "eagle3"},
        {"method": "eagle3", "model": "a/b"}, {"method": "ngram", "num_speculative_tokens": 0},
        {"method": "mtp", "num_speculative_tokens": True}, {"model": 3}, {"method": ["mtp"]},
    ],
)  # fmt: skip
def test_what_cannot_be_meant(value: object) -> None:
    with pytest.raises(InputError, match="speculative_config"):
        read_speculative(value)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ({"speculative_algorithm": "EAGLE"}, Asked("mtp", 3)),  # no draft: the checkpoint's own layers
        ({"speculative-algorithm": "NEXTN", "--speculative-num-draft-tokens": "2"}, Asked("mtp", 1)),
        (
            {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "a/b", "speculative_num_steps": 5},
            Asked("eagle3", 5, "a/b"),
        ),
        ({"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 8}, Asked("ngram", 7)),
    ],
)
def test_sglangs_flags(words: dict[str, Any], wanted: Asked) -> None:
    asked, rest = split_speculative("sglang", {**words, "page_size": 1})
    assert asked == wanted
    assert dict(rest) == {"page_size": 1}


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("sglang", {"speculative_num_steps": 3}),
        ("sglang", {"speculative_algorithm": "MAGIC"}),
        ("sglang", {"speculative_algorithm": "NGRAM", "speculative_wonder": 1}),
        ("tgi", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}),
    ],
)
def test_words_that_the_engine_does_not_know(engine: str, words: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        split_speculative(engine, words)


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.integers(), st.text(max_size=8)), max_size=4))
def test_any_object_is_read_or_refused(value: dict[str, Any]) -> None:
    with suppress(CotenantError):
        read_speculative(value)


def test_a_checkpoints_own_layer_costs_its_weights_and_one_layer_of_cache() -> None:
    """DeepSeek-V3: 61 layers and one more, 1,152 B a token each; 11.6B parameters of the draft layer."""
    given: dict[str, Any] = {"gpu": "H200", "tensor_parallel_size": 8, "max_model_len": 8192}
    plain = estimate("deepseek-ai/DeepSeek-V3", **given)
    drafting = estimate("deepseek-ai/DeepSeek-V3", speculative_config={"method": "mtp"}, **given)
    assert plain.kv_cache.bytes_per_token == 61 * 1152
    assert drafting.kv_cache.bytes_per_token == 62 * 1152
    more = drafting.per_gpu[0].weights.bytes.value - plain.per_gpu[0].weights.bytes.value
    assert 11.6e9 / 8 < more < 1.35 * 11.6e9 / 8
    assert "--speculative-config" in drafting.arguments


def test_an_eagle_3_head_as_heads_are_published() -> None:
    """yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: 850 MB in 16 bits, one layer of cache."""
    given: dict[str, Any] = {"gpu": "L40S", "max_model_len": 8192}
    plain = estimate("meta-llama/Llama-3.1-8B-Instruct", **given)
    config = {"model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "num_speculative_tokens": 3}
    drafting = estimate("meta-llama/Llama-3.1-8B-Instruct", speculative_config=config, **given)
    more = drafting.per_gpu[0].weights.bytes.value - plain.per_gpu[0].weights.bytes.value
    assert more == pytest.approx(850e6, rel=0.01)
    assert drafting.kv_cache.bytes_per_token == 33 * 4096


def test_a_small_model_as_a_draft() -> None:
    """Llama-3.2-1B beside Llama-3.1-70B on two cards: 16 layers of 4 heads of 64 beside 80 of 4 heads of 128."""
    config = {"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 4}
    found = estimate(
        "meta-llama/Llama-3.1-70B-Instruct", gpu="H200", tensor_parallel_size=2, max_model_len=8192,
        speculative_config=config,
    )  # fmt: skip
    assert found.kv_cache.bytes_per_token == 2 * 2 * (80 * 4 * 128 + 16 * 4 * 64)


def test_decode_context_parallel_shares_a_sequence_out() -> None:
    """Kimi-K2's 70,272 B a token, on eight ranks that keep an eighth each."""
    given: dict[str, Any] = {"gpu": "B200", "tensor_parallel_size": 8, "max_model_len": 8192}
    found = estimate("moonshotai/Kimi-K2-Instruct", decode_context_parallel_size=8, **given)
    assert found.kv_cache.bytes_per_token == 61 * 1152 // 8
    assert "--decode-context-parallel-size" in found.arguments


@pytest.mark.parametrize(
    ("engine", "given"),
    [
        ("tgi", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}),
        ("sglang", {"decode_context_parallel_size": 2, "tensor_parallel_size": 2}),
        ("vllm", {"speculative_config": {"method": "mtp"}}),  # Llama has no such layer
        ("vllm", {"speculative_config": {"model": "no/such-draft-anywhere", "num_speculative_tokens": 2}}),
    ],
)
def test_refusals(engine: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CotenantError):
        estimate("meta-llama/Llama-3.1-8B-Instruct", gpu="L40S", engine=engine, **given)


def test_sglang_is_told_so() -> None:
    found = estimate(
        "deepseek-ai/DeepSeek-V3", gpu="H200", engine="sglang", tensor_parallel_size=8,
        options={"speculative_algorithm": "NEXTN", "speculative_num_draft_tokens": 4},
    )  # fmt: skip
    command = " ".join(found.arguments)
    assert "--speculative-algorithm NEXTN --speculative-num-steps 3" in command
    assert "--speculative-num-draft-tokens 4" in command
