"""axe-core over every view: no serious or critical violation, in light and dark, at a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.page_browser import COLOURS, audited
from tests.page.conftest import slide, until
from tests.page.doing import CRASH, add_card

Open = Callable[..., Any]


def both(page: Any) -> list[str]:
    """What every rule finds in light, and in dark those that see colours: nothing else changes with it."""
    page.emulate_media(color_scheme="light")
    found = audited(page)
    page.emulate_media(color_scheme="dark")
    return found + audited(page, rules=COLOURS)


def test_no_serious_violation(open_page: Open, size: str) -> None:
    page = open_page(size)
    found = {"first look": both(page)}
    page.click(".label[data-replica=code]")
    slide(page, "context", 12)
    until(page, "now.answers.code")
    found["slider"] = both(page)
    add_card(page, "L4")
    page.focus(".label[data-replica=chat]")
    page.keyboard.press(" ")
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    page.wait_for_selector(".bad-note")
    found["moved"] = both(page)
    page.click("#tab-replay")
    page.click(".bar-form button.main")
    page.wait_for_selector(".faults")  # what does not fit as drawn is not replayed
    found["refused"] = both(page)
    page.click("text=Undo the moves")
    page.click(".bar-form button.main")
    page.wait_for_selector(".u-wrap canvas")
    found["replay"] = both(page)
    page.click("#tab-explain")
    page.fill("#log", CRASH)
    page.click(".ask button.main")
    page.wait_for_selector(".found")
    found["explain"] = both(page)
    page.click("#tab-export")
    page.wait_for_selector(".file-out, .faults")
    found["export"] = both(page)
    page.click("#tab-live")
    page.wait_for_selector("#tab-body .empty")
    found["live"] = both(page)
    page.fill("#add-model", "llama")
    page.wait_for_selector("[role=option]")
    found["search"] = both(page)
    assert {view: faults for view, faults in found.items() if faults} == {}
