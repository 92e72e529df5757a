"""Which files hold the weights, from names as repositories really have them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.errors import FormatError
from cotenant.readers.weight_files import gguf_files, mix_of, safetensors_files, shard_set


def test_parts_of_one_file_are_known_by_their_numbers():
    assert shard_set("model-00002-of-00003.safetensors") == (
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
    )
    assert shard_set("Q4/m-Q4_K_M-00001-of-00002.gguf")[1] == "Q4/m-Q4_K_M-00002-of-00002.gguf"
    assert shard_set("model.safetensors") == ("model.safetensors",)
    with pytest.raises(FormatError, match="part 4 of 3"):
        shard_set("m-00004-of-00003.gguf")
    with pytest.raises(FormatError, match="part 0 of 0"):
        shard_set("m-00000-of-00000.gguf")


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["config.json"], ()),
        (["model.safetensors", "other.safetensors"], ("model.safetensors",)),
        (["weights.safetensors", "config.json"], ("weights.safetensors",)),
        (["consolidated.safetensors"], ("consolidated.safetensors",)),
        (["consolidated.safetensors", "gptq_model-4bit-128g.safetensors"], ("gptq_model-4bit-128g.safetensors",)),
        (["adapter_model.safetensors", "model-00001-of-00001.safetensors"], ("model-00001-of-00001.safetensors",)),
        (["original/model.safetensors"], ()),
    ],
)
def test_safetensors_are_chosen_by_their_usual_names(names, chosen):
    assert safetensors_files(names) == chosen


def test_two_candidates_are_not_guessed_between():
    with pytest.raises(
        FormatError, match=r"2 safetensors files could be the model: a\.safetensors, b\.safetensors"
    ):
        safetensors_files(["a.safetensors", "b.safetensors"])
    with pytest.raises(FormatError, match="1 of 2 parts are missing"):
        safetensors_files(["model-00001-of-00002.safetensors"])


@pytest.mark.parametrize(
    ("name", "mix"),
    [
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "Q4_K_M"),
        ("Qwen3-8B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("smollm2.q8_0.gguf", "q8_0"),
        ("gemma-3-27b-it-IQ4_XS.gguf", "IQ4_XS"),
        ("BF16/gpt-oss-120b-BF16-00001-of-00005.gguf", "BF16"),
        ("gpt-oss-20b-mxfp4.gguf", "mxfp4"),
        ("ggml-model-f16.gguf", "f16"),
        ("model.gguf", ""),
        ("Qwen3-8B.gguf", ""),
    ],
)
def test_the_mix_is_read_from_the_name(name, mix):
    assert mix_of(name) == mix


NAMES = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-F16-00001-of-00002.gguf", "m-F16-00002-of-00002.gguf"]
NAMES += ["mmproj-m-F16.gguf", "m.imatrix.gguf"]


def test_a_gguf_file_is_chosen_by_its_mix():
    assert gguf_files(NAMES, "q4_k_m") == ("m-Q4_K_M.gguf",)
    assert gguf_files(NAMES, "F16") == ("m-F16-00001-of-00002.gguf", "m-F16-00002-of-00002.gguf")
    assert gguf_files(["README.md"], "F16") == ()
    with pytest.raises(FormatError, match="no GGUF file in Q5_0") as caught:
        gguf_files(NAMES, "Q5_0")
    assert caught.value.hint == "there are F16, Q4_K_M, Q8_0"
    with pytest.raises(FormatError, match="3 GGUF files could be the model"):
        gguf_files(NAMES)


@given(st.lists(st.text("m-0123of.gus/QK_fetnr", max_size=24) | st.sampled_from(NAMES), max_size=6))
def test_any_names_give_files_among_them_or_a_refusal(names):
    for choose in (gguf_files, safetensors_files):
        with contextlib.suppress(FormatError):
            assert set(choose(names)) <= set(names)
