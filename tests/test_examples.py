"""Every example is valid, is executed, and prints what its golden file says.

The goldens are in tests/golden/examples: what `cotenant plan FILE` prints where the output is no terminal (100
columns), blanks at the ends of lines apart. After a change that is meant to show, write them anew and read what
changed:

    COTENANT_UPDATE_EXAMPLES=1 pytest tests/test_examples.py
"""

import json
import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from cotenant import api
from cotenant.cli.root import cli
from cotenant.planning.candidates import ways_of
from cotenant.planning.solved import solve

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
GOLDEN = ROOT / "tests" / "golden" / "examples"
NAMES = sorted(str(path.relative_to(EXAMPLES).with_suffix("")) for path in EXAMPLES.rglob("*.yaml"))
DOES_NOT_FIT = {"article-a100/row1", "does-not-fit"}
UPDATE = bool(os.environ.get("COTENANT_UPDATE_EXAMPLES"))


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "fleet.schema.json").read_text()))


@cache
def answer(name: str) -> tuple[int, str]:
    """(exit status, what was printed) of one example."""
    result = CliRunner().invoke(cli, ["plan", str(EXAMPLES / f"{name}.yaml")])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def transcript(name: str) -> str:
    status, text = answer(name)
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join([f"$ cotenant plan examples/{name}.yaml", *lines, "", f"exit status {status}", ""])


@pytest.fixture(autouse=True)
def _no_user_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cards, models and calibrations of whoever runs the tests must not show."""
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize("name", NAMES)
def test_example_is_valid_by_the_published_schema(name: str) -> None:
    validator().validate(yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_example_prints_its_golden(name: str) -> None:
    path, now = GOLDEN / f"{name}.txt", transcript(name)
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(now)
    assert now == path.read_text(), f"{name} prints something else; see the docstring of {Path(__file__).name}"


@pytest.mark.parametrize("name", NAMES)
def test_exit_status_says_whether_it_fits(name: str) -> None:
    status, text = answer(name)
    assert status == (3 if name in DOES_NOT_FIT else 0)
    assert text.startswith("does not fit") == (name in DOES_NOT_FIT)
    assert ("would fit: " in text) == (name in DOES_NOT_FIT)


def test_no_golden_without_an_example() -> None:
    assert sorted(str(path.relative_to(GOLDEN).with_suffix("")) for path in GOLDEN.rglob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_only_commands_are_wider_than_the_page(name: str) -> None:
    wide = [
        line for line in answer(name)[1].splitlines() if len(line) > 100 and not line.startswith("CUDA_VISIBLE")
    ]
    assert wide == []


def test_trio_is_the_same_question_in_json() -> None:
    assert yaml.safe_load((EXAMPLES / "a100-trio.yaml").read_text()) == json.loads(
        (EXAMPLES / "a100-trio.json").read_text()
    )


def test_mix_of_cards_costs_less_than_any_one_type() -> None:
    """The shop of four types: the plan mixes, and each type alone costs more or cannot serve all six models."""
    mixed = re.match(r"6 models on (.+), \$([\d.]+)/h: fits, .* proven cheapest", answer("shop-four-types")[1])
    assert mixed is not None
    assert mixed[1].count(" + ") >= 1
    fleet = api.load_fleet(EXAMPLES / "shop-four-types.yaml")
    costs = {}
    for number, offer in enumerate(fleet.gpus):
        alone = solve(replace(fleet, gpus=(offer,)))
        if alone.feasible:
            costs[offer.gpu.name] = alone.placement.lower_bound
        else:
            assert offer.gpu.name == "L4"
            assert not any(way.offer == number for way in ways_of(fleet, 0).candidates)  # the 70B finds no two L4
    assert set(costs) == {"L40S", "A100-80GB-SXM", "H100-80GB-SXM"}
    assert min(costs.values()) > float(mixed[2]) + 0.2
