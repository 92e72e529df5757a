"""A plan's JSON read back: the same commands from typed fields, and every fault named."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant import api
from cotenant.errors import CotenantError, FormatError, InputErrors
from cotenant.readers.plan_document import read_plan
from cotenant.report.document import plan_document
from tests.deployment.conftest import ENGINES, EXAMPLES, document, trio


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_read_prints_as_it_was(engine: str) -> None:
    before = document(engine)
    after = json.loads(json.dumps(plan_document(read_plan(before), catalogue="test")))
    assert after["replicas"] == before["replicas"]
    assert after["gpus"] == before["gpus"]


def test_the_readme_plan_survives_the_round() -> None:
    plan = trio()
    again = read_plan(json.loads(json.dumps(plan_document(plan, catalogue="test"))))
    for before, after in zip(plan.replicas, again.replicas, strict=True):
        assert after.settings == before.settings
        assert after.command == before.command
        assert after.environment == before.environment


def test_commands_in_the_text_are_ignored() -> None:
    told = document()
    clean = read_plan(document())
    for replica in told["replicas"]:
        replica.update(command="rm -rf /", arguments=["rm", "-rf", "/"], environment={"LD_PRELOAD": "x"})
    assert read_plan(told) == clean


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"port": 0}, "port"),
        ({"port": "8000"}, "port"),
        ({"devices": []}, "devices"),
        ({"engine": "vllm@banana"}, "engine"),
        ({"max_model_len": "long"}, "max_model_len"),
        ({"quantization_flag": None}, "quantization_flag"),
        ({"id": "triage"}, "id"),
        ({"checkpoint": ""}, "checkpoint"),
    ],
)
def test_faults_are_named_with_their_path(change: dict[str, Any], path: str) -> None:
    told = document()
    told["replicas"][0].update(change)
    with pytest.raises(InputErrors) as caught:
        read_plan(told)
    assert any(path in fault.path for fault in caught.value.faults())


def test_all_faults_come_at_once() -> None:
    told = document()
    told["replicas"][0]["port"] = -1
    told["replicas"][1]["checkpoint"] = 3
    del told["gpus"][0]["capacity_bytes"]
    with pytest.raises(InputErrors) as caught:
        read_plan(told)
    assert len(caught.value.faults()) >= 3


def test_another_schema_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match="cotenant/plan/9"):
        read_plan(document() | {"schema": "cotenant/plan/9"})
    with pytest.raises(FormatError, match="no plan: it names no schema"):
        read_plan({})


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_value_anywhere_does_more_than_be_refused(data: st.DataObject) -> None:
    told = document()
    place: Any = told
    while isinstance(place, (dict, list)) and place:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or data.draw(st.booleans()):
            place[key] = data.draw(_VALUES)
            break
        place = place[key]
    with suppress(CotenantError):
        read_plan(told)


def test_models_that_take_turns_survive_the_round() -> None:
    before = json.loads(json.dumps(plan_document(api.plan(EXAMPLES / "day-and-night.yaml"), catalogue="test")))
    assert before["turns"]
    assert before["gpus"][0]["sleepers"]
    after = json.loads(json.dumps(plan_document(read_plan(before), catalogue="test")))
    for key in ("turns", "gpus", "replicas"):
        assert after[key] == before[key]
