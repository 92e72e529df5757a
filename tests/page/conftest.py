"""A real server and a real browser for the tests of the page. Not part of the quick tests:

    COTENANT_PAGE=1 python -m pytest tests/page -n 2 --dist loadfile

(each process has a server, a browser and folders of its own)
needs the extra `page` and a Chromium (COTENANT_BROWSER says where; by default `chromium` on PATH). Pictures of
what is seen are kept where COTENANT_PICTURES names a folder for them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import cotenant
from cotenant.domain.plan import Plan

WANTED = bool(os.environ.get("COTENANT_PAGE"))
ROOT = Path(__file__).resolve().parents[2]
TRIO, SHOP = ROOT / "examples" / "a100-trio.yaml", ROOT / "examples" / "shop-four-types.yaml"
PICTURES = Path(os.environ["COTENANT_PICTURES"]) if os.environ.get("COTENANT_PICTURES") else None
SIZES = {"desk": (1440, 1000), "phone": (390, 844)}
PATIENCE_MS = 300_000  # a loaded machine: no test is about time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder waits for COTENANT_PAGE=1."""
    skip = pytest.mark.skip(reason="COTENANT_PAGE=1 opens the page in a browser")
    for item in items:
        if not WANTED and Path(item.path).parent == Path(__file__).parent:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def planned() -> Callable[[Path], Plan]:
    """What the page must show of a fleet file: planned by whoever asks for it first."""
    return cache(cotenant.plan)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a `cotenant ui` of our own."""
    with served() as url:
        yield url


class served:  # noqa: N801 - used as a function
    """`cotenant ui` on a free port for as long as the block lasts."""

    def __init__(self, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self._argv = [sys.executable, "-m", "cotenant", "ui", "--port", "0", *options]
        self._environment = os.environ | (environment or {})

    def __enter__(self) -> str:
        self._process = subprocess.Popen(self._argv, stderr=subprocess.PIPE, text=True, env=self._environment)
        assert self._process.stderr is not None
        told = self._process.stderr.readline()
        found = re.search(r"http://[\w.:\[\]]+", told)
        assert found, told
        return found[0].rstrip("/")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, headless."""
    playwright = pytest.importorskip("playwright.sync_api")
    where = os.environ.get("COTENANT_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=where, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(params=list(SIZES))
def size(request: pytest.FixtureRequest) -> str:
    """At a desk and on a phone."""
    return str(request.param)


class Windows:
    """One context a kind of window, and its first tab for one test after the other: what it has loaded and
    compiled it need not again, as in anybody's browser. The state of the page itself lives as long as a load."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: dict[str, Any] = {}
        self._tabs: dict[str, Any] = {}
        self._lent: dict[Any, tuple[str, str]] = {}  # by tab: its window, and the colours that it began with

    def lend(self, size: str, options: dict[str, Any], *, fresh: bool = False) -> Any:
        """A tab as `size` and `options` say; `fresh`: one that nobody had before, nor will have."""
        wide, high = SIZES[size]
        wanted = {"locale": "en-GB", "permissions": ["clipboard-read", "clipboard-write"]} | options
        key = f"{size} {sorted(wanted.items())}"
        if key not in self._contexts:
            self._contexts[key] = self._browser.new_context(viewport={"width": wide, "height": high}, **wanted)
            self._contexts[key].set_default_timeout(PATIENCE_MS)
        tab = None if fresh else self._tabs.pop(key, None)
        tab = tab or self._contexts[key].new_page()
        self._lent[tab] = "" if fresh else key, wanted.get("color_scheme", "light")
        return tab

    def take_back(self, tab: Any) -> None:
        """Left as it was found, or closed where another one is kept already."""
        key, colours = self._lent.pop(tab)
        tab.evaluate("localStorage.clear()")
        if not key or key in self._tabs:
            tab.close()
            return
        tab.unroute_all()
        tab.emulate_media(color_scheme=colours)
        tab.goto("about:blank")
        self._tabs[key] = tab


@pytest.fixture(scope="session")
def windows(browser: Any) -> Windows:
    """The windows of the whole run."""
    return Windows(browser)


@pytest.fixture
def open_page(windows: Windows, server: str) -> Iterator[Callable[..., Any]]:
    """Opens the page and waits for its first answer. What the page complains of fails the test."""
    lent: list[Any] = []
    complaints: list[str] = []
    ears = {
        "pageerror": lambda error: complaints.append(str(error)),
        "console": lambda said: complaints.append(said.text) if "Content Security" in said.text else None,
    }

    def opened(size: str = "desk", *, at: str = "", wait: bool = True, fresh: bool = False, **options: Any) -> Any:
        page = windows.lend(size, options, fresh=fresh)
        lent.append(page)
        for name, ear in ears.items():
            page.on(name, ear)
        page.goto(at if at.startswith("http") else server + at)
        if wait:
            page.wait_for_selector(".label")
        return page

    yield opened
    for page in lent:
        for name, ear in ears.items():
            page.remove_listener(name, ear)
        windows.take_back(page)
    assert not complaints


def picture(page: Any, name: str) -> None:
    """Keep what is seen, where pictures are wanted."""
    if PICTURES is None:
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(300)  # what moves comes to rest
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def fits_the_width(page: Any) -> None:
    """Nothing sticks out: the page is as wide as its window."""
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window


def state(page: Any, path: str) -> Any:
    """A part of the page's own state."""
    return page.evaluate(f"import('/static/store.js').then((store) => store.get().{path})")


def slide(page: Any, knob: str, value: float) -> None:
    """Move a slider as a finger does."""
    page.evaluate(
        """([knob, value]) => {
            const slider = document.getElementById(`knob-${knob}`);
            slider.value = value;
            slider.dispatchEvent(new Event('input', { bubbles: true }));
        }""",
        [knob, value],
    )


def until(page: Any, expression: str) -> None:
    """Wait until something about the state (`now`) holds, and is drawn: the page draws in its next frame."""
    late = time.monotonic() + PATIENCE_MS / 1000
    asked = (
        f"import('/static/store.js').then((store) => {{ const now = store.get(); return Boolean({expression}); }})"
    )
    while not page.evaluate(asked):
        if time.monotonic() > late:
            raise AssertionError(f"not within {PATIENCE_MS / 1000:.0f} s: {expression}")
        page.wait_for_timeout(100)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
