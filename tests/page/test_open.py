"""A fleet or a plan of one's own: named when the page is started, chosen, or dropped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import served, state, until

Open = Callable[..., Any]
OWN = """gpus: [{type: L40S, count: 1}]
models: [{name: mine, model: Qwen/Qwen3-8B, traffic: {concurrent: 4, context_tokens: {p95: 2000}}}]
"""


def test_own_files_are_chosen_dropped_and_named(open_page: Open, tmp_path: Path) -> None:
    fleet, plan = tmp_path / "fleet.yaml", tmp_path / "plan.json"
    fleet.write_text(OWN)
    page = open_page()
    page.set_input_files("#open-file", str(fleet))
    page.wait_for_selector(".label[data-replica=mine]")
    solved = state(page, "plan")
    plan.write_text(json.dumps(solved))
    dropped = open_page()
    dropped.evaluate(
        """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], 'plan.json'));
            const how = { dataTransfer: data, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new DragEvent('drop', how));
        }""",
        plan.read_text(),
    )
    dropped.wait_for_selector(".label[data-replica=mine]")
    assert state(dropped, "plan") == solved
    plan.write_text('{"schema": "cotenant/plan/1"}')
    dropped.set_input_files("#open-file", str(plan))
    dropped.wait_for_selector(".faults >> text=make it anew")
    fleet.write_text("gpus: []\nmodels: nothing\n")
    dropped.set_input_files("#open-file", str(fleet))
    until(dropped, "now.faults.length && now.fleet")
    assert state(dropped, "plan") == solved


def test_the_page_opens_with_what_it_was_started_with(open_page: Open, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(OWN)
    with served(str(fleet)) as url:
        page = open_page(at=url)
        page.wait_for_selector(".label[data-replica=mine]")
        solved = state(page, "plan")
    (tmp_path / "plan.json").write_text(json.dumps(solved))
    with served(str(tmp_path / "plan.json")) as url:
        page = open_page(at=url)
        page.wait_for_selector(".label[data-replica=mine]")
        assert state(page, "plan") == solved


@pytest.mark.parametrize(
    "lost", [("gpus", "replicas"), ("replicas", "command"), ("replicas", None), ("gpus", None)]
)
def test_a_plan_that_cannot_be_drawn_leaves_what_was_there(
    open_page: Open, tmp_path: Path, lost: tuple[str, str | None]
) -> None:
    page = open_page()
    before = state(page, "plan")
    broken, (part, key) = json.loads(json.dumps(before)), lost
    broken[part][0] = None if key is None else broken[part][0] | {key: 7}
    (tmp_path / "plan.json").write_text(json.dumps(broken))
    page.set_input_files("#open-file", str(tmp_path / "plan.json"))
    page.wait_for_selector(".faults >> text=make it anew")
    page.wait_for_selector(".label[data-replica=chat]")
    assert state(page, "plan") == before
