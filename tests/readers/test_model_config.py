"""Models from config.json: known cache sizes, layer kinds, exact tensors, and clear refusals."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.catalogue.models import find_entry
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, Role, Split
from cotenant.errors import CotenantError, FormatError, InputErrors, UnknownArchitectureError
from cotenant.readers.model_config import read_model_config

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def read(config: dict[str, Any]) -> ModelSpec:
    return read_model_config(config, name="test", source="test")


def known(name: str) -> ModelSpec:
    entry = find_entry(name)
    assert entry is not None, name
    return read_model_config(entry.config, name=entry.id)


def of_kind(spec: ModelSpec, kind: AttentionKind) -> LayerGroup:
    (group,) = (group for group in spec.layer_groups if group.kind is kind)
    return group


def per_token(spec: ModelSpec) -> int:
    return sum(group.elements_per_token for group in spec.layer_groups)


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 65_536),  # 131,072 B in bf16
        ("meta-llama/Llama-3.1-70B-Instruct", 163_840),  # 327,680 B
        ("mistralai/Mistral-7B-Instruct-v0.3", 65_536),
        ("Qwen/Qwen2.5-7B-Instruct", 28_672),
        ("deepseek-ai/DeepSeek-V3", 576 * 61),  # 70,272 B: latent attention
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 2 * 2 * 256 * 12),
        ("openai/gpt-oss-20b", 2 * 8 * 64 * 24),
        ("tiiuae/falcon-7b-instruct", 2 * 64 * 32),
    ],
)
def test_cache_elements_of_a_token(name: str, elements: int) -> None:
    assert per_token(known(name)) == elements


def test_gemma_3_27b_slides_in_five_layers_of_six() -> None:
    spec = known("google/gemma-3-27b-it")
    full, sliding = of_kind(spec, AttentionKind.FULL), of_kind(spec, AttentionKind.SLIDING)
    assert (full.num_layers, sliding.num_layers, spec.num_layers) == (10, 52, 62)
    assert full.layers[:2] == (5, 11)
    assert sliding.window == 1024
    assert full.elements_per_token == 10 * 16 * 128 * 2
    assert sliding.elements_per_token == 52 * 16 * 128 * 2


def test_gemma_4_has_wide_global_layers() -> None:
    spec = known("google/gemma-4-26B-A4B-it")
    full, sliding = of_kind(spec, AttentionKind.FULL), of_kind(spec, AttentionKind.SLIDING)
    assert (full.layers, full.kv_heads, full.key_width) == ((5, 11, 17, 23, 29), 2, 512)
    assert (sliding.num_layers, sliding.kv_heads, sliding.key_width) == (25, 8, 256)


def test_gemma_3n_borrows_the_cache_of_earlier_layers() -> None:
    spec = known("google/gemma-3n-E4B-it")
    borrowing = [g for g in spec.layer_groups if g.kind is AttentionKind.NONE]
    assert sum(group.num_layers for group in borrowing) == 15
    assert min(n for group in borrowing for n in group.layers) == 20


def test_gpt_oss_slides_in_every_second_layer() -> None:
    sliding = of_kind(known("openai/gpt-oss-20b"), AttentionKind.SLIDING)
    assert (sliding.window, sliding.layers[:3]) == (128, (0, 2, 4))


def test_llama_4_attends_in_chunks() -> None:
    spec = known("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    chunked = of_kind(spec, AttentionKind.CHUNKED)
    assert (chunked.num_layers, chunked.window) == (36, 8192)
    assert of_kind(spec, AttentionKind.FULL).layers[:2] == (3, 7)
    assert spec.modalities == ("text", "image")


def test_latent_attention_is_one_shared_row() -> None:
    group = of_kind(known("deepseek-ai/DeepSeek-V3"), AttentionKind.LATENT)
    assert (group.kv_heads, group.key_width, group.value_width, group.index_width) == (1, 576, 0, 0)
    indexed = of_kind(known("deepseek-ai/DeepSeek-V3.2"), AttentionKind.LATENT)
    assert indexed.index_width == 132  # 128 fp8 values and one fp32 scale


def test_glm_5_2_shares_indexers_between_layers() -> None:
    groups = [g for g in known("zai-org/GLM-5.2").layer_groups if g.index_width]
    assert [group.num_layers for group in groups] == [21]


def test_a_hybrid_keeps_a_state_beside_its_attention() -> None:
    spec = known("Qwen/Qwen3-Next-80B-A3B-Instruct")
    state = of_kind(spec, AttentionKind.RECURRENT).state
    assert state is not None
    assert state.state_elements == 32 * 128 * 128
    assert state.conv_elements == 3 * (2 * 16 * 128 + 32 * 128)
    assert of_kind(spec, AttentionKind.FULL).layers[:2] == (3, 7)


def test_nemotron_h_follows_its_pattern() -> None:
    spec = known("nvidia/Nemotron-H-8B-Base-8K")
    assert of_kind(spec, AttentionKind.RECURRENT).num_layers == 24
    assert of_kind(spec, AttentionKind.FULL).num_layers == 4


def test_deepseek_v4_compresses() -> None:
    spec = known("deepseek-ai/DeepSeek-V4-Flash")
    assert of_kind(spec, AttentionKind.SLIDING).window == 128
    widths = {g.key_width: g.num_layers for g in spec.layer_groups if g.kind is AttentionKind.LATENT}
    assert widths == {128: 21, 4: 20}


def test_an_encoder_keeps_nothing() -> None:
    spec = known("BAAI/bge-m3")
    assert spec.encoder_only
    assert not spec.has_cache
    assert spec.max_model_len == 8192  # two of 8,194 positions are the padding's


def test_whisper_keeps_its_encoder_s_tokens() -> None:
    spec = known("openai/whisper-large-v3")
    assert of_kind(spec, AttentionKind.CROSS).num_layers == 32
    assert spec.max_model_len == 448


def test_draft_layers_are_stored_but_not_the_model_s() -> None:
    spec = known("deepseek-ai/DeepSeek-V3")
    assert spec.num_parameters == 671_026_419_200
    assert 11.5e9 < spec.num_draft_parameters < 11.7e9


def test_every_tensor_knows_how_it_is_split() -> None:
    splits = {group.name: group.split for group in read(LLAMA).parameters}
    assert splits["self_attn.q_proj"] is Split.EVEN
    assert splits["self_attn.k_proj"] is Split.KV
    assert splits["embed_tokens"] is Split.VOCAB
    assert splits["layernorm"] is Split.NONE
    assert {g.kv_heads for g in read(LLAMA).parameters if g.split is Split.KV} == {8}


def test_a_tied_head_has_no_parameters_of_its_own() -> None:
    tied = read({**LLAMA, "tie_word_embeddings": True})
    assert read(LLAMA).num_parameters - tied.num_parameters == 128256 * 4096
    assert [group.tied for group in tied.parameters_of(Role.HEAD)] == [True]


def test_an_embedder_has_no_output_head() -> None:
    entry = find_entry("Qwen/Qwen3-Embedding-8B")
    assert entry is not None
    spec = read_model_config(entry.config, name=entry.id, task=entry.task)
    assert spec.num_parameters == entry.published.parameters == 7_567_295_488
    assert not list(spec.parameters_of(Role.HEAD))
    assert spec.has_cache


def test_layers_of_all_groups_are_the_model_s() -> None:
    for name in ("google/gemma-3-27b-it", "ai21labs/AI21-Jamba-Mini-1.6", "zai-org/GLM-5.3-Flash"):
        spec = known(name)
        layers = sorted(n for group in spec.layer_groups for n in group.layers)
        assert layers == list(range(spec.num_layers))


@pytest.mark.parametrize(
    ("extra", "length"),
    [
        ({}, 131072),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 524288),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 131072),
        ({"max_position_embeddings": None}, 2048),
        ({"max_position_embeddings": 4096, "model_max_length": 2048}, 2048),
    ],
)
def test_the_longest_sequence_as_vllm_derives_it(extra: dict[str, Any], length: int) -> None:
    assert read({**LLAMA, **extra}).max_model_len == length


@pytest.mark.parametrize(
    ("dtype", "ours"), [("float16", "fp16"), ("float32", "fp32"), (None, "bf16"), ("auto", "bf16")]
)
def test_dtype(dtype: str | None, ours: str) -> None:
    assert read({**LLAMA, "torch_dtype": dtype}).dtype == ours


def test_a_window_that_never_bites_is_none() -> None:
    mistral = {**LLAMA, "architectures": ["MistralForCausalLM"], "model_type": "mistral"}
    assert of_kind(read({**mistral, "sliding_window": 4096}), AttentionKind.SLIDING).window == 4096
    assert of_kind(read({**mistral, "sliding_window": 262144}), AttentionKind.FULL).num_layers == 32


def test_model_type_answers_only_where_no_architecture_is_stated() -> None:
    unnamed = {key: value for key, value in LLAMA.items() if key != "architectures"}
    assert read(unnamed).num_parameters == read(LLAMA).num_parameters
    with pytest.raises(UnknownArchitectureError, match="LlamaForSomethingElse"):
        read({**LLAMA, "architectures": ["LlamaForSomethingElse"]})


def test_an_unknown_architecture_is_named_with_the_nearest_and_a_way_out() -> None:
    with pytest.raises(UnknownArchitectureError) as caught:
        read({"architectures": ["LlamaForCausalLLM"], "model_type": "lama9"})
    assert "LlamaForCausalLLM" in caught.value.message
    assert "LlamaForCausalLM" in caught.value.message
    assert "parameters: 7B" in caught.value.hint


@pytest.mark.parametrize("config", ["<html>Sign in</html>", None, [], 7, b"PK"])
def test_what_is_no_object_is_refused(config: Any) -> None:
    with pytest.raises(FormatError, match="not an object"):
        read(config)


def test_a_config_without_a_model_is_refused() -> None:
    with pytest.raises(FormatError, match="neither architectures nor model_type"):
        read({"peft_type": "LORA"})


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"hidden_size": None}, "$.hidden_size"),
        ({"hidden_size": -4096}, "$.hidden_size"),
        ({"hidden_size": "4096"}, "$.hidden_size"),
        ({"hidden_size": True}, "$.hidden_size"),
        ({"hidden_size": 2**60}, "$.hidden_size"),
        ({"num_hidden_layers": 10**9}, "$.num_hidden_layers"),
        ({"num_hidden_layers": 1.5}, "$.num_hidden_layers"),
        ({"num_key_value_heads": 3}, "$.num_key_value_heads"),
        ({"num_key_value_heads": 64}, "$.num_key_value_heads"),
        ({"num_attention_heads": 33, "num_key_value_heads": 33}, "$.num_attention_heads"),
        ({"vocab_size": 10**12}, "$.vocab_size"),
        ({"attention_bias": "yes"}, "$.attention_bias"),
        ({"tie_word_embeddings": 1}, "$.tie_word_embeddings"),
        ({"max_position_embeddings": -5}, "$.max_position_embeddings"),
        ({"architectures": "LlamaForCausalLM"}, "$.architectures"),
        ({"rope_scaling": "linear"}, "$.rope_scaling"),
        ({"torch_dtype": "float99"}, "$.torch_dtype"),
        ({"torch_dtype": 16}, "$.torch_dtype"),
    ],
)
def test_each_fault_names_its_key(change: dict[str, Any], path: str) -> None:
    with pytest.raises(CotenantError) as caught:
        read({**LLAMA, **change})
    assert path in {fault.path for fault in caught.value.faults()}


def test_every_fault_at_once() -> None:
    with pytest.raises(InputErrors) as caught:
        read({**LLAMA, "hidden_size": 0, "vocab_size": "x", "num_hidden_layers": None})
    assert [fault.path for fault in caught.value.faults()] == [
        "$.hidden_size", "$.num_hidden_layers", "$.vocab_size",
    ]  # fmt: skip


def test_a_fault_in_a_section_has_the_whole_path() -> None:
    entry = find_entry("google/gemma-3-27b-it")
    assert entry is not None
    broken = {**entry.config, "text_config": {**entry.config["text_config"], "hidden_size": "wide"}}
    with pytest.raises(CotenantError) as caught:
        read(broken)
    assert "$.text_config.hidden_size" in {fault.path for fault in caught.value.faults()}
