"""`cotenant ui FLEET|PLAN`: what is opened, and what is refused before anything is served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cotenant.errors import CotenantError
from cotenant.web.own_file import opened_file

FLEET = "gpus: [{type: L4, count: 1}]\nmodels: []\n"


def test_a_fleet_is_its_text_and_a_plan_its_document(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(FLEET)
    assert opened_file(file) == {"name": "x.yaml", "fleet": FLEET}
    plan = {"schema": "cotenant/plan/1", "fleet": {"gpus": [], "models": []}}
    file.write_text(json.dumps(plan))
    assert opened_file(file) == {"name": "x.yaml", "plan": plan}


@pytest.mark.parametrize(
    "text", ["", "7", "- a", "{", "a: [", "gpus: []", '{"schema": "cotenant/plan/1"}', "\0", "{]"]
)
def test_what_is_neither_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(CotenantError):
        opened_file(file)
    for none in (tmp_path, tmp_path / "none"):
        with pytest.raises(CotenantError):
            opened_file(none)
