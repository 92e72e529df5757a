"""The Chinese page speaks Chinese while it works; reasons stay as the commands say them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Open = Callable[..., Any]
SAID = (
    "sizing candidates", "packing", "a first plan is known", "planned", "writing down the reasons",
    "looking at who may take turns", "replaying the plan, round 2", "drawing requests",
    "simulating, request 1,000 of 20,000", "simulating 1,000 requests on 3 replicas", "with a spare, way 1 of 4",
    "reading the fleet", "simulating 1 request on 1 replica",
)  # fmt: skip


def test_progress_is_told_in_chinese(open_page: Open) -> None:
    page = open_page(locale="zh-CN")
    told = page.evaluate(
        """(said) => import('/static/progress.js').then((one) => said.map((line) =>
            [one.progressText(line, 'zh'), one.progressText(line, 'en')]))""",
        list(SAID),
    )
    for line, (chinese, english) in zip(SAID, told, strict=True):
        assert english == line
        assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese)
        assert not any(word in chinese for word in line.split() if word.isalpha())
    assert "20,000" in told[8][0]


def test_cost_while_solving_has_its_unit(open_page: Open) -> None:
    page = open_page()
    page.evaluate("""import('/static/store.js').then((store) => store.set({ work:
        { kind: 'solve', lines: ['packing'], cost: 3.5, bound: 3.25, gap: 0.08, priced: true, stop() {} } }))""")
    page.wait_for_selector(".figures >> text=$3.50/h")
    assert "$3.25/h" in page.locator(".figures").inner_text()
