""" "Export": every target, of the plan that stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from cotenant.cli.root import cli
from tests.page.conftest import fits_the_width, picture, slide, state, until
from tests.page.doing import add_card

Open = Callable[..., Any]


def test_every_target_is_exported(open_page: Open, size: str, tmp_path: Path) -> None:
    page = open_page(size)
    page.click("#tab-export")
    plan_file = tmp_path / "plan.json"
    plan_file.write_text(json.dumps(state(page, "plan")))
    for target in state(page, "catalogue.targets.map((one) => one.name)"):
        page.click(f".chip:text-is('{target}')")
        page.wait_for_selector(f".chip.on:text-is('{target}')")
        page.wait_for_selector(".file-out, .faults")
        done = CliRunner().invoke(cli, ["deploy", str(plan_file), "--to", target, "--json"], prog_name="cotenant")
        told = json.loads(done.stdout)
        if "errors" in told:
            assert told["errors"][0]["error"] in page.locator(".faults").inner_text()
        else:
            assert state(page, "exported.files") == told["files"]
    page.click(".chip:text-is('compose')")
    page.wait_for_selector(".file-out")
    fits_the_width(page)
    picture(page, f"{size}-export")


def test_an_export_is_of_the_plan_that_stands(open_page: Open) -> None:
    """However one comes there: by a link, after a slider, after a move and its end."""
    page = open_page()
    add_card(page, "A100-80GB-SXM")
    page.click("#tab-export")
    page.wait_for_selector(".file-out")
    page.click("text=Copy link")
    page.wait_for_function("location.hash.length > 100")
    linked = open_page(at=page.url)
    linked.wait_for_selector(".file-out")
    slide(page, "headroom", 11)
    assert page.locator(".file-out").count() > 0  # the plan is still this one
    page.click(".label[data-replica=code]")
    page.select_option("#move-to", index=1)
    until(page, "now.checked && now.exported?.plan === now.checked.plan")
    page.wait_for_selector(".file-out")
    page.click("text=Undo the moves")
    until(page, "now.exported?.plan === now.plan")
    page.wait_for_selector(".file-out")
