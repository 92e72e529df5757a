"""What is seen at first: the answer, each byte to scale, and where each comes from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant.domain.plan import Plan
from tests.page.conftest import TRIO, fits_the_width, picture

Open = Callable[..., Any]
Planned = Callable[[Path], Plan]


def test_the_first_look_is_the_answer(open_page: Open, size: str, planned: Planned) -> None:
    """The example's plan, each byte drawn to scale."""
    page = open_page(size)
    plan = planned(TRIO)
    card = plan.gpus[0]
    bar = page.locator(".card").first.locator(".bar").bounding_box()
    for part in page.locator(".card .part").all():
        share = next(one for one in card.shares if one.replica == part.get_attribute("data-replica"))
        assert part.bounding_box()["width"] / bar["width"] == pytest.approx(
            share.claimed_bytes / card.capacity_bytes, abs=0.006
        )
    assert "proven optimal" in page.locator(".figures").inner_text()
    assert "21 cards" in page.locator(".figures").inner_text()
    fits_the_width(page)
    picture(page, f"{size}-first-look")


def test_hover_and_focus_say_where_bytes_come_from(open_page: Open, size: str, planned: Planned) -> None:
    page = open_page(size)
    page.hover(".part[data-replica=chat] .seg.weights")
    page.wait_for_selector(".tip >> text=70.6B parameters in awq-int4")
    share = planned(TRIO).gpus[0].shares[0]
    assert f"{share.weights_bytes / 2**30:.2f} GiB" in page.locator(".tip").inner_text()
    picture(page, f"{size}-hover")
    page.focus(".label[data-replica=code]")
    page.wait_for_selector(".tip >> text=7.25B parameters in fp8")
    assert "KV cache" in page.locator(".tip").inner_text()
