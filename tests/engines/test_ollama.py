"""Ollama: its defaults by release and card, its words, and its environment."""

import pytest

from cotenant import estimate
from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec
from cotenant.engines import find_engine
from cotenant.engines.ollama import OLLAMA, environment, modelfile, options_from
from cotenant.engines.ollama_releases import automatic_batch, build_number, own_engine
from cotenant.errors import CotenantError, InputErrors, UnsupportedError

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
        ("0.1.48", SMALL, 2048, 1),
        ("0.5.4", SMALL, 2048, 4),
        ("0.6.6", SMALL, 2048, 4),
        ("0.6.7", SMALL, 4096, 2),
        ("0.9.6", SMALL, 4096, 2),
        ("0.11.0", SMALL, 4096, 1),
        ("0.15.4", LARGE, 4096, 1),
        ("0.15.5", LARGE, 32768, 1),
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


def test_the_default_context_goes_by_all_cards_together() -> None:
    """server/routes.go adds up the memory of every GPU."""
    pair = EngineSettings(pipeline_parallel_size=2)
    assert OLLAMA.resolve(MODEL, SMALL, pair, Version.parse("0.20.2")).llama_cpp.n_ctx_slot == 32768


def test_gpt_oss_gets_8192_tokens_at_least_where_the_card_has_room(spec) -> None:
    def context(gpu, version: str) -> int:
        asked = EngineSettings(llama_cpp=options_from({"num_ctx": 4096}))
        return OLLAMA.resolve(spec("openai/gpt-oss-20b"), gpu, asked, Version.parse(version)).llama_cpp.n_ctx_slot

    assert [context(LARGE, "0.11.4"), context(SMALL, "0.11.4"), context(LARGE, "0.15.5")] == [8192, 4096, 4096]


@pytest.mark.parametrize(("release", "flash"), [("0.13.2", False), ("0.13.3", False), ("0.13.4", True)])
def test_its_llama_cpp_runner_leaves_flash_attention_to_llama_cpp_since_0_13_4(release: str, flash: bool) -> None:
    assert settled(release).llama_cpp.flash_attn is flash
    assert settled(release, OLLAMA_FLASH_ATTENTION=1).llama_cpp.flash_attn


@pytest.mark.parametrize(
    ("release", "micro", "whole"), [("0.9.0", 512, 4096), ("0.13.2", 512, 4096), ("0.13.3", 1024, 4096)]
)
def test_num_batch_is_the_micro_batch_since_0_13_3(release: str, micro: int, whole: int) -> None:
    """llama/llama.go: until then n_batch alone, num_batch of every slot, and llama.cpp's own n_ubatch of 512."""
    found = settled(release, num_batch=1024, OLLAMA_NUM_PARALLEL=4)
    assert (found.llama_cpp.n_ubatch, found.llama_cpp.n_batch) == (micro, whole)
    assert "PARAMETER num_batch 1024" in modelfile(found, "./m.gguf")
    assert OLLAMA.resolve(MODEL, SMALL, found, Version.parse(release)) == found


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


@pytest.mark.parametrize(
    ("release", "build"),
    [
        ((0, 5, 13), 4779), ((0, 9, 6), 5359), ((0, 12, 3), 6121), ((0, 13, 5), 7437), ((0, 24, 0), 7437),
        ((0, 30, 0), 9452), ((0, 31, 2), 9888), ((0, 32, 15), 10488),
    ],
)  # fmt: skip
def test_each_release_carries_one_build(release, build):
    """LLAMA_CPP_VERSION of the tagged sources; one commit from 0.13.5 to 0.24."""
    assert build_number(release) == build


@pytest.mark.parametrize(
    ("model", "release", "own", "flash"),
    [
        ("Qwen/Qwen3-8B", (0, 11, 11), False, None),
        ("Qwen/Qwen3-8B", (0, 12, 6), True, (0, 12, 4)),
        ("google/gemma-3-12b-it", (0, 6, 0), True, (0, 12, 6)),
        ("openai/gpt-oss-20b", (0, 11, 0), True, (0, 11, 8)),
        ("Qwen/Qwen2.5-7B-Instruct", (0, 24, 0), False, None),
        ("Qwen/Qwen3-8B", (0, 30, 0), False, None),
    ],
)
def test_its_own_engine_runs_what_it_lists_until_llama_server_runs_all(spec, model, release, own, flash):
    found = own_engine(spec(model), release)
    assert (found is not None) is own
    assert found is None or found.flash == flash


def test_since_0_30_it_tells_llama_server():
    found = settled("0.32.15", num_ctx=8192, OLLAMA_NUM_PARALLEL=4, OLLAMA_KV_CACHE_TYPE="q5_1").llama_cpp
    assert (found.n_ctx, found.n_parallel, found.kv_unified) == (32768, 4, False)
    assert (found.type_k, found.type_v, found.flash_attn, found.swa_full) == ("q5_1", "q5_1", True, False)
    assert (found.n_ubatch, found.n_batch, found.auto_batch) == (1024, 1024, True)
    again = settled("0.32.15", num_ctx=8192, num_batch=256).llama_cpp
    assert (again.n_ubatch, again.n_batch, again.auto_batch) == (256, 256, False)
    assert "num_batch" not in modelfile(settled("0.32.15"), "./m.gguf")
    twice = OLLAMA.resolve(MODEL, SMALL, settled("0.32.15", num_ctx=8192), Version.parse("0.32.15"))
    assert twice == settled("0.32.15", num_ctx=8192)


@pytest.mark.parametrize(
    ("context", "flash", "weights_gib", "card_gib", "batch"),
    [
        (4096, True, 4, 24, 512),
        (4097, True, 4, 24, 1024),
        (32769, True, 4, 24, 2048),
        (32769, True, 13, 24, 1024),  # 13 + 1.75 GiB of cache are above 60 % of 24
        (8192, True, 18, 24, 512),  # and 18.4 above 75 %
        (32769, False, 4, 24, 512),  # no larger ones without flash attention
    ],
)
def test_the_batch_goes_by_the_context_and_the_room(context, flash, weights_gib, card_gib, batch):
    """server/sched.go, automaticGenerationBatch: 56 KiB of cache a token of this model."""
    options = LlamaCppOptions(n_ctx=context, flash_attn=flash)
    assert automatic_batch(MODEL, options, weights_gib * 2**30, card_gib * 2**30) == batch


def test_a_larger_batch_makes_a_larger_graph():
    version = Version.parse("0.32.15")
    small, large = (settled("0.32.15", num_ctx=context) for context in (4096, 8192))
    graphs = [OLLAMA.rules(version).allocate(MODEL, SMALL, one, ()).devices[0].compute for one in (small, large)]
    assert "graph of 512 tokens" in graphs[0].why
    assert "graph of 1,024 tokens" in graphs[1].why


@pytest.mark.parametrize(
    ("span", "said"),
    [
        ("5m", "kept for 5m"),
        ("1h30m", "kept for 1h30m"),
        ("-1", "kept for good"),
        ("0", "given back"),
        ("0s", "given back"),
    ],
)
def test_how_long_an_idle_model_holds_its_memory(span, said):
    words = {"OLLAMA_KEEP_ALIVE": span, "num_gpu": 20}
    found = estimate("Qwen/Qwen3-8B", gpu="RTX-4090", engine="ollama", quantization="Q4_K_M", options=words)
    assert f"OLLAMA_KEEP_ALIVE={span}" in found.arguments
    assert any(said in warning for warning in found.warnings)
    assert any("PARAMETER num_gpu 20" in warning for warning in found.warnings)


def test_a_span_that_is_none_is_refused():
    with pytest.raises(CotenantError, match="a span of time"):
        estimate("Qwen/Qwen3-8B", gpu="RTX-4090", engine="ollama", options={"keep_alive": "soon"})
