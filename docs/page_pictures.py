"""Take the pictures of the page: `python docs/page_pictures.py` (needs the extras `ui` and `page`, and Chromium).

Each is a real answer of a real server, as a person sees it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from bench.page_browser import pages  # noqa: E402
from bench.page_server import server  # noqa: E402


def keep(page: Any, name: str, height: int) -> None:
    """The upper `height` pixels of the page, at rest."""
    page.mouse.move(2, 2)
    page.wait_for_timeout(600)
    page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
    page.wait_for_timeout(300)
    page.screenshot(path=HERE / "images" / f"page-{name}.png")


def plan(page: Any) -> None:
    """The example, solved."""
    keep(page, "plan", 640)


def moved(page: Any) -> None:
    """Six models and a shop of cards; one moved where it does not fit."""
    page.select_option(".top select", "shop-four-types")
    page.wait_for_selector(".label[data-replica=assistant]")
    page.click(".label[data-replica=complete]")
    page.select_option("#move-to", index=0)
    page.wait_for_selector(".note")
    keep(page, "move", 900)


def replayed(page: Any) -> None:
    """Six models on shared cards, over time."""
    page.select_option(".top select", "shop-four-types")
    page.wait_for_selector(".label[data-replica=assistant]")
    page.click("#tab-replay")
    page.click(".bar-form button.main")
    page.wait_for_selector(".u-wrap canvas")
    page.evaluate("document.querySelector('.below').scrollIntoView()")
    keep(page, "replay", 860)


def main() -> None:
    """All pictures."""
    with server() as url, pages(url) as opened:
        plan(opened(color_scheme="light"))
        moved(opened(color_scheme="dark"))
        replayed(opened(color_scheme="light"))
        keep(opened("phone", color_scheme="light"), "phone", 844)


if __name__ == "__main__":
    main()
