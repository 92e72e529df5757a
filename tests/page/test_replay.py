""" "Replay": times, memory and swaps over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.page.conftest import fits_the_width, picture

Open = Callable[..., Any]


def test_replay_plots_times_memory_and_swaps(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.select_option(".top select", "day-and-night")
    page.wait_for_selector(".label[data-replica=digest], .names >> text=digest")
    page.click("#tab-replay")
    page.select_option("#policy", "swap")
    page.click(".bar-form button.main")
    page.wait_for_selector(".u-wrap canvas")
    titles = page.locator(".plot figcaption").all_inner_texts()
    for word in ("Time to first token", "Time per output token", "Memory in use", "Swaps"):
        assert any(word in title and "over time" in title for title in titles)
    assert page.locator(".plot canvas").count() >= 6
    legends = page.locator(".plot .u-value").all_inner_texts()
    assert not any("--" in one for one in legends)  # nobody points at a plot: the highest values are told
    assert any(one.startswith("max ") and one.endswith(" GiB") for one in legends)
    fits_the_width(page)
    picture(page, f"{size}-replay")
