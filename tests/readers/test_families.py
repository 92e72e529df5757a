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
