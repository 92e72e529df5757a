"""axe-core in a page. It is a test's tool alone and never shipped: its file comes with axe-playwright-python."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def audited(page: Any, *, least: tuple[str, ...] = ("serious", "critical")) -> list[str]:
    """Each violation of the impacts `least` as `rule: what, where`."""
    page.wait_for_timeout(400)  # colours on their way are not what is read
    page.evaluate(f"() => {{ {_axe()} }}")
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((told) => told.violations)")
    return [
        f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:4]}"
        for one in found
        if one["impact"] in least
    ]
