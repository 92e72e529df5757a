""" "Solve": its progress, what it costs, the bound and the gap, and what does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import yaml

import cotenant
from cotenant.domain.plan import Plan
from tests.page.conftest import SHOP, fits_the_width, picture

Open = Callable[..., Any]


@cache
def half_a_shop() -> tuple[str, Plan]:
    """The example's large model, its long one apart from it, and its smallest, on cards for hire: in seconds."""
    value = yaml.safe_load(SHOP.read_text())
    value["models"] = [one for one in value["models"] if one["name"] in ("assistant", "analyst", "embed")]
    value["models"][1]["apart_from"] = ["assistant"]
    return json.dumps(value), cotenant.plan(value)


def test_solve_shows_its_progress_and_the_cost(open_page: Open, size: str) -> None:
    page = open_page(size)
    text, plan = half_a_shop()
    page.evaluate("(text) => { import('/static/asking.js').then((asking) => asking.solve(text)); }", text)
    page.wait_for_selector("progress")
    picture(page, f"{size}-solving")
    page.wait_for_selector(".label[data-replica=assistant]")
    told = page.locator(".figures").inner_text()
    assert f"${plan.cost_per_hour:.2f}/h" in told
    assert "proven optimal" in told
    assert len(plan.gpus) > 1
    assert page.locator(".bars > li:not(.ghost)").count() == len(plan.gpus)
    fits_the_width(page)
    picture(page, f"{size}-shop")


def test_what_does_not_fit_is_said(open_page: Open, size: str) -> None:
    """Before the bars: why, and what would make it fit."""
    page = open_page(size)
    page.select_option(".top select", "does-not-fit")
    page.wait_for_selector(".figures .bad")
    page.wait_for_selector(".bad-note")
    lacks, bars = page.locator(".bad-note").bounding_box(), page.locator(".bars").bounding_box()
    assert lacks["y"] + lacks["height"] <= bars["y"]
    assert page.locator(".bad-note li li").count() >= 2
    fits_the_width(page)
    picture(page, f"{size}-does-not-fit")
