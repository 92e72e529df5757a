"""What is typed wrong is said, never swallowed; what is asked of a plan is asked of the one that is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.page.conftest import fits_the_width, picture, slide, state, until
from tests.page.doing import add_card

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


def test_a_card_that_is_none_is_said_with_the_nearest(open_page: Open, size: str) -> None:
    page = open_page(size)
    page.fill("#add-card", "L44")
    page.wait_for_selector(".cards [role=alert] >> text=Did you mean L4")
    page.keyboard.press("Enter")
    assert len(state(page, "fleet.gpus")) == 1
    page.fill("#add-card", "zzzzzzzzzzzz")
    page.wait_for_selector(".cards [role=alert] >> text=No card in the catalogue is called zzzzzzzzzzzz.")
    fits_the_width(page)


def test_a_price_and_a_number_that_are_none_are_said(open_page: Open) -> None:
    page = open_page()
    before = state(page, "fleet.gpus")
    number, price = page.locator(".pool-row input[type=number]"), page.locator(".pool-row input[type=text]")
    for field, typed, said in (
        (number, "-3", "-3 is no number of cards"), (number, "1.5", "1.5 is no number"),
        (price, "-1", "-1 is no price"), (price, "cheap", "cheap is no price"),
    ):  # fmt: skip
        shown = field.input_value()
        field.fill(typed)
        field.press("Enter")
        field.blur()
        page.wait_for_selector(f".pool [role=alert] >> text={said}")
        assert field.input_value() == shown
        assert state(page, "fleet.gpus") == before
    picture(page, "desk-wrong-price")
    price.fill("1.29")
    price.blur()
    until(page, "now.fleet.gpus[0].price === '$1.29/h'")
    assert page.locator(".pool [role=alert]").count() == 0


def test_utilisation_is_a_slider_of_every_engine_that_has_one(open_page: Open) -> None:
    """SGLang calls it mem_fraction_static; Ollama has none."""
    page = open_page()
    fleet = """gpus: [{type: L40S, count: 2}]
models:
  - {name: a, model: Qwen/Qwen3-8B, engine: sglang, traffic: {concurrent: 4, context_tokens: {p95: 2000}}}
  - {name: b, model: Qwen/Qwen3-8B, engine: ollama, traffic: {concurrent: 4, context_tokens: {p95: 2000}}}
"""
    page.evaluate("(text) => { import('/static/asking.js').then((asking) => asking.solve(text)); }", fleet)
    until(page, "now.plan?.replicas.some((one) => one.engine.startsWith('sglang'))")
    page.click(".label[data-replica=b]")
    page.wait_for_selector("#knob-utilisation", state="detached")
    page.click(".label[data-replica=a]")
    page.wait_for_selector("[title=mem_fraction_static] #knob-utilisation")
    slide(page, "utilisation", 40)
    until(page, "now.answers.a")
    assert state(page, "answers.a.document.settings.gpu_memory_utilization") == 0.4


_LOG = """INFO 07-01 12:00:00 [gpu_model_runner.py:1] Model loading took 14.9889 GiB and 3.1 seconds
INFO 07-01 12:00:01 [gpu_worker.py:1] Available KV cache memory: 50.21 GiB
"""


def test_a_path_is_said_to_be_no_model_of_a_page(open_page: Open) -> None:
    page = open_page()
    for typed in ("./my-model", "/srv/models/llama", "~/llama", "C:\\models", "llama.gguf"):
        page.fill("#add-model", typed)
        page.wait_for_selector(".models [role=alert] >> text=A page opens no file or folder by name")
    page.fill("#add-model", "no-such-model")
    page.wait_for_selector(".models [role=alert] >> text=A hub id has the form OWNER/NAME.")


def test_a_log_without_its_model_is_explained_beside_the_model_that_is_named(open_page: Open, size: str) -> None:
    """And what is refused is seen where one is, far below the top of a phone's page too."""
    page = open_page(size)
    page.click("#tab-explain")
    page.fill("#log", _LOG)
    page.fill("#log-model", "./x")
    page.click(".ask button.main")
    page.wait_for_selector(".faults >> text=opens no file or folder")
    top, bottom, high = page.evaluate(
        "(() => { const at = document.querySelector('.faults').getBoundingClientRect();"
        " return [at.top, at.bottom, innerHeight]; })()"
    )
    assert 0 <= top < bottom < high
    fits_the_width(page)
    page.fill("#log-model", "meta-llama/Llama-3.1-8B-Instruct")
    page.select_option("#log-card", "A100-80GB-SXM")
    page.click(".ask button.main")
    page.wait_for_selector(".found")
    assert [cell.strip() for cell in page.locator(".found tbody tr >> nth=0 >> td").all_inner_texts()][:2] == [
        "14.99 GiB",
        "14.99 GiB",
    ]
