"""What is promised is seen at once, and what is said is said of what is drawn: no figure outlives its question."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cotenant.domain.plan import Plan
from tests.page.conftest import TRIO, fits_the_width, picture, slide, state, until
from tests.page.doing import add_card

Open = Callable[..., Any]
Planned = Callable[[Path], Plan]


def test_what_was_changed_since_is_no_headline(open_page: Open, size: str) -> None:
    """Cost, bound and gap are of the fleet as it was; they step back, and nothing is called proven any more."""
    page = open_page(size)
    assert page.locator(".figures .old").count() == 0
    page.click(".label[data-replica=code]")
    slide(page, "rate", 0.3)
    until(page, "now.answers.code")
    assert "changed since it was solved" in page.locator(".solve").inner_text()
    assert page.locator(".figures .old").count() == 4
    assert "proven" not in page.locator(".figures").inner_text()
    page.wait_for_selector(".old-note >> text=as it was solved")
    fits_the_width(page)
    picture(page, f"{size}-stale")
    page.click(".solve .main")
    until(page, "now.stale === false && now.work === null")
    assert page.locator(".figures .old, .old-note").count() == 0
    assert "proven optimal" in page.locator(".figures").inner_text()


def test_a_target_that_may_not_hold_is_seen_at_once(open_page: Open, size: str) -> None:
    """Beside the figures, on every tab, never folded; the remarks have the others. So does the terminal."""
    page = open_page(size)
    page.select_option(".top select", "day-and-night")
    until(page, "now.work === null && now.plan?.replicas.some((one) => one.id === 'digest')")
    warnings = state(page, "plan.warnings")
    told = [one for one in warnings if re.search(r"\b(target|SLO)\b|: steps take ", one)]
    assert told
    lines = page.locator(".promises li").all_inner_texts()
    assert lines == told
    assert page.locator("details .promises, .remarks >> text=may not hold").count() == 0
    page.click("#tab-export")
    assert page.locator(".promises").is_visible()
    fits_the_width(page)
    picture(page, f"{size}-promises")


def test_who_breaks_beside_busy_neighbours_is_said_with_figures(open_page: Open) -> None:
    page = open_page()
    page.evaluate("""import('/static/store.js').then((store) => store.set(({ plan }) => ({ plan: { ...plan,
        strained: [{ model: 'chat', targets: ['TPOT'], neighbours: ['code', 'triage'] }],
        warnings: ['chat beside code and triage at their peak: TPOT ~34 ms alone, ~120 ms (target 100 ms)',
            'chat: estimated TTFT at p95 is 1 s, up to 9 s: the target of 5 s may not hold', 'code: more'],
        } })))""")
    page.wait_for_selector(".promises")
    lines = page.locator(".promises li").all_inner_texts()
    assert len(lines) == 2
    assert lines[0].startswith("chat misses its TPOT target beside code, triage at their peak")
    assert "~120 ms (target 100 ms)" in lines[0]
    assert "may not hold" in lines[1]
    page.click(".remarks summary")
    assert page.locator(".remarks li").all_inner_texts() == ["code: more"]


def test_headroom_is_that_of_the_fullest_card_as_everywhere(open_page: Open, planned: Planned) -> None:
    page = open_page()
    plan = planned(TRIO)
    least = min(gpu.headroom_bytes / gpu.capacity_bytes for gpu in plan.gpus)
    told = page.locator(".figures > dl > div", has_text="Headroom").inner_text().replace("\u202f", " ")
    assert f"{100 * least:.1f} %" in told
    assert "asked 12 %" in told
    add_card(page, "L4")
    page.click(".label[data-replica=code]")
    page.select_option("#move-to", index=1)
    page.wait_for_selector(".note")
    cards = state(page, "checked.gpus")
    least = min(1 - sum(one["bytes"] for one in gpu["replicas"]) / gpu["capacity_bytes"] for gpu in cards)
    told = page.locator(".figures > dl > div", has_text="Headroom").inner_text().replace("\u202f", " ")
    assert f"{100 * least:.1f} %" in told


def test_times_have_the_intervals_that_warnings_speak_of(open_page: Open) -> None:
    page = open_page()
    told = page.locator(".answer p.small").first.inner_text()
    low, _, high = state(page, "plan.replicas[0].ttft_s")
    assert "90 % interval" in told
    assert f"{high:.2f} s" in told or f"{high:.1f} s" in told
    assert f"{1000 * low:.0f} ms" in told or f"{low:.2f} s" in told


def test_a_replay_says_first_who_kept_its_promises(open_page: Open) -> None:
    """A model that nobody asked proves nothing: at the busiest hour, by night, `chat` sleeps."""
    page = open_page()
    page.select_option(".top select", "day-and-night")
    until(page, "now.work === null && now.plan?.replicas.some((one) => one.id === 'digest')")
    page.click("#tab-replay")
    page.click(".conditions summary")
    page.fill("#when-duration", "60s")
    page.click(".bar-form button.main")
    page.wait_for_selector(".verdict")
    found = {one["model"]: one for one in state(page, "replay.models")}
    assert not found["chat"]["requests"]
    told = page.locator(".verdict").inner_text()
    assert "not asked: chat" in told
    assert ("Every SLO of those asked held" in told) == found["digest"]["slo_held"]
    assert "not asked" in page.locator("#tab-body .wide tr", has_text="chat").inner_text()
