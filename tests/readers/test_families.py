"""The registry of model families: every name in one file, found without importing the others."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

from cotenant.readers import families
from cotenant.readers.families import find_builder, find_family, known_names

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
