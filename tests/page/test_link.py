# ruff: noqa: E501 - scripts of a page
"""A link carries the whole state, and what it carries stays text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.page.conftest import slide, state, until
from tests.page.doing import add_card

Open = Callable[..., Any]


def test_a_link_carries_everything(open_page: Open, size: str) -> None:
    page = open_page(size)
    add_card(page, "L4")
    page.click(".label[data-replica=code]")
    page.select_option("#move-to", index=1)
    page.wait_for_selector(".note")
    slide(page, "context", 12)
    until(page, "now.answers.code?.document.verdict")
    page.click("text=Copy link")
    page.wait_for_selector("text=Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    other = open_page(size, at=link)
    assert other.locator("[data-card^='L4'] .part").get_attribute("data-replica") == "code"
    for part in ("fleet", "plan", "checked.breaks", "picked", "tab"):
        assert state(other, part) == state(page, part)
    until(other, "now.answers.code?.document.verdict")  # what the slider was told is asked anew
    assert state(other, "answers.code.document.per_gpu") == state(page, "answers.code.document.per_gpu")
    broken = open_page(size, at=link[:-40], wait=True)
    assert "could not be read" in broken.locator(".faults").inner_text()


def test_script_in_a_name_stays_text(open_page: Open) -> None:
    """A link is anybody's: what it names is shown as it is written, and nothing of it runs."""
    page = open_page()
    evil = "<img src=x onerror=document.title='run'>"
    page.evaluate(
        """(evil) => import('/static/store.js').then((store) => {
            const { plan, fleet } = structuredClone({ plan: store.get().plan, fleet: store.get().fleet });
            fleet.models[0].name = plan.replicas[0].model = evil;
            fleet.models[0].model = evil;
            plan.replicas[0].id = plan.gpus[0].replicas[0].id = evil;
            plan.replicas[0].why = plan.replicas[0].command = evil;
            plan.gpus[0].type = fleet.gpus[0].type = evil;
            plan.warnings = [evil];
            store.set({ plan, fleet });
        })""",
        evil,
    )
    page.wait_for_selector(f'.label[data-replica="{evil}"]')
    page.wait_for_timeout(500)
    assert page.locator("img[src=x]").count() == 0
    assert page.title() == "Cotenant"


def test_a_link_that_unfolds_without_end_is_refused(open_page: Open) -> None:
    """A hundred thousand letters that would be 64 MB: unpacked no further than a link may be."""
    page = open_page()
    bomb = page.evaluate(
        """async () => {
            const zeros = new Blob([new Uint8Array(64e6).fill(48)]).stream();
            const packed = new Uint8Array(await new Response(zeros.pipeThrough(new CompressionStream('deflate-raw'))).arrayBuffer());
            let text = '';
            for (let at = 0; at < packed.length; at += 0x8000) text += String.fromCharCode(...packed.subarray(at, at + 0x8000));
            return '1.' + btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
        }"""
    )
    assert len(bomb) < 200_000
    other = open_page(at=f"/#{bomb}")
    assert "unfolds to too much" in other.locator(".faults").inner_text()
    assert other.locator(".label").count() == 3  # the example stands
