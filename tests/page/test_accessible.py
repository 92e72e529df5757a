"""axe-core over every view: no serious or critical violation, in light and dark, at a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.page_browser import audited
from tests.page.conftest import slide, until
from tests.page.test_page import CRASH, add_card

Open = Callable[..., Any]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_violation(open_page: Open, size: str, scheme: str) -> None:
    page = open_page(size, color_scheme=scheme)
    found = {"first look": audited(page)}
    page.click(".label[data-replica=code]")
    slide(page, "context", 12)
    until(page, "now.answers.code")
    found["slider"] = audited(page)
    add_card(page, "L4")
    page.focus(".label[data-replica=chat]")
    page.keyboard.press(" ")
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    page.wait_for_selector(".bad-note")
    found["moved"] = audited(page)
    page.click("#tab-replay")
    page.click(".bar-form button.main")
    page.wait_for_selector(".u-wrap canvas")
    found["replay"] = audited(page)
    page.click("#tab-explain")
    page.fill("#log", CRASH)
    page.click(".ask button.main")
    page.wait_for_selector(".found")
    found["explain"] = audited(page)
    page.click("#tab-export")
    page.wait_for_selector(".file-out, .faults")
    found["export"] = audited(page)
    page.click("#tab-live")
    page.wait_for_selector("#tab-body .empty")
    found["live"] = audited(page)
    page.fill("#add-model", "llama")
    page.wait_for_selector("[role=option]")
    found["search"] = audited(page)
    assert {view: faults for view, faults in found.items() if faults} == {}
