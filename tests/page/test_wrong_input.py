"""What is typed wrong is said, never swallowed; what is asked of a plan is asked of the one that is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.page.conftest import slide, state, until
from tests.page.test_page import add_card

Open = Callable[..., Any]


def test_a_replay_is_of_the_plan_drawn(open_page: Open) -> None:
    """Moved by hand, and a slider turned since: the bars that are seen are what is replayed."""
    page = open_page()
    add_card(page, "L4")
    page.click(".label[data-replica=code]")
    page.select_option("#move-to", index=1)
    page.wait_for_selector(".note")
    slide(page, "rate", 0.1)
    page.click("#tab-replay")
    page.fill("#when-duration" if page.locator("#when-duration").is_visible() else "#seed", "5")
    with page.expect_request("**/api/simulate") as asked:
        page.click(".bar-form button.main")
    body = asked.value.post_data_json
    until(page, "now.replay")
    assert body["plan"] == state(page, "checked.plan")
    assert body["fleet"] == state(page, "fleet")
    code = next(one for one in body["plan"]["replicas"] if one["id"] == "code")
    assert code["devices"][0]["type"] == "L4"
