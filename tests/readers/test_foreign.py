"""A file of another kind is named for what it is, in one line, with the command that takes it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.errors import InputError
from cotenant.readers.foreign import refuse_foreign, refuse_foreign_text
from cotenant.readers.traces import looks_like_trace

ROOT = Path(__file__).resolve().parents[2]
PLAN = json.dumps({"schema": "cotenant/plan/1", "cotenant": "0", "gpus": [], "models": []}, indent=2)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (PLAN, "a plan"),
        (PLAN.replace("plan", "estimate"), "an estimate of one replica"),
        (PLAN.replace("plan", "what-if"), r"an answer of cotenant \(what-if\)"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n", "a request trace"),
        ("TIMESTAMP;ContextTokens;GeneratedTokens\n1;2;3\n", "a request trace"),
        ('{"timestamp": 0, "input_length": 3, "output_length": 4}\n{}\n', "a request trace"),
    ],
)
def test_texts_are_recognised(text: str, what: str) -> None:
    with pytest.raises(InputError, match=f"^this is {what}, not a fleet$") as refused:
        refuse_foreign_text(text, "a fleet", path="x")
    assert refused.value.hint
    assert refused.value.path == "x"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"schema": "cotenant/plan/1", "gpus": [], "models": []}, "a plan"),
        ({"services": {}, "volumes": {}}, "a Docker Compose file"),
        ({"apiVersion": "v1", "kind": "Pod"}, "a Kubernetes manifest"),
        ({"architectures": ["LlamaForCausalLM"], "hidden_size": 1}, "a model's config.json"),
        ({"model_list": []}, "a LiteLLM configuration"),
    ],
)
def test_values_are_recognised(value: dict[str, object], what: str) -> None:
    with pytest.raises(InputError, match=f"^this is {what}, not a fleet$"):
        refuse_foreign(value, "a fleet")


def test_what_is_wanted_is_taken() -> None:
    refuse_foreign({"gpus": [], "models": []}, "a fleet")
    refuse_foreign({"architectures": []}, "a model's config.json")
    with pytest.raises(InputError, match=r"this is a fleet, not a model's config\.json"):
        refuse_foreign({"gpus": [], "models": []}, "a model's config.json")


@pytest.mark.parametrize("place", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda place: place.name)
def test_no_fleet_is_taken_for_something_else(place: Path) -> None:
    refuse_foreign_text(place.read_text(), "a fleet")


@given(st.text(), st.dictionaries(st.text(), st.none() | st.text() | st.integers()))
def test_anything_may_be_asked(text: str, value: dict[str, object]) -> None:
    assert looks_like_trace(text) in (True, False)
    for ask in (lambda: refuse_foreign_text(text, "a fleet"), lambda: refuse_foreign(value, "a fleet")):
        with contextlib.suppress(InputError):
            ask()
