"""Two languages, light and dark, and everything by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.page.conftest import fits_the_width, picture, state

Open = Callable[..., Any]


def test_two_languages_and_two_colours(open_page: Open, size: str) -> None:
    page = open_page(size, locale="zh-CN", color_scheme="dark")
    assert page.locator("html").get_attribute("lang") == "zh-Hans"
    assert page.locator("#models-head").inner_text().startswith("模型")
    fits_the_width(page)
    picture(page, f"{size}-zh-dark")
    english, chinese = page.evaluate(
        """Promise.all([import('/static/words.en.js'), import('/static/words.zh.js')])
            .then(([en, zh]) => [Object.entries(en.en), Object.entries(zh.zh)])"""
    )
    assert [key for key, _ in english] == [key for key, _ in chinese]
    page.click("[aria-label='语言']")
    page.wait_for_selector("#models-head >> text=Models")
    page.click("header button[title]")
    assert page.locator("html").get_attribute("data-theme") == "light"


def test_everything_is_reached_by_keyboard(open_page: Open, size: str) -> None:
    """Tab alone visits the whole page, in the order in which it is read."""
    page = open_page(size)
    seen: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        where = page.evaluate(
            "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
        )
        seen.append(str(where))
        if "tab-plan" in seen:
            break
    for wanted in ("skip", "add-model", "main", "knob-context", "knob-headroom", "add-card", "tab-plan"):
        assert any(wanted in one for one in seen), (wanted, seen)
    page.keyboard.press("ArrowRight")
    assert state(page, "tab") == "replay"
