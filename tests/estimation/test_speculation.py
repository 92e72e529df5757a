"""Drafts for speculative decoding as part of the model that is served."""

import json
from dataclasses import replace

import pytest

from cotenant import estimate
from cotenant.catalogue.drafts import all_drafts, find_draft
from cotenant.catalogue.models import find_entry
from cotenant.domain.engine import EngineSettings, Speculation, Version
from cotenant.domain.model import AttentionKind
from cotenant.engines.rules import CacheRules
from cotenant.engines.vllm import VLLM
from cotenant.errors import InputError
from cotenant.estimation.kv_cache import cache_layout
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.speculation import served_model
from cotenant.readers.draft_model import draft_model
from cotenant.readers.model_config import read_model_config
from cotenant.report.document import estimate_document
from cotenant.units import GIB


@pytest.fixture(scope="module")
def laguna():
    entry = find_entry("poolside/Laguna-S-2.1")
    return read_model_config(entry.config, name=entry.id, source="catalogue")


@pytest.fixture(scope="module")
def deepseek():
    entry = find_entry("deepseek-ai/DeepSeek-V3")
    return read_model_config(entry.config, name=entry.id, source="catalogue")


def speculating(method: str, tokens: int, draft=None, **given) -> EngineSettings:
    return EngineSettings(speculation=Speculation(method, tokens, draft), **given)


def test_without_speculation_the_model_is_itself(llama_8b):
    assert served_model(llama_8b, EngineSettings()) is llama_8b


def test_the_same_settings_give_the_same_object(deepseek):
    settings = speculating("mtp", 1)
    assert served_model(deepseek, settings) is served_model(deepseek, settings)


def test_mtp_adds_a_latent_layer_and_its_weights(deepseek):
    served = served_model(deepseek, speculating("mtp", 3))
    (group,) = served.layer_groups
    assert group.num_layers == 62  # one layer, whatever the number of tokens
    assert served.num_parameters == deepseek.num_parameters + deepseek.num_draft_parameters
    assert not any(part.draft for part in served.parameters)


def test_lookups_in_the_prompt_cost_nothing(llama_8b):
    served = served_model(llama_8b, speculating("ngram", 4))
    assert served.layer_groups == llama_8b.layer_groups
    assert served.parameters == llama_8b.parameters


def test_a_draft_that_caches_alike_joins_the_groups(laguna):
    """vLLM 0.25.1 printed that 18.35 GiB are needed for 262,144 tokens with batches of 2,048: 12 full layers and
    six of the draft in one group, 36 windowed ones in two."""
    draft = draft_model(find_draft("poolside/Laguna-S-2.1-INT4", "dflash"))
    settings = speculating("dflash", 15, draft)
    served = served_model(laguna, settings)
    layout = cache_layout(served, settings, CacheRules())
    assert layout.sequence_bytes(262144, 2048) / GIB == pytest.approx(18.35, abs=0.006)


def test_a_draft_of_another_shape_has_a_group_of_its_own(hybrid, llama_8b):
    settings = speculating("eagle3", 3, replace(llama_8b, layer_groups=llama_8b.layer_groups))
    served = served_model(hybrid, settings)
    assert [group.kind for group in served.layer_groups] == [
        AttentionKind.RECURRENT, AttentionKind.FULL, AttentionKind.FULL
    ]  # fmt: skip


def test_a_state_is_kept_for_every_token_that_may_be_rejected(hybrid):
    """A convolution of kernel 4 keeps three columns, and one more a token; blocks of a state likewise."""
    plain = cache_layout(hybrid, EngineSettings(), CacheRules())
    settings = speculating("ngram", 3)
    served = served_model(hybrid, settings)
    state = served.layer_groups[0].state
    assert state.conv_elements == 2 * hybrid.layer_groups[0].state.conv_elements
    layout = cache_layout(served, settings, CacheRules())
    states = [group for group in layout.groups if group.kind is AttentionKind.RECURRENT]
    assert {group.blocks(1000, 0) for group in states} == {4}
    assert {g.blocks(1000, 0) for g in plain.groups if g.kind is AttentionKind.RECURRENT} == {1}


def test_a_draft_takes_of_the_pool(deepseek, h100, fp8):
    version = Version.parse("0.20.1")
    given = {"engine": VLLM, "version": version, "format": fp8}
    plain = EngineSettings(tensor_parallel_size=8, max_model_len=4096, gpu_memory_utilization=0.95)
    alone = estimate_memory(deepseek, h100, plain, **given)
    with_draft = estimate_memory(deepseek, h100, replace(plain, speculation=Speculation("mtp", 1)), **given)
    assert with_draft.per_gpu[0].weights.bytes.value > alone.per_gpu[0].weights.bytes.value
    assert with_draft.kv_cache.bytes_per_token == pytest.approx(alone.kv_cache.bytes_per_token * 62 / 61, abs=1)
    assert '--speculative-config {"method": "mtp", "num_speculative_tokens": 1}' in " ".join(with_draft.arguments)


@pytest.mark.parametrize("entry", all_drafts(), ids=lambda entry: entry.id)
def test_every_known_draft_is_read(entry):
    model = draft_model(entry)
    assert 0.3e9 < model.num_parameters < 6e9
    assert entry.source
    assert find_draft(entry.targets[0].upper(), entry.method.upper()) is entry
    assert find_draft("llama-3.1-8b", entry.method) is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"speculative_config": {"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3}},
            {"method": "draft_model", "num_speculative_tokens": 3, "model": "Qwen/Qwen3-0.6B"},
        ),
        (
            {"engine": "llama.cpp", "quantization": "Q4_K_M", "options": {"md": "Qwen/Qwen3-0.6B"}},
            {"method": "draft_model", "num_speculative_tokens": 3, "model": "Qwen/Qwen3-0.6B"},
        ),
        ({}, None),
    ],
)
def test_an_estimate_with_a_draft_is_written_as_json(given, told):
    found = estimate("Qwen/Qwen3-8B", gpu="A100-80GB-SXM", max_model_len=8192, **given)
    document = json.loads(json.dumps(estimate_document(found, catalogue="")))
    assert document["settings"].get("speculation") == told


def test_an_embedder_is_no_draft():
    with pytest.raises(InputError, match="no draft"):
        estimate("Qwen/Qwen3-8B", gpu="A100-80GB-SXM", engine="llama.cpp", options={"md": "BAAI/bge-m3"})
