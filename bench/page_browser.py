"""The page in a real browser: how soon it paints, how soon a slider is answered, what axe-core finds.

`bench.page` asks for its rows here. Chromium is driven by playwright (the extra `page`); COTENANT_BROWSER: where.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module, util
from importlib.resources import files
from statistics import median
from typing import Any

from bench.page_server import server
from bench.table import CannotRunError

Measured = float | tuple[float, Mapping[str, object]]
LOADS, MOVES = 9, 120
SIZES = {"desk": (1440, 1000), "phone": (390, 844)}
_PATIENCE_MS = 300_000
# What each slider is moved to, in turn: as far as a finger goes, never the same place twice.
_SLIDERS = {"context": (9.0, 14.0), "rate": (-2.0, 0.5), "utilisation": (20.0, 95.0), "held": (0.0, 40.0)}


def measure(name: str) -> Measured:
    """The row of that id. Raises CannotRunError where there is no browser to drive."""
    found: Callable[[], Measured] = {
        "first_paint_s": first_paint_s,
        "slider_p95_ms": slider_p95_ms,
        "axe_serious": axe_serious,
    }[name]
    return found()


def browser_path() -> str:
    """Where Chromium is. Raises CannotRunError."""
    found = os.environ.get("COTENANT_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        raise CannotRunError("no Chromium on this machine; COTENANT_BROWSER says where one is")
    return found


@contextmanager
def pages(url: str) -> Iterator[Callable[..., Any]]:
    """A function that opens the page in a fresh context: nothing is kept from an earlier one."""
    if util.find_spec("playwright") is None:
        raise CannotRunError("playwright is not installed: pip install '.[page]'")
    with import_module("playwright.sync_api").sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=["--no-sandbox", "--disable-gpu"])

        def opened(size: str = "desk", *, wait: bool = True, **options: Any) -> Any:
            wide, high = SIZES[size]
            context = browser.new_context(viewport={"width": wide, "height": high}, locale="en-GB", **options)
            context.set_default_timeout(_PATIENCE_MS)
            page = context.new_page()
            page.goto(url)
            if wait:
                page.wait_for_selector(".label")
            return page

        yield opened
        browser.close()


def first_paint_s() -> Measured:
    """First contentful paint with nothing in any cache, the median of a few loads; when the answer was drawn."""
    paints, answers = [], []
    with server() as url, pages(url) as opened:
        for _ in range(LOADS):
            page = opened()
            answers.append(page.evaluate("performance.now()") / 1000)
            entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            paints.append(page.evaluate(entry) / 1000)
            page.context.close()
    return median(paints), {
        "loads": LOADS, "worst": round(max(paints), 3), "answer_drawn_s": round(median(answers), 2)
    }  # fmt: skip


def slider_p95_ms() -> Measured:
    """From the event of a moved slider to the frame that shows its answer, by the browser's own clock."""
    with server() as url, pages(url) as opened:
        page = opened()
        page.click(".label[data-replica=code]")
        waits = [page.evaluate(_MOVE, list(move)) for move in _moves(MOVES)]
    waits = sorted(waits[8:])  # the first answers open the model
    return waits[int(0.95 * (len(waits) - 1))], {"moves": len(waits), "p50_ms": round(median(waits), 1)}


def _moves(number: int) -> Iterator[tuple[str, float]]:
    names = list(_SLIDERS)
    for move in range(number):
        name = names[move % len(names)]
        low, high = _SLIDERS[name]
        yield name, low + (high - low) * ((move * 0.618034) % 1)  # spread evenly, in no order


# One move, then its answer: the page leaves an entry "slider" on the browser's timeline when it is drawn.
_MOVE = """([knob, value]) => new Promise((answered) => {
    performance.clearMeasures('slider');
    new PerformanceObserver((list, observer) => {
        const found = list.getEntriesByName('slider').pop();
        if (!found) return;
        observer.disconnect();
        setTimeout(() => answered(found.duration), 30);
    }).observe({ type: 'measure' });
    const slider = document.getElementById(`knob-${knob}`);
    slider.value = value;
    slider.dispatchEvent(new Event('input', { bubbles: true }));
})"""


def axe_serious() -> Measured:
    """Serious and critical violations over the views, in light and dark, at a desk and on a phone."""
    found: list[str] = []
    with server() as url, pages(url) as opened:
        for size in SIZES:
            for scheme in ("light", "dark"):
                page = opened(size, color_scheme=scheme)
                found += audited(page)
                for tab in ("replay", "explain", "export", "live"):
                    page.click(f"#tab-{tab}")
                    found += audited(page)
                page.context.close()
    return float(len(found)), {"views": 20, **({"first": found[0]} if found else {})}


COLOURS = ("color-contrast", "link-in-text-block")  # axe-core's rules that see colours, of those that it runs


def audited(
    page: Any, *, least: tuple[str, ...] = ("serious", "critical"), rules: tuple[str, ...] = ()
) -> list[str]:
    """What axe-core says of the page: each violation of the impacts `least`, as `rule: what, where`; by `rules`
    alone, where some are named.

    It is a test's tool alone and never shipped: its file comes with axe-playwright-python.
    """
    page.wait_for_timeout(400)  # colours on their way are not what is read
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"() => {{ {_axe()} }}")
    found = page.evaluate(
        """(rules) => axe.run(document, { resultTypes: ['violations'],
            ...(rules.length ? { runOnly: { type: 'rule', values: rules } } : {}) })
            .then((told) => told.violations)""",
        list(rules),
    )
    return [
        f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:4]}"
        for one in found
        if one["impact"] in least
    ]


@cache
def _axe() -> str:
    if util.find_spec("axe_playwright_python") is None:
        raise CannotRunError("axe-core is not installed: pip install '.[page]'")
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
