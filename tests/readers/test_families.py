"""The registry of model families: every name in one file, found without importing the others."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

from cotenant.readers import families
from cotenant.readers.families import find_builder, find_family, known_names
from cotenant.readers.model_config import read_model_config

MODULES = [module.name for module in pkgutil.iter_modules(families.__path__)]


@pytest.mark.parametrize("module", MODULES)
def test_a_family_says_what_it_is_and_answers_for_something(module: str) -> None:
    family = import_module(f"cotenant.readers.families.{module}")
    assert family.__doc__
    assert family.BUILDERS
    for name, builder in family.BUILDERS.items():
        assert find_builder(name) is builder
        assert find_family(name) == module


def test_no_two_families_answer_for_one_name() -> None:
    names = known_names()
    assert len(names) == len(set(names))


def test_at_least_the_architectures_that_are_widely_served() -> None:
    assert len(known_names()) >= 200
    assert find_builder("NobodyForCausalLM") is None
    assert find_family("NobodyForCausalLM") == ""


def test_reading_one_model_imports_one_family() -> None:
    program = (
        "import sys; from cotenant.readers.families import find_builder; find_builder('MixtralForCausalLM');"
        "print([m for m in sys.modules if m.startswith('cotenant.readers.families.')])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['cotenant.readers.families.mixtral']"


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (  # google/gemma-3-27b-it: 27,432,406,640 on the hub, 417M of them the tower that all of them have
            {
                "architectures": ["Gemma3ForConditionalGeneration"], "num_hidden_layers": 62, "hidden_size": 5376,
                "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504,
                "vocab_size": 262208, "sliding_window": 1024, "sliding_window_pattern": 6,
            },
            27_432_406_640,
        ),
        (  # tiiuae/falcon-40b: eight key-value heads, stated under their newer name alone
            {
                "architectures": ["FalconForCausalLM"], "num_hidden_layers": 60, "hidden_size": 8192,
                "num_attention_heads": 128, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 65024,
            },
            41_303_293_952,
        ),
    ],
)  # fmt: skip
def test_configs_that_hold_all_sizes_at_the_top(config: dict[str, object], parameters: int) -> None:
    assert read_model_config(config, name="m").num_parameters == parameters


_QWEN2_7B = {
    "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (  # openbmb/MiniCPM-V-2_6: 8,099,175,152 on the hub
            {
                **_QWEN2_7B, "architectures": ["MiniCPMV"], "vocab_size": 151666, "version": 2.6, "query_num": 64,
                "vision_config": {"hidden_size": 1152, "image_size": 980, "intermediate_size": 4304,
                                  "num_hidden_layers": 27, "patch_size": 14},
            },
            8_099_175_152,
        ),
        (  # llava-hf/llava-onevision-qwen2-7b-ov-hf: 8,030,348,832, its 152,000 tokens padded to 152,064
            {
                "architectures": ["LlavaOnevisionForConditionalGeneration"],
                "text_config": {**_QWEN2_7B, "model_type": "qwen2", "vocab_size": 152064},
                "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 384,
                                  "intermediate_size": 4304, "num_hidden_layers": 26, "patch_size": 14},
            },
            8_030_348_832,
        ),
        (  # ibm-ai-platform/Bamba-9B: 9.78B
            {
                "architectures": ["BambaForCausalLM"], "attn_layer_indices": [9, 18, 27], "hidden_size": 4096,
                "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
                "num_hidden_layers": 32, "vocab_size": 128256, "mamba_n_heads": 128, "mamba_d_head": 64,
                "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_d_conv": 4,
            },
            9_780_235_392,
        ),
    ],
)  # fmt: skip
def test_families_that_the_catalogue_lacks(config: dict[str, object], parameters: int) -> None:
    assert read_model_config(config, name="m").num_parameters == parameters


def test_a_classifier_of_tokens_has_no_pooler() -> None:
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
             "vocab_size": 100, "max_position_embeddings": 32, "num_labels": 9}  # fmt: skip
    tagger = read_model_config({**sizes, "architectures": ["BertForTokenClassification"]}, name="m")
    plain = read_model_config({**sizes, "architectures": ["BertModel"]}, name="m")
    assert tagger.num_parameters - plain.num_parameters == 9 * 65 - 64 * 65
    assert tagger.encoder_only
