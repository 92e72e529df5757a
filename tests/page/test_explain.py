""" "Explain": a log that is pasted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.page.conftest import fits_the_width, picture
from tests.page.doing import CRASH

Open = Callable[..., Any]


def test_a_log_is_explained(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.click("#tab-explain")
    page.fill("#log", CRASH)
    page.select_option("#log-card", "L4")
    page.click(".ask button.main")
    page.wait_for_selector(".found")
    told = page.locator(".found").inner_text()
    assert "16.00 GiB" in told
    assert "--max-model-len 4" in told
    fits_the_width(page)
    picture(page, f"{size}-explain")
