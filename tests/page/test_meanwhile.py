# ruff: noqa: E501 - scripts of a page
"""What is done while an answer is on its way, and what links, retries and waits say of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.page.conftest import slide, state, until

Open = Callable[..., Any]


def held(page: Any, path: str) -> list[Any]:
    """Requests of `path` are kept until somebody lets them go on."""
    waiting: list[Any] = []
    page.route(f"**/api/{path}", lambda route: waiting.append(route))
    return waiting


def arrived(page: Any, waiting: list[Any]) -> Any:
    """The first request that is held."""
    while not waiting:
        page.wait_for_timeout(20)
    return waiting.pop(0)


def test_stop_before_the_server_has_the_question(open_page: Open) -> None:
    """The job that comes of it is cancelled as soon as its id is known; the page does not wait for that."""
    page = open_page()
    jobs: list[str] = []
    page.on("request", lambda asked: jobs.append(f"{asked.method} {asked.url}"))
    slide(page, "headroom", 13)
    waiting = held(page, "plan")
    page.click(".solve .main")
    question = arrived(page, waiting)
    page.click(".solve .main >> text=Cancel")
    until(page, "now.work === null")
    assert "changed since" in page.locator(".solve").inner_text()
    with page.expect_request(lambda asked: asked.method == "DELETE") as stopped:
        question.continue_()
    assert "/api/jobs/" in stopped.value.url
    assert not any(one.endswith("/events") for one in jobs)
    assert state(page, "fleet.headroom") == "13%"


def test_a_link_that_holds_nonsense_leaves_a_page(open_page: Open) -> None:
    """What was written by another release, or by hand: it is told, and something else can be opened."""
    page = open_page()
    for wrong in ("plan: { replicas: [{}], gpus: [{}] }", "fleet: { models: [{}], gpus: [{}] }"):
        link = page.evaluate(
            f"async (now) => '#' + await (await import('/static/link.js')).encode({{ ...now, {wrong} }})",
            {"fleet": state(page, "fleet"), "plan": state(page, "plan")},
        )
        other = open_page(at=f"/{link}", wait=False)
        other.wait_for_selector(".faults")
        other.select_option(".top select", "raw-figures")
        other.wait_for_selector(".label")


def test_what_is_changed_while_it_solves_stays(open_page: Open) -> None:
    page = open_page()
    page.click(".label[data-replica=code]")
    slide(page, "headroom", 11)
    waiting = held(page, "plan")
    page.click(".solve .main")
    question = arrived(page, waiting)
    slide(page, "rate", 0)  # one a second
    until(page, "now.answers.code")
    question.continue_()
    page.unroute("**/api/plan")
    until(page, "now.plan.headroom === 0.11 && now.work === null")
    assert state(page, "fleet.models[1].traffic.requests_per_second") == 1
    assert state(page, "stale") is True
    assert "changed since" in page.locator(".solve").inner_text()
    until(page, "now.answers.code?.document.kv_cache")  # asked anew beside the new answer
    # a link says the same, wherever it is opened
    page.click("text=Copy link")
    page.wait_for_function("location.hash.length > 100")
    link = page.url
    other = open_page(at=link)
    assert state(other, "stale") is True
    assert "changed since" in other.locator(".solve").inner_text()
    other.click(".solve .main")
    until(other, "now.stale === false && now.work === null")
    other.evaluate("(hash) => { location.hash = ''; location.hash = hash; }", link.split("#")[1])
    until(other, "now.stale === true")


def test_a_move_while_it_solves_stays(open_page: Open) -> None:
    page = open_page()
    page.fill("#add-card", "L4")
    page.wait_for_selector("[role=option]")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-card^='L4']")
    waiting = held(page, "plan")
    page.click(".solve .main")
    question = arrived(page, waiting)
    page.click(".label[data-replica=code]")
    page.select_option("#move-to", index=1)
    until(page, "now.checked")
    question.continue_()
    page.unroute("**/api/plan")
    page.wait_for_selector(".faults >> text=Something was changed meanwhile")
    assert page.locator("[data-card^='L4'] .part").get_attribute("data-replica") == "code"


def test_a_failed_reason_is_asked_again(open_page: Open) -> None:
    page = open_page()
    page.route("**/api/estimate", lambda route: route.abort())
    page.focus(".label[data-replica=chat]")
    page.wait_for_selector(".tip")
    page.wait_for_timeout(300)
    page.unroute("**/api/estimate")
    page.focus(".label[data-replica=code]")
    page.focus(".label[data-replica=chat]")
    page.wait_for_selector(".tip >> text=70.6B parameters")


def test_questions_say_which_tab_asks_and_all_that_the_model_says(open_page: Open) -> None:
    page, other = open_page(), open_page()
    tabs = set()
    for one in (page, other):
        with one.expect_request("**/api/estimate") as asked:
            one.click(".label[data-replica=code]")
            slide(one, "context", 11)
        tabs.add(asked.value.headers["x-client"])
    assert len(tabs) == 2
    assert all(len(tab) == 24 for tab in tabs)
    page.evaluate(
        """import('/static/store.js').then((store) => store.set(({ fleet }) => ({ fleet: { ...fleet, models:
            fleet.models.map((one) => ({ ...one, speculative_config: { method: 'ngram', num_speculative_tokens: 3 } })) } })))"""
    )
    with page.expect_request("**/api/estimate") as asked:
        slide(page, "context", 12)
    assert asked.value.post_data_json["speculative_config"] == {"method": "ngram", "num_speculative_tokens": 3}


def test_commands_break_between_words_alone(open_page: Open, size: str) -> None:
    """No flag and no value that fits a line stands on two of them."""
    page = open_page(size)
    words = page.evaluate(
        """[...document.querySelectorAll('.answer .code span')].map((one) => {
            const range = document.createRange();
            range.selectNodeContents(one);
            const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
            return [one.textContent, lines, one.getBoundingClientRect().width, one.parentElement.clientWidth || one.closest('pre').clientWidth];
        })"""
    )
    assert len(words) > 30
    assert [word for word, lines, *_ in words if lines > 1 and len(word) < 36] == []
    commands = page.locator(".answer .code code").all_inner_texts()
    assert [one.replace("\n", "") for one in commands] == state(page, "plan.replicas.map((one) => one.command)")
