"""Ollama: its defaults by release and card, its words, and its environment."""

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec
from cotenant.engines import find_engine
from cotenant.engines.ollama import OLLAMA, environment, modelfile, options_from
from cotenant.errors import InputErrors, UnsupportedError

MODEL = ModelSpec(
    "m", "m", "m", (LayerGroup(AttentionKind.FULL, tuple(range(28)), 28, 4, 128, 128),), (), 28, 3584, 0, 152064,
    32768,
)  # fmt: skip
SMALL, LARGE = find_gpu("RTX-4070"), find_gpu("RTX-4090")


def settled(version: str, gpu=SMALL, **words) -> EngineSettings:
    asked = EngineSettings(llama_cpp=options_from(words) if words else None)
    return OLLAMA.resolve(MODEL, gpu, asked, Version.parse(version))


@pytest.mark.parametrize(
    ("version", "gpu", "context", "slots"),
    [
        ("0.5.4", SMALL, 2048, 4),
        ("0.11.0", SMALL, 4096, 1),
        ("0.20.2", SMALL, 4096, 1),
        ("0.20.2", LARGE, 32768, 1),
    ],
)
def test_context_and_slots_by_release_and_card(version, gpu, context, slots):
    found = settled(version, gpu)
    assert found.max_num_seqs == slots
    assert found.llama_cpp.n_ctx == context * slots


def test_each_slot_gets_num_ctx_and_resolving_twice_changes_nothing():
    found = settled("0.20.2", num_ctx=8192, OLLAMA_NUM_PARALLEL=4)
    assert found.llama_cpp.n_ctx == 32768
    assert found.max_model_len == 8192
    assert OLLAMA.resolve(MODEL, SMALL, found, Version.parse("0.20.2")) == found


def test_quantised_caches_need_flash_attention():
    assert settled("0.20.2", OLLAMA_KV_CACHE_TYPE="q8_0").llama_cpp.type_v == "q8_0"
    assert settled("0.20.2", OLLAMA_KV_CACHE_TYPE="q8_0", OLLAMA_FLASH_ATTENTION=0).llama_cpp.type_k == "f16"
    with pytest.raises(UnsupportedError, match="no cache type q5_1"):
        settled("0.20.2", OLLAMA_KV_CACHE_TYPE="q5_1")


def test_sliding_layers_keep_everything_and_every_token_has_logits():
    found = settled("0.20.2")
    assert found.llama_cpp.swa_full
    term = OLLAMA.rules(Version.parse("0.20.2")).allocate(MODEL, SMALL, found, ()).devices[0].compute
    assert term.bytes.value > 512 * 152064 * 4  # rows of logits are not capped
    assert "512 rows of logits" in term.why


def test_its_words_become_an_environment_and_a_modelfile():
    found = settled("0.20.2", num_ctx=8192, num_gpu=20, OLLAMA_NUM_PARALLEL=2, OLLAMA_KV_CACHE_TYPE="q8_0")
    assert environment(found, 11500) == {
        "OLLAMA_NUM_PARALLEL": "2", "OLLAMA_CONTEXT_LENGTH": "8192", "OLLAMA_FLASH_ATTENTION": "1",
        "OLLAMA_KV_CACHE_TYPE": "q8_0", "OLLAMA_HOST": "127.0.0.1:11500",
    }  # fmt: skip
    lines = modelfile(found, "./m.gguf").splitlines()
    assert lines == ["FROM ./m.gguf", "PARAMETER num_ctx 8192", "PARAMETER num_batch 512", "PARAMETER num_gpu 20"]
    assert find_engine("ollama")[0].arguments(found, version=OLLAMA.newest, model_path="m")[-2:] == (
        "ollama",
        "serve",
    )


def test_words_it_does_not_know_are_named():
    with pytest.raises(InputErrors) as caught:
        options_from({"num_cxt": 4096})
    assert "num_ctx" in caught.value.faults()[0].hint
