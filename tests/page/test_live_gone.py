"""The live tab where there is no gateway, and where a gateway serves another fleet than the page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.live_case import MIB, Gateway, plan_document
from tests.page.conftest import fits_the_width, picture, served, until

Open = Callable[..., Any]


@pytest.mark.parametrize(("locale", "says"), [("en-GB", "No gateway was named."), ("zh-CN", "没有指定网关。")])
def test_without_a_gateway_it_says_once_how_to_name_one(
    open_page: Open, size: str, locale: str, says: str
) -> None:
    """And asks no more: none will come, and no console fills with refusals."""
    page = open_page(size, locale=locale, fresh=True)  # its clock stays ours
    asked: list[str] = []
    refused: list[int] = []
    page.on("request", lambda one: asked.append(one.url) if one.url.endswith("/api/live") else None)
    page.on("response", lambda one: refused.append(one.status) if one.status >= 400 else None)
    page.clock.install()
    page.click("#tab-live")
    page.wait_for_selector(f"#tab-body .empty >> text={says}")
    page.clock.run_for(60_000)
    page.wait_for_timeout(300)
    assert len(asked) == 1
    assert refused == []
    assert "cotenant ui --gateway" in page.locator("#tab-body .code").inner_text()
    fits_the_width(page)
    picture(page, f"{size}-live-none-{locale[:2]}")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway of two models that the page's fleet does not have."""
    pytest.importorskip("aiohttp")
    folder = tmp_path_factory.mktemp("elsewhere")
    one = Gateway(folder, plan_document({"north": 100 * MIB, "south": 100 * MIB}, 300 * MIB))
    try:
        yield one
    finally:
        one.stop()


def test_models_of_another_fleet_differ_in_colour(open_page: Open, elsewhere: Gateway) -> None:
    with served("--gateway", f"http://127.0.0.1:{elsewhere.port}") as url:
        page = open_page(at=url)
        page.click("#tab-live")
        page.wait_for_selector(".lives .plainlist li")
        for model in ("north", "south"):
            elsewhere.ask("/v1/chat/completions", {"model": model, "messages": [], "max_tokens": 2})
        until(page, "now.live.status.replicas.every((one) => one.held_bytes > 0)")
        page.wait_for_selector(".ledger .seg.weights >> nth=1")
        classes = [one.get_attribute("class") for one in page.locator(".lives .plainlist li").all()]
        assert len(set(classes)) == 2
        assert not {"c0", "c1", "c2"} & set(classes)  # those of the page's own three
        shares = [one.get_attribute("class") for one in page.locator(".ledger .seg.weights").all()]
        assert [one.split()[-1] for one in shares] == classes
        picture(page, "desk-live-elsewhere")


def test_a_gateway_that_does_not_answer_is_asked_more_and_more_seldom(open_page: Open) -> None:
    with served("--gateway", "http://127.0.0.1:9") as url:
        page = open_page(at=url, fresh=True)
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url) if one.url.endswith("/api/live") else None)
        page.clock.install()
        page.click("#tab-live")
        page.wait_for_selector("#tab-body .empty >> text=does not answer")
        for _ in range(12):
            page.clock.run_for(5_000)
            page.wait_for_timeout(100)
        assert 3 <= len(asked) <= 8  # a minute; thirty at one pace
