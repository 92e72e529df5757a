"""The live tab follows real gateways: one whose engines are gone, one whose engines take turns, one with a key."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.live_case import MIB, Gateway, plan_document
from tests.page.conftest import TRIO, fits_the_width, picture, served, until

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page that follows a real gateway whose engines are elsewhere, and do not answer."""
    pytest.importorskip("aiohttp")
    argv = [sys.executable, "-m", "cotenant", "serve", str(TRIO), "--port", "0"]
    argv += ["--state", str(tmp_path_factory.mktemp("gateway"))]
    argv += [word for name in ("chat", "code", "triage") for word in ("--url", f"{name}=http://127.0.0.1:9")]
    gateway = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        assert gateway.stderr is not None
        said = ""
        while '"port"' not in said and "http://" not in said:
            said = gateway.stderr.readline()
            assert said
        with served("--gateway", f"http://127.0.0.1:{json.loads(said)['port']}") as url:
            yield url
    finally:
        gateway.terminate()
        gateway.communicate(timeout=60)


def test_live_follows_a_gateway(open_page: Open, size: str, followed: str) -> None:
    """What it says of itself, and that its engines do not answer."""
    page = open_page(size, at=followed)
    page.click("#tab-live")
    page.wait_for_selector(".lives table")
    assert page.locator(".lives tbody tr").count() == 3
    page.wait_for_selector(".lives >> text=does not answer")
    assert "of 79.2 GiB" in page.locator(".ledger").inner_text()
    assert page.locator(".lives .slo").first.inner_text() == "SLO TTFT – · TPOT –"
    fits_the_width(page)


KEY = "a-key-of-twenty-letters"


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Two models on a budget for one, with stub engines that take 50 ms a token; it asks for a key."""
    pytest.importorskip("aiohttp")
    folder = tmp_path_factory.mktemp("turns")
    (folder / "keys").write_text(f"page {KEY}\n")
    (folder / "keys").chmod(0o600)
    document = plan_document({"chat": 100 * MIB, "code": 100 * MIB}, 150 * MIB)
    flags = ("--residency", "0s", "--api-keys", str(folder / "keys"))
    one = Gateway(folder, document, *flags, stub=("--token-s", "0.05"))
    try:
        yield one
    finally:
        one.stop()


def told(page: Any, model: str) -> str:
    """The line of a model's queue, in one piece."""
    found: str = page.locator(".lives .plainlist li", has_text=model).inner_text()
    return " ".join(found.split())


@pytest.fixture(scope="module")
def follower(turns: Gateway) -> Iterator[str]:
    """A page that follows it."""
    with served("--gateway", f"http://127.0.0.1:{turns.port}") as url:
        yield url


def test_live_shows_queue_residency_swaps_and_slo(
    open_page: Open, size: str, turns: Gateway, follower: str
) -> None:
    """Asked at first for the gateway's key; then while one model streams, and the other waits for its place."""
    page = open_page(size, at=follower)
    page.click("#tab-live")
    page.fill("#gateway-key", KEY)
    page.click(".door button")
    page.wait_for_selector(".lives table")
    door = {"Authorization": f"Bearer {KEY}"}
    body = {"model": "code", "messages": [], "stream": True, "max_tokens": 5}
    turns.ask("/v1/chat/completions", body, headers=door)
    busy = http.client.HTTPConnection("127.0.0.1", turns.port)
    busy.request("POST", "/v1/chat/completions", json.dumps(body | {"max_tokens": 20_000}), door)
    stream = busy.getresponse()
    until(page, "now.live.status.replicas.some((one) => one.model === 'code' && one.running === 1)")
    other = {"target": turns.ask, "args": ("/v1/chat/completions", body | {"model": "chat"})}
    waits = threading.Thread(**other, kwargs={"headers": door, "timeout": 300}, daemon=True)
    waits.start()
    until(page, "now.live.status.models.find((one) => one.name === 'chat').waiting === 1")
    page.wait_for_selector(".lives li:has-text('chat') .num:text-is('1')")
    page.wait_for_selector(".lives tr:has-text('code-1') >> text=1 / 2")
    picture(page, f"{size}-live")
    fits_the_width(page)
    stream.close()  # its client leaves, and the other has its turn
    busy.close()
    waits.join()
    counted = "one.name === 'cotenant_event_seconds_count' && one.labels.model === 'chat'"
    until(page, f"now.live.metrics.some((one) => {counted})")
    # the fleet asks 5 s and 100 ms of it; which share kept that is this machine's affair
    page.wait_for_selector(".lives li:has-text('chat') .slo:has-text('≤ 0.10 s')")
    assert re.search(r"SLO TTFT \d+ % ≤ 5.00 s · TPOT \d+ % ≤ 0.10 s", told(page, "chat"))
    assert re.search(r"TPOT \d+ % ≤ 50 ms", told(page, "code"))
    assert page.locator(".ledger").inner_text().startswith("CPU")
    sent_away = page.locator(".lives tr:has-text('code-1') td").last.inner_text()
    assert int(sent_away) >= 1
