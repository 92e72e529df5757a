""" "Solve": its progress, what it costs, the bound and the gap, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cotenant.domain.plan import Plan
from tests.page.conftest import SHOP, fits_the_width, picture

Open = Callable[..., Any]
Planned = Callable[[Path], Plan]


def test_solve_shows_its_progress_and_the_cost(open_page: Open, size: str, planned: Planned) -> None:
    page = open_page(size)
    page.select_option(".top select", "shop-four-types")
    page.wait_for_selector("progress")
    picture(page, f"{size}-solving")
    page.wait_for_selector(".label[data-replica=assistant]")
    plan = planned(SHOP)
    told = page.locator(".figures").inner_text()
    assert f"${plan.cost_per_hour:.2f}/h" in told
    assert "proven optimal" in told
    assert page.locator(".bars > li:not(.ghost)").count() == len(plan.gpus)
    fits_the_width(page)
    picture(page, f"{size}-shop")


def test_what_does_not_fit_is_said(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.select_option(".top select", "does-not-fit")
    page.wait_for_selector(".figures .bad")
    page.wait_for_selector(".bad-note")
    fits_the_width(page)
    picture(page, f"{size}-does-not-fit")
