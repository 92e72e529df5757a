"""A replica goes to another card: by pointer, finger, keyboard and list; and what breaks is said at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.page.conftest import fits_the_width, picture, state
from tests.page.doing import add_card

Open = Callable[..., Any]


def on_the_l4(page: Any) -> str | None:
    """Who lies there now; waits until the move was checked."""
    page.wait_for_selector(".note")
    found: str | None = page.locator("[data-card^='L4'] .part").get_attribute("data-replica")
    return found


def test_a_model_is_dragged(open_page: Open, size: str) -> None:
    page = open_page(size)
    add_card(page, "L4")
    page.locator(".label[data-replica=code]").scroll_into_view_if_needed()
    start = page.locator(".label[data-replica=code]").bounding_box()
    end = page.locator("[data-card^='L4']").bounding_box()
    page.mouse.move(start["x"] + 12, start["y"] + 12)
    page.mouse.down()
    page.mouse.move(start["x"] + 30, start["y"] + 40, steps=3)
    page.mouse.move(end["x"] + 30, end["y"] + end["height"] / 2, steps=5)
    picture(page, f"{size}-dragging")
    page.mouse.up()
    assert on_the_l4(page) == "code"
    assert "everything still fits" in page.locator(".note").inner_text()
    fits_the_width(page)


@pytest.mark.parametrize(("held", "moved"), [(".label", True), (".part", False)])
def test_a_finger_drags_by_the_name_and_scrolls_by_the_bar(open_page: Open, held: str, moved: bool) -> None:
    page = open_page("phone", has_touch=True)
    add_card(page, "L4")
    what = page.locator(f"{held}[data-replica=code]")
    what.scroll_into_view_if_needed()
    start, end = what.bounding_box(), page.locator("[data-card^='L4']").bounding_box()
    x, y = start["x"] + start["width"] / 2, start["y"] + start["height"] / 2
    driver = page.context.new_cdp_session(page)
    driver.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in range(1, 9):
        at = {"x": x + (end["x"] + 30 - x) * step / 8, "y": y + (end["y"] + end["height"] / 2 - y) * step / 8}
        driver.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [at]})
    driver.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    if moved:
        assert on_the_l4(page) == "code"
    else:
        page.wait_for_timeout(300)
        assert state(page, "checked") is None
        assert page.locator(".follower").count() == 0


def test_the_keyboard_moves_and_what_breaks_is_said(open_page: Open, size: str) -> None:
    """The 70B does not fit on an L4."""
    page = open_page(size)
    add_card(page, "L4")
    page.focus(".label[data-replica=triage]")
    page.keyboard.press(" ")
    page.keyboard.press("Escape")
    assert state(page, "carried") is None
    assert state(page, "checked") is None
    page.focus(".label[data-replica=chat]")
    page.keyboard.press(" ")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("[role=status].unseen:has-text('over L4')", state="attached")
    page.keyboard.press(" ")
    page.wait_for_selector(".bad-note")
    assert "weights take 37" in page.locator(".note").inner_text()
    assert on_the_l4(page) == "chat"
    fits_the_width(page)
    picture(page, f"{size}-breaks")
    page.click(".note button")
    page.wait_for_function("document.querySelectorAll('[data-card^=A100] .part').length === 3")


def test_the_list_moves(open_page: Open, size: str) -> None:
    page = open_page(size)
    add_card(page, "L4")
    page.click(".label[data-replica=triage]")
    page.select_option("#move-to", index=1)
    assert on_the_l4(page) == "triage"
    fits_the_width(page)
